package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/core/store"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/before"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/engine"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// stores is the store of a data directory, opened when it is first needed.
type stores struct {
	machine string // see store.Options
	moved   bool   // a person said that the directory moved
	absence time.Duration

	mu   sync.Mutex // held while the store is opened
	open *store.Store
}

// id returns the id of the store, "" if it is not open, and this machine's name.
func (o *stores) id() (id, host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		id = o.open.ID()
	}
	host, _ = os.Hostname() // it is only a note
	return id, host
}

// get returns the store of a data directory. The first call opens it.
func (o *stores) get(ctx context.Context, h *Home) (*store.Store, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		return o.open, nil
	}
	if _, err := config.FormatOf(h.Dir); err != nil {
		return nil, err // somebody removed the directory: no database is made there
	}
	path := filepath.Join(h.Dir, store.FileName)
	_, absent := durable.Lstat(path)
	s, err := store.Open(ctx, h.Dir, store.Options{
		URL: h.Config.Store.URL, Machine: o.machine, Moved: o.moved, Absence: o.absence,
		Reopened: func(ctx context.Context, s *store.Store) {
			h.Warn("otm.db was removed or replaced while otm runs; the one that is there now is used: what the board and the inboxes know better is taken from them, pauses of agents are as it has them, and otm fsck says what is missing")
			warnOfNew(ctx, h, s)
		},
	})
	if err == nil {
		if err = bringUp(ctx, h, s); err == nil {
			if errors.Is(absent, fs.ErrNotExist) && h.Config.Store.URL == "" {
				warnOfNew(ctx, h, s)
			}
			o.open = s
			return s, nil
		}
		s.Close()
	}
	if _, gone := config.FormatOf(h.Dir); errors.Is(absent, fs.ErrNotExist) && errors.Is(gone, config.ErrNotInitialised) {
		os.Remove(path) // the directory was removed meanwhile, and we made the database
	}
	return nil, err
}

// warnOfNew says if somebody removed the database: it is new, and drops were handled
// before.
func warnOfNew(ctx context.Context, h *Home, s *store.Store) {
	events, err := s.Events(ctx, core.EventFilter{Limit: 1})
	if err != nil || len(events) > 0 {
		return // it was imported, or another process made it
	}
	if names, err := h.Box.SettledNames(inbox.ProcessedDir); err == nil && len(names) > 0 {
		h.Warn("otm.db was missing, and is begun anew: tasks on the board are taken over, no agent is paused any more (otm pause), and otm fsck says what is missing; or stop all otm programs and put a backup of otm.db in its place")
	}
}

// close closes the store if it is open.
func (o *stores) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.open
	o.open = nil
	if s == nil {
		return nil
	}
	return s.Close()
}

// bringUp imports a directory of format 1, once.
func bringUp(ctx context.Context, h *Home, s *store.Store) error {
	format, err := config.FormatOf(h.Dir)
	if err != nil || format == config.Format {
		return err
	}
	l, err := lock.Acquire(ctx, h.lockPath("import"), workWait)
	if err != nil {
		return err
	}
	defer l.Release()
	if format, err = config.FormatOf(h.Dir); err != nil || format == config.Format {
		return err // another program was first
	}
	if err := olderRuns(h); err != nil {
		return err
	}
	log := h.stderrLog("otm")
	if err := before.Import(ctx, h.Dir, s, h.Now(), log); err != nil {
		return err
	}
	e := &engine.Engine{Store: s, Outbox: s, Now: h.Now, Log: log, Render: &outbox.Render{Dir: h.Dir, Store: s}}
	if _, err := e.Deliver(ctx); err != nil { // the renderings: no sink but theirs has anything to do
		return err
	}
	return durable.Replace(filepath.Join(h.Dir, "format"), fmt.Appendf(nil, "%d\n", config.Format))
}

// olderRuns returns an error if a program of an older version stays in a directory of
// format 1: it would go on with the files that are moved away. One of this version opens
// the store before it takes its lock.
func olderRuns(h *Home) error {
	for _, id := range []string{heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector} {
		if pid, runs := lock.Holder(heartbeat.ResidentLock(h.Dir, id)); runs {
			return cli.Errorf(cli.TryLater, "%s of an older version runs on this data directory, process %d", id, pid).
				Hint("stop it, and what else of that version runs here: this version then takes the directory over")
		}
	}
	return nil
}

// newEngine returns the store joined with a board and the sinks, for a program of this
// name.
func newEngine(ctx context.Context, h *Home, program string, b pipeline.Board, log *slog.Logger) (*engine.Engine, error) {
	s, err := h.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	return &engine.Engine{
		Store: s, Outbox: s, Board: b, Agents: h.Agents(), Times: h.Config.Times, By: core.Component(program), Log: log, Now: h.Now,
		Counter: h.Counter, Drops: func() (map[pipeline.TaskID]pipeline.Dropped, error) { return inbox.Drops(h.Dir) }, Consistent: h.Config.Slack.ListID == "", Render: &outbox.Render{Dir: h.Dir, Store: s},
		Entries: &dispatch.Entries{Dir: h.Dir, Store: s, Times: h.Config.Times, Now: h.Now, Log: log},
		Wait:    h.waitOthers,
	}, nil
}

// openHelperStore opens the store for the helper of an agent's process.
func openHelperStore(ctx context.Context, dir, url string) (core.Store, func() error, error) {
	s, err := store.Open(ctx, dir, store.Options{URL: url})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}
