package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/fsck"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox/watch"
)

// occasion is why a component runs.
type occasion int

const (
	asked  occasion = iota // somebody started it to look now
	timely                 // its time has come
	hinted                 // something happened
)

// How old the rows may be that a pass looks at. A timer's pass takes the walk
// of another component that has just made one; a hint comes from our own
// writes, which the snapshot has, or from a person's edit, which makes it
// stale by itself.
const (
	timelyAge = 45 * time.Second
	hintedAge = 10 * time.Minute
)

func (o occasion) maxAge(every time.Duration) time.Duration {
	switch o {
	case asked:
		return 0
	case timely:
		return max(min(timelyAge, every/2), time.Millisecond)
	}
	return hintedAge
}

// outcome is what came of one run.
type outcome struct {
	result  heartbeat.Result
	details string
	due     time.Time // when to run again at the latest; zero: at the usual time
	failed  bool      // something failed in this run: exit code 3
	trouble error     // what kept the run from its work
}

// component is one of the three that work on the board.
type component struct {
	home  *Home
	id    string
	log   *slog.Logger
	every time.Duration
	// run makes one run; it calls progress while it gets on.
	run func(ctx context.Context, why occasion, progress func()) (outcome, error)

	prune   func()    // removes what is kept long enough; nil: nothing is
	cleaned time.Time // when leftovers were last looked for; zero: never
	saying  string    // the trouble that was said last; "": none

	// For residents.
	events <-chan struct{} // hints that it should run
	hints  *watch.Watcher  // of the board: it changed
	heed   func() bool     // whether a change of the board concerns it now; nil: always
	// extra is what else to say in the heartbeat, and whether it is a trouble;
	// nil: nothing.
	extra func() (details string, trouble bool)
}

// noBoardRetry is when to look again for a board that is not there; its start
// is a hint as well.
const noBoardRetry = 30 * time.Second

// configChangedNote is what a heartbeat says of a process that works by an older
// otm.toml.
const configChangedNote = "otm.toml was changed since this process started"

// workWait is how long to wait for another process's run to end.
const workWait = 60 * time.Second

// once makes one run under the work lock and beats.
func (c *component) once(ctx context.Context, why occasion) (outcome, error) {
	if _, err := config.CheckDir(c.home.Dir); err != nil {
		return outcome{}, err // it has gone since we started: nothing makes it again but otm init
	}
	l, err := lock.Acquire(ctx, c.home.lockPath(c.id), workWait)
	if err != nil {
		return outcome{}, err
	}
	defer l.Release()
	if now := c.home.Now(); now.Sub(c.cleaned).Abs() >= time.Hour {
		c.clean()
		c.cleaned = now
	}
	beat := heartbeat.NewWriter(c.home.Dir, c.id, c.home.Version, c.home.Now)
	end := beat.Run()
	var out outcome
	if _, trouble := c.home.whichBoard(); trouble != nil && why != hinted {
		out = outcome{result: heartbeat.Error, details: trouble.Error(), trouble: trouble, due: c.home.Now().Add(noBoardRetry)}
	} else if out, err = c.run(ctx, why, beat.Progress); err != nil {
		out.result, out.details = heartbeat.Error, err.Error()
	}
	if ctx.Err() != nil {
		return out, errors.Join(context.Cause(ctx), end("", "")) // a stop is no failure
	}
	if why != asked && c.home.configChanged() {
		out.details += "; " + configChangedNote + ": to apply it, " + c.home.applyHint()
		if out.result == heartbeat.Success {
			out.result = heartbeat.Partial
		}
	}
	if c.extra != nil {
		if more, trouble := c.extra(); more != "" {
			out.details += "; " + more
			if trouble && out.result == heartbeat.Success {
				out.result = heartbeat.Partial
			}
		}
	}
	return out, errors.Join(err, end(out.result, out.details))
}

// clean removes temporary files that a crashed writer left behind.
func (c *component) clean() {
	for _, dir := range fsck.TempFolders {
		durable.RemoveLeftovers(filepath.Join(c.home.Dir, dir), time.Hour, c.home.Now())
	}
	if c.prune != nil {
		c.prune()
	}
}

// Once makes the run that somebody asked for. The error says with which code
// to exit.
func (c *component) Once(ctx context.Context) error {
	out, err := c.once(ctx, asked)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.home.Out, out.details)
	switch {
	case out.trouble != nil:
		return out.trouble
	case out.failed:
		return cli.Exit(cli.Partial)
	}
	return nil
}

