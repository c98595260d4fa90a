package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"otm/internal/engine"
	"otm/internal/page"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/slacklist"
)

// pageSource is what the page shows of a data directory, and does in it.
type pageSource struct {
	pageReader
	pageWriter
}

// newPageSource returns the source for a Slack List; connect makes it that of
// the embedded board.
func newPageSource(h *Home, log *slog.Logger) *pageSource {
	board := h.board(log)
	return &pageSource{
		pageReader{
			look: func(context.Context) (*slacklist.Snapshot, error) { return h.snapshot() },
			sources: func(ctx context.Context, snap *slacklist.Snapshot) (view.Sources, error) {
				return viewSources(ctx, h, snap)
			},
			create: createCommand(h.Config.Agents, messageDir(h)), config: filepath.Join(h.Dir, "otm.toml"),
		},
		pageWriter{
			engine:  func(ctx context.Context) (*engine.Engine, error) { return newEngine(ctx, h, "otm", board, log) },
			counter: h.Counter, box: h.Box, agents: h.Config.Agents, now: h.Now, log: log,
			putBack: func(ctx context.Context, name string, newID bool) error {
				_, _, err := retryOne(ctx, h, name, newID)
				return err
			},
		},
	}
}

// createCommand makes a first task for the first agent that is no person, or
// else the first of all; "" if there is no agent.
func createCommand(agents pipeline.Agents, dir string) string {
	if len(agents) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(agents, func(a pipeline.Agent) bool { return !a.Person }))
	command := "otm-create --title 'Build the login page' --agent " + safe.Quote(agents[i].Name)
	if dir != "" {
		command += " --dir " + safe.Quote(dir)
	}
	return command
}

// pageReader is what the page shows of a data directory.
type pageReader struct {
	// look reads the board: the embedded one as it is now, a Slack List as it
	// was when it was last read.
	look       func(context.Context) (*slacklist.Snapshot, error)
	live       bool // what look returns is the present
	sources    func(context.Context, *slacklist.Snapshot) (view.Sources, error)
	workspaces view.WorkspaceCache
	create     string // the command that makes a task
	config     string // the path of otm.toml
}

// view loads the directory. With countOnly, files in the inboxes and in failed/
// are counted and not read.
func (r *pageReader) view(ctx context.Context, countOnly bool) (*view.View, error) {
	snap, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	s, err := r.sources(ctx, snap)
	if err != nil {
		return nil, err
	}
	s.CountOnly, s.Workspaces = countOnly, r.workspaces.Get(s.Agents, s.Now)
	return view.Load(ctx, s)
}

// State implements page.Source.
func (r *pageReader) State(ctx context.Context) (*page.State, error) {
	v, err := r.view(ctx, true)
	if err != nil {
		return nil, err
	}
	s := &page.State{Tasks: []view.Card{}, Rest: page.Rest{
		Summary: *view.SummaryOf(v, maxFailed), Live: r.live, CreateCommand: r.create, ConfigPath: r.config,
		Statuses: pipeline.Statuses, Priorities: pipeline.Priorities, Types: pipeline.Types,
	}}
	if r.live {
		s.Board.WalkAt = nil // it changes with each look
	}
	for _, t := range v.Tasks() {
		s.Tasks = append(s.Tasks, t.Card())
	}
	return s, v.Err()
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

var errGone = &page.Refusal{Reason: "the row is no longer on the board"}

// Detail implements page.Source.
func (r *pageReader) Detail(ctx context.Context, row string) (*page.Detail, error) {
	v, err := r.view(ctx, false)
	if err != nil {
		return nil, err
	}
	shown := v.Row(row)
	if shown == nil || shown.Parent != "" {
		return nil, errGone
	}
	reason, err := why.OfRow(v, shown)
	if err != nil {
		return nil, err
	}
	lines, err := v.History(v.OfRow(shown).ID)
	return &page.Detail{Why: reason.Sentence, Next: reason.Next, History: lines}, err
}
