package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/page"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/slacklist"
)

// pageSource is what the page shows of a data directory, and does in it.
type pageSource struct {
	home  *Home
	board *boardSource
	log   *slog.Logger
	// look reads the embedded board as it is now; nil: the page shows a Slack List as it
	// was when it was last read.
	look func(context.Context) (*slacklist.Snapshot, error)
}

// newPageSource returns the source for a Slack List; connect makes it that of
// the embedded board.
func newPageSource(h *Home, log *slog.Logger) *pageSource {
	return &pageSource{home: h, board: h.board(log), log: log}
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

// view loads the directory. With countOnly, files in the inboxes and in failed/
// are counted and not read.
func (p *pageSource) view(ctx context.Context, countOnly bool) (*view.View, error) {
	if p.look == nil {
		return loadView(ctx, p.home, nil, countOnly)
	}
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	return loadView(ctx, p.home, snap, countOnly)
}

// choosable are the statuses that a person may choose. Pending is OTM's: who chooses it
// sets the task aside.
func choosable() []pipeline.Status {
	return slices.DeleteFunc(slices.Clone(pipeline.Statuses), func(s pipeline.Status) bool { return s == pipeline.Pending })
}

// State implements page.Source.
func (p *pageSource) State(ctx context.Context) (*page.State, error) {
	v, err := p.view(ctx, true)
	if err != nil {
		return nil, err
	}
	s := &page.State{Tasks: []view.Card{}, Rest: page.Rest{
		Summary: *view.SummaryOf(v, maxFailed), Live: p.look != nil, ConfigPath: filepath.Join(v.Dir, config.FileName),
		CreateCommand: createCommand(v.Agents, messageDir(p.home)),
		Statuses:      choosable(), Priorities: pipeline.Priorities, Types: p.home.Config.Types.All(), Commands: pageCommands(), Registry: view.RegistryOf(v),
	}}
	if p.look != nil {
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
func (p *pageSource) Detail(ctx context.Context, row string) (*page.Detail, error) {
	v, err := p.view(ctx, false)
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
	t := v.OfRow(shown)
	lines, err := v.History(t.ID)
	d := &page.Detail{Why: reason.Sentence, Next: reason.Next, Or: reason.Or, History: lines, Log: logOf(v, t)}
	if t.State != nil {
		d.Body = t.State.Body
	}
	return d, err
}

// logOf is the end of what the process of a task's last run has printed; nil: the run did
// not fail and does not go on, or nothing is kept of it.
func logOf(v *view.View, t *view.Task) *page.Log {
	if t.State == nil || t.State.Runs.Last() == nil {
		return nil
	}
	run := t.State.Runs.Last()
	l := &page.Log{Run: run.Number, Path: run.Log}
	if run.Ended.IsZero() && t.Agent != nil && t.Agent.Trigger == pipeline.TriggerExec {
		l.Path = v.AgentLog(t.Agent)
	}
	if l.Path == "" {
		return nil
	}
	text, err := view.LogTail(v.LogDir, l.Path)
	switch l.Text = text; {
	case errors.Is(err, durable.ErrNoFile): // its folder: the process has no log yet
		return nil
	case err != nil:
		l.Error = err.Error()
	}
	return l
}
