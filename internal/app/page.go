package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"otm/internal/page"
	"otm/internal/safe"
	"otm/internal/view"
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
	return &pageSource{
		pageReader{home: h, look: func(context.Context) (*slacklist.Snapshot, error) { return h.snapshot() }},
		pageWriter{
			people: h.board(log), store: h.Store, box: h.Box, agents: h.Config.Agents, now: h.Now, log: log,
			putBack: func(ctx context.Context, name string, newID bool) error {
				_, _, err := h.retryOne(ctx, name, retryAs{newID: newID})
				return err
			},
		},
	}
}

// pageReader is what the page shows of a data directory.
type pageReader struct {
	home *Home
	// look reads the board: the embedded one as it is now, a Slack List as it
	// was when it was last read.
	look func(context.Context) (*slacklist.Snapshot, error)
	live bool // what look returns is the present

	mu      sync.Mutex // guards what follows
	records fileCache[recordFacts]
	failed  fileCache[*inbox.Settled]
}

// State implements page.Source.
func (p *pageReader) State(ctx context.Context) (*page.State, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	s := &page.State{Rest: page.Rest{
		Statuses: texts(pipeline.Statuses), Priorities: texts(pipeline.Priorities), Types: texts(pipeline.Types),
		Agents: []page.Agent{}, Failed: []page.Failed{}, ConfigPath: filepath.Join(p.home.Dir, "otm.toml"),
		Room: page.Room{Rows: snap.Count, Limit: limitOf(snap), Live: p.live},
	}}
	if walk := snap.WalkAt.UTC(); !p.live && !snap.WalkAt.IsZero() {
		s.Room.WalkAt = &walk
	}
	for _, a := range p.home.Config.Agents {
		s.Agents = append(s.Agents, page.Agent{Name: a.Name, Person: a.Person})
	}
	s.CreateCommand = p.createCommand()
	p.components(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Tasks = p.cards(snap.Rows)
	return s, p.files(s)
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// createCommand makes a first task for the first agent that works by itself,
// or else the first of all.
func (p *pageReader) createCommand() string {
	agents := p.home.Config.Agents
	if len(agents) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(agents, func(a pipeline.Agent) bool { return !a.Person }))
	command := "otm-create --title 'Build the login page' --agent " + safe.Quote(agents[i].Name)
	if dir := p.home.messageDir(); dir != "" {
		command += " --dir " + safe.Quote(dir)
	}
	return command
}

func (p *pageReader) components(s *page.State) {
	r := runner(p.home)
	for _, c := range view.Components(view.Sources{Dir: p.home.Dir, LogDir: p.home.LogDir(), Now: p.home.Now(), Runner: r}) {
		if !slices.Contains(r.Expected(), c.ID) {
			continue
		}
		out := page.Component{ID: c.ID, State: string(c.Health)}
		switch b := c.Beat; {
		case b != nil:
			out.LastRun, out.Result, out.Details = &b.LastRun, string(b.Result), b.Details
		case c.Err != nil:
			out.Details = c.Err.Error()
		}
		s.Components = append(s.Components, out)
	}
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

// files counts what waits, and shows what failed. It is called with mu held.
func (p *pageReader) files(s *page.State) error {
	for _, kind := range inbox.Kinds {
		files, err := p.home.Box.List(kind)
		if err != nil {
			return err
		}
		if kind == inbox.NewTasks {
			s.Waiting.NewTasks = len(files)
		} else {
			s.Waiting.Updates = len(files)
		}
	}
	names, err := p.home.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	s.Waiting.Failed = len(names)
	slices.Reverse(names)
	for _, name := range names[:min(len(names), maxFailed)] {
		f, err := p.settled(name)
		if err != nil {
			continue // put back meanwhile
		}
		failed := page.Failed{Name: name, Error: f.Result.Error, Class: string(f.Result.Class), Hint: f.Result.Hint}
		failed.Renumber = f.Result.Class == inbox.Conflict && f.Result.Inbox == inbox.NewTasks
		if id := f.TaskID(); id != 0 {
			failed.TaskID = id.String()
		}
		s.Failed = append(s.Failed, failed)
	}
	return nil
}

// errBeside keeps a failed file out of the cache: what there is to say stands
// in another file.
var errBeside = errors.New("explained beside it")

func (p *pageReader) settled(name string) (*inbox.Settled, error) {
	f, err := p.failed.get(filepath.Join(p.home.Dir, inbox.FailedDir, name), func() (*inbox.Settled, error) {
		f, err := p.home.Box.ReadSettled(inbox.FailedDir, name)
		if err == nil && f.Object == nil {
			err = errBeside
		}
		return f, err
	})
	if errors.Is(err, errBeside) {
		err = nil
	}
	return f, err
}

// limitOf is how many rows the list may hold; 0 where nobody meets the limit.
func limitOf(snap *slacklist.Snapshot) int {
	if snap.Limit >= view.ManyRows {
		return 0
	}
	return snap.Limit
}
