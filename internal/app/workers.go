package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/complete"
	"otm/pipeline/inbox"
	"otm/pipeline/inbox/watch"
	"otm/pipeline/inject"
	"otm/pipeline/task"
	"otm/slacklist"
)

// DefaultEvery is the time between two runs of a component without a hint.
const DefaultEvery = 2 * time.Minute

// Bounds of the time that a single run waits for what is due soon.
const (
	soonEnough = 20 * time.Second
	longEnough = 90 * time.Second
)

// newInjector builds the injector. fresh makes each run walk the board.
func newInjector(h *Home, b pipeline.Board, log *slog.Logger, every time.Duration, fresh bool) *component {
	in := &inject.Injector{
		Box: h.Box, Store: h.Store, Board: b, Agents: h.Config.Agents, Fresh: fresh, Log: log, Now: h.Now,
		Times: h.Config.Times,
	}
	c := &component{home: h, id: heartbeat.Injector, log: log, every: every}
	c.prune = func() { pruneProcessed(h, log) }
	var waiting atomic.Bool
	c.heed = waiting.Load
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		in.Progress = progress
		sweep := in.Sweep
		if why == asked {
			sweep = func(ctx context.Context) (*heartbeat.Report, error) {
				return in.SweepUntilQuiet(ctx, soonEnough, longEnough)
			}
		}
		report, err := sweep(ctx)
		waiting.Store(report.Waiting > 0)
		if idle := report.Result() == heartbeat.Success && report.Waiting == 0; idle && err == nil && why != hinted {
			report.Trouble = checkBoard(ctx, b)
		}
		return report, err
	}
	return c
}

// checkBoard reads the board unless a component has read it within hintedAge. An
// injector without work would not notice that the token is refused (C52).
func checkBoard(ctx context.Context, b pipeline.Board) error {
	batch, err := b.Begin(ctx)
	var held *lock.HeldError
	if errors.As(err, &held) {
		return nil // another component reads it
	}
	if err != nil {
		return err
	}
	return errors.Join(batch.Refresh(ctx, hintedAge), batch.End())
}

// pruneProcessed removes processed drops older than keep_processed. Zero keeps them
// for ever.
func pruneProcessed(h *Home, log *slog.Logger) {
	keep := h.Config.Times.KeepProcessed
	if keep == 0 {
		return
	}
	n, err := h.Box.Prune(h.Now(), keep)
	if n > 0 {
		log.Info("removed processed drops", "drops", n, "olderThan", keep)
	}
	if err != nil {
		log.Warn("processed drops not removed", "err", err)
	}
}

// newDispatcher builds the dispatcher. patience is dispatch.Dispatcher's. stop waits
// for the wakes that are under way.
func newDispatcher(h *Home, b pipeline.Board, log *slog.Logger, every, patience time.Duration) (c *component, stop func()) {
	wakers, stopWakers := newWakers(h, log, patience > 0)
	d := &dispatch.Dispatcher{
		Dir: h.Dir, MessageDir: messageDir(h), Board: b, Records: h.Store, Agents: h.Config.Agents, Wakers: wakers, Log: log, Now: h.Now, Patience: patience,
		NewID: func(ctx context.Context) (pipeline.TaskID, error) { return newID(ctx, h.Store) }, Drops: h.Store.Drops, Unread: func() (map[pipeline.TaskID]time.Time, error) { return oldestReports(h.Box, h.Now()), nil }, Answered: func() { slacklist.TouchChanged(h.Dir) },
		Times: h.Config.Times,
	}
	c = &component{home: h, id: heartbeat.Dispatcher, log: log, every: every}
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		d.Progress = progress
		return d.Pass(ctx, why.maxAge(every))
	}
	return c, func() {
		d.Wait()
		stopWakers()
	}
}

// newID takes the next id from the counter, durably.
func newID(ctx context.Context, tasks *task.Store) (pipeline.TaskID, error) {
	counter, err := tasks.Counter(ctx)
	if err != nil {
		return 0, err
	}
	defer counter.Release()
	return counter.Take(1)
}

// newDetector builds the completion detector.
func newDetector(h *Home, b pipeline.Board, log *slog.Logger, every time.Duration) *component {
	d := &complete.Detector{Board: b, Records: h.Store, Log: log, Now: h.Now}
	c := &component{home: h, id: heartbeat.Detector, log: log, every: every}
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		d.Progress = progress
		return d.Pass(ctx, why.maxAge(every))
	}
	return c
}

// inboxWatch watches the inboxes for a resident injector.
func inboxWatch(box *inbox.Box) *watch.Watcher {
	var dirs []string
	for _, kind := range inbox.Kinds {
		dirs = append(dirs, box.Dir(kind))
	}
	return watch.New(inbox.Delivered, dirs...)
}
