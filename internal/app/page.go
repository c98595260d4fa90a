package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"otm/heartbeat"
	"otm/internal/engine"
	"otm/internal/explain"
	"otm/internal/page"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/inbox"
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
	s := &page.State{Tasks: cards(v), Rest: page.Rest{
		Statuses: pipeline.Texts(pipeline.Statuses), Priorities: pipeline.Texts(pipeline.Priorities), Types: pipeline.Texts(pipeline.Types),
		Agents: []page.Agent{}, Failed: []page.Failed{}, CreateCommand: r.create, ConfigPath: r.config,
		Health: healthOf(v), Components: componentsOf(v),
		Waiting: page.Waiting{NewTasks: v.Inbox.Waiting[inbox.NewTasks], Updates: v.Inbox.Waiting[inbox.TaskUpdates], Failed: len(v.Inbox.Failed)},
		Room:    page.Room{Rows: v.Board.Count, Limit: v.RowLimit(), Live: r.live},
	}}
	if walk := v.Board.WalkAt.UTC(); !r.live && !walk.IsZero() {
		s.Room.WalkAt = &walk
	}
	for _, a := range v.Agents {
		s.Agents = append(s.Agents, page.Agent{Name: a.Name, Person: a.Person})
	}
	for _, f := range v.Failures(maxFailed) {
		s.Failed = append(s.Failed, failedOf(f))
	}
	return s, v.Err()
}

func healthOf(v *view.View) page.Health {
	problems := v.Problems()
	h := page.Health{State: string(view.Health(problems)), Problems: []page.Problem{}}
	for i := range problems {
		h.Problems = append(h.Problems, page.Problem{Text: explain.Sentence(&problems[i], v.Now), Next: problems[i].Next(v.Now)})
	}
	return h
}

func componentsOf(v *view.View) []page.Component {
	all := []page.Component{}
	for _, id := range heartbeat.Components {
		c := v.Component(id)
		out := page.Component{ID: id, State: string(c.Health)}
		switch b := c.Beat; {
		case b != nil:
			out.LastRun, out.Result, out.Details = &b.LastRun, string(b.Result), b.Details
		case c.Err != nil:
			out.Details = c.Err.Error()
		}
		all = append(all, out)
	}
	return all
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

func failedOf(f view.Failure) page.Failed {
	if f.Err != nil {
		return page.Failed{Name: f.Name, Error: f.Err.Error()}
	}
	out := page.Failed{
		Name: f.Name, Error: f.Result.Error, Class: string(f.Result.Class), Hint: f.Result.Hint,
		Renumber: f.Result.Class == inbox.Conflict && f.Result.Inbox == inbox.NewTasks,
	}
	if id := f.TaskID(); id != 0 {
		out.TaskID = id.String()
	}
	return out
}

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
	d := &page.Detail{Why: reason.Sentence, Next: reason.Next}
	lines, err := v.History(v.OfRow(shown).ID)
	for _, l := range lines {
		d.History = append(d.History, page.Event(l))
	}
	return d, err
}