// Resident runs until ctx ends: at its time, and sooner when something
// happens. The error is a *residentError if another process does so already.
func (c *component) Resident(ctx context.Context) error {
	l, err := c.home.residentLock(ctx, c.id)
	if err != nil {
		return err
	}
	defer l.Release()
	c.log.Info("started", "version", c.home.Version, "dir", c.home.Dir, "every", c.every)
	defer c.log.Info("stopped")
	why := timely
	for {
		out, err := c.once(ctx, why)
		if ctx.Err() != nil {
			return nil
		}
		if err := c.judge(&out, err); err != nil {
			return err
		}
		if why, err = c.wait(ctx, out); err != nil {
			return nil
		}
	}
}

// judge decides whether a resident can go on after a run.
func (c *component) judge(out *outcome, err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		c.log.Warn("run not begun", "err", err)
		return nil
	}
	var dir *config.DirError
	if errors.Is(err, config.ErrNotInitialised) || errors.As(err, &dir) {
		return err // the data directory has gone, or is not ours any more
	}
	if err != nil {
		out.trouble = err // our own files: a disk that is full is not so for ever, and each run recovers
	}
	c.sayTrouble(out.trouble)
	if out.trouble != nil && exitCode(out.trouble) == cli.Credentials {
		return out.trouble // nothing will work until somebody acts
	}
	return nil // a column that a person renamed can be renamed back: the heartbeat says so
}

// sayTrouble logs what keeps a resident from its work: once, until it is over.
func (c *component) sayTrouble(trouble error) {
	said := c.saying
	c.saying = ""
	if _, waits := pipeline.WaitsUntil(trouble); waits {
		c.log.Debug("waiting", "err", trouble)
	} else if trouble != nil {
		c.saying = trouble.Error()
	}
	switch {
	case c.saying == said:
	case c.saying == "":
		c.log.Info("trouble is over", "was", said)
	case said == "":
		c.log.Warn("kept from its work", "err", trouble)
	default:
		c.log.Debug("still kept from its work", "err", trouble)
	}
}

// troubleRetry is when to run again after a trouble that may pass by itself.
const troubleRetry = 30 * time.Second

// retryAt is when to run again after a trouble; zero where only somebody can
// mend it.
func retryAt(trouble error, now time.Time) time.Time {
	var e *pipeline.BoardError
	switch {
	case trouble == nil:
		return time.Time{}
	case errors.As(trouble, &e) && !e.Until.IsZero():
		return e.Until
	case errors.As(trouble, &e) && e.Class == pipeline.Fatal:
		return time.Time{}
	}
	return now.Add(troubleRetry)
}

// wait returns when it is time for the next run, and why; an error when the
// process is to stop.
func (c *component) wait(ctx context.Context, out outcome) (occasion, error) {
	delay := c.every
	why := timely
	if out.due.IsZero() {
		out.due = retryAt(out.trouble, c.home.Now())
	}
	if !out.due.IsZero() {
		if d := out.due.Sub(c.home.Now()); d < delay {
			delay, why = max(d, 10*time.Millisecond), hinted
		}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-timer.C:
			return why, nil
		case <-c.events:
			return hinted, nil
		case <-c.hints.Changed():
			if c.heed == nil || c.heed() {
				return hinted, nil
			}
		}
	}
}

// isResident tells whether a process stays that runs the component.
func (h *Home) isResident(id string) bool {
	_, held := lock.Holder(h.residentPath(id))
	return held
}

func (h *Home) anyResident() bool { return slices.ContainsFunc(heartbeat.Components, h.isResident) }

// residentPath is the lock that the process holds that keeps a component.
func (h *Home) residentPath(id string) string { return h.lockPath(residentOf(id) + ".resident") }

// residentOf is the process that keeps a component: the watching is the
// injector's.
func residentOf(id string) string {
	if id == heartbeat.Watcher {
		return heartbeat.Injector
	}
	return id
}

// residentLock takes the lock that says that a component stays. A reader of
// the lock may hold it for a moment.
func (h *Home) residentLock(ctx context.Context, id string) (*lock.Lock, error) {
	l, err := lock.Acquire(ctx, h.residentPath(id), 300*time.Millisecond)
	var held *lock.HeldError
	if errors.As(err, &held) {
		return nil, &residentError{id: id, pid: held.PID}
	}
	return l, err
}

// boardHints watches for changes of the board: those that we or our siblings
// make, a person's on the embedded board, and its start.
func (h *Home) boardHints() *watch.Watcher {
	return watch.New(func(name string) bool { return name == "changed" || name == "endpoint.json" }, h.boardDir())
}

// watcher is what beatWatcher needs of one.
type watcher interface {
	Probe() int
	Probed() <-chan string
	Stats() watch.Stats
}
