package inject

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Who is the name under which the injector writes.
const Who = "otm-injector"

// createAge is how old the snapshot may be when a task is made. The store knows our
// own tasks; this is about rows from elsewhere.
const createAge = 3 * time.Minute

// Engine is the part of the engine and the board that the injector needs.
type Engine interface {
	core.Store
	// Raise makes sure that ids are never given out. The error is a *counter.FarError if
	// one is too far above the counter.
	Raise(ctx context.Context, ids ...pipeline.TaskID) error
	// Refresh brings the store up to what stands on the board, as of at most maxAge ago;
	// 0: now.
	Refresh(ctx context.Context, maxAge time.Duration) error
	// Strays returns the rows that no task has and that show one of these Task IDs, as of
	// the last Refresh. The map is never nil.
	Strays(ctx context.Context, ids ...pipeline.TaskID) (map[pipeline.TaskID][]core.RowFound, error)
	// Deliver writes tasks of the store to their renderings and rows. It returns
	// the tasks for which that did not work, each with an *outbox.LeftError. The other
	// error is one of the store.
	Deliver(ctx context.Context, tasks ...pipeline.TaskID) (map[pipeline.TaskID]error, error)
}

// Injector sweeps the inboxes. Its methods are for one goroutine, which holds
// the injector's work lock.
type Injector struct {
	Box    *inbox.Box
	Engine Engine
	Agents pipeline.Agents
	Times  pipeline.Times
	Types  pipeline.Types
	Log    *slog.Logger
	Now    func() time.Time
	// Progress is called after each file; nil is not called.
	Progress func()

	known     map[delivered]*waiting // the files that are there
	processed map[string]bool        // ids in the names in processed/; nil: not read yet
}

func newReport() *heartbeat.Report {
	return &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Processed", Noun: "task"}}}
}

func (in *Injector) progress() {
	if in.Progress != nil {
		in.Progress()
	}
}

// Sweep looks through both inboxes until there is nothing left to do now.
//
// Trouble loses nothing and ends no process. An error that the next file would
// meet as well, such as a board out of reach, a full disk or too many open files,
// ends the sweep: the report has it, and says when to sweep again. An error about
// one file keeps that file and lets the others go on. Wherever a sweep stops, the next one continues from there.
//
// The error matches fs.ErrNotExist: the data directory has gone, and only otm
// init makes one.
func (in *Injector) Sweep(ctx context.Context) (*heartbeat.Report, error) {
	if in.known == nil {
		in.known = map[delivered]*waiting{}
	}
	sw := newSweep(in)
	if err := in.Box.Ensure(); errors.Is(err, fs.ErrNotExist) {
		return sw.report, err
	} else if err != nil {
		sw.trouble(ctx, err)
		return sw.report, nil
	}
	for {
		settled, err := sw.round(ctx)
		if err != nil {
			sw.trouble(ctx, err)
		}
		if settled == 0 || sw.report.Trouble != nil || ctx.Err() != nil {
			return sw.report, nil
		}
	}
}

// outOfReach reports whether board or disk are in trouble of unknown duration. A
// lost answer is none: its effect shows within SettleAfter.
func outOfReach(trouble error) bool {
	var e *pipeline.BoardError
	return trouble != nil && !(errors.As(trouble, &e) && (!e.Until.IsZero() || e.MaybeApplied))
}

// SweepUntilQuiet sweeps for a person or a timer: while something is due within
// soon, it waits and sweeps again, for at most long. The report covers all its
// sweeps.
func (in *Injector) SweepUntilQuiet(ctx context.Context, soon, long time.Duration) (*heartbeat.Report, error) {
	end := in.Now().Add(long)
	total := newReport()
	for {
		r, err := in.Sweep(ctx)
		r.Did[0].N += total.Did[0].N
		r.Failed = append(total.Failed, r.Failed...)
		total = r
		wait := r.Due.Sub(in.Now())
		if err != nil || ctx.Err() != nil || outOfReach(r.Trouble) || r.Due.IsZero() || wait > soon || in.Now().After(end) {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, nil
		case <-time.After(max(wait, 0) + 10*time.Millisecond): // file times have the grain of the kernel's tick
		}
	}
}

// retryBoard is when to try again after trouble that says nothing of its
// duration.
const retryBoard = 10 * time.Second

// trouble notes what ended the sweep early, and when it is to go on. That the sweep was
// stopped is no trouble.
func (sw *sweep) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	sw.report.Trouble = err
	var e *pipeline.BoardError
	switch {
	case errors.As(err, &e) && e.Class == pipeline.Fatal:
		sw.Log.Error("board refused", "err", err)
	case errors.As(err, &e) && !e.Until.IsZero():
		sw.report.RunBy(e.Until)
		sw.Log.Info("waiting for the board", "until", e.Until.UTC(), "err", err)
	case pipeline.MaybeApplied(err):
		sw.report.RunBy(sw.Now().Add(min(retryBoard, sw.Times.SettleAfter)))
		sw.Log.Warn("answer lost", "err", err)
	default:
		sw.report.RunBy(sw.Now().Add(retryBoard))
		sw.Log.Warn("sweep ended early", "err", err)
	}
}
