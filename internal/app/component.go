package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/fsck"
	"otm/internal/incident"
	"otm/internal/lock"
	"otm/internal/notify"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/inbox/watch"
	"otm/slacklist"
)

// occasion is why a component runs.
type occasion int

const (
	asked  occasion = iota // a single run was started
	timely                 // the timer fired
	hinted                 // something changed
)

// How old the snapshot may be that a pass works on. A timer's pass accepts the
// walk that another component just made. A hint comes from our own writes, which
// the snapshot has, or from a person's edit, which marks it stale.
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

// component is the injector, the dispatcher or the detector.
type component struct {
	home  *Home
	id    string
	log   *slog.Logger
	every time.Duration
	// run makes one run. It calls progress while it advances.
	run func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error)

	agents  func(pipeline.Agents)       // sets the known agents, before each run
	watch   *incident.Watcher           // opens and closes incidents; nil: another component does
	notify  []*notify.Notifier          // tell people
	audit   *notify.Audit               // mirrors events in Slack; nil: they are not
	prune   func()                      // removes what was kept long enough; may be nil
	house   func(context.Context) error // keeps the store in order, board or not; may be nil
	beat    *heartbeat.Writer
	cleaned time.Time // when leftovers were last removed; zero: never
	saying  string    // the trouble logged last; "": none

	// For residents.
	events <-chan struct{} // hints that it should run
	hints  *watch.Watcher  // changes of the board
	heed   func() bool     // reports whether a change of the board matters now; nil: always
	inbox  *watch.Watcher  // watches the inboxes; nil: it has none

	stop func() // releases what it holds
}

// noBoardRetry is the delay before the next look for an absent board. The board's
// start is a hint as well.
const noBoardRetry = 30 * time.Second

// workWait bounds the wait for another process's run.
const workWait = 60 * time.Second

// once makes one run under the work lock and writes the heartbeat. The report is
// never nil.
func (c *component) once(ctx context.Context, why occasion) (*heartbeat.Report, error) {
	report := &heartbeat.Report{}
	if _, err := config.CheckDir(c.home.Dir); err != nil {
		return report, err // the directory is gone: only otm init makes one
	}
	l, err := lock.Acquire(ctx, c.home.lockPath(c.id), workWait)
	if err != nil {
		return report, err
	}
	defer l.Release()
	if now := c.home.Now(); now.Sub(c.cleaned).Abs() >= time.Hour {
		c.clean()
		c.cleaned = now
	}
	c.agents(c.home.Agents())
	end := c.beat.Run()
	if _, trouble := findBoard(c.home); trouble != nil && why != hinted {
		report.Trouble, report.NoBoard, report.Due = trouble, true, c.home.Now().Add(noBoardRetry)
	} else if report, err = c.run(ctx, why, c.beat.Progress); err != nil {
		report.Trouble = err // our own files: a full disk gets room again, and each run recovers
	}
	if c.house != nil {
		report.Trouble = cmp.Or(report.Trouble, c.house(ctx))
	}
	report.Next = ownHint(report.Trouble)
	if ctx.Err() != nil {
		return report, errors.Join(context.Cause(ctx), end(nil)) // a stop is no failure
	}
	if why != asked && c.home.configChanged() {
		f := explain.New(explain.ConfigChanged, "apply", c.home.runner().Apply)
		if broken := c.home.configUnreadable(); broken != nil {
			f = explain.New(explain.ConfigBroken, "error", broken, "path", filepath.Join(c.home.Dir, config.FileName))
		}
		report.Needs(f)
	}
	return report, errors.Join(err, end(report))
}

// clean removes temporary files of crashed writers.
func (c *component) clean() {
	for _, dir := range fsck.TempFolders {
		durable.RemoveLeftovers(filepath.Join(c.home.Dir, dir), time.Hour, c.home.Now())
	}
	if c.prune != nil {
		c.prune()
	}
}

// Once makes one run at a person's or a timer's request. The error carries the
// exit code.
func (c *component) Once(ctx context.Context) error {
	report, err := c.once(ctx, asked)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.home.Out, safe.Escape(report.Details()))
	switch {
	case report.Trouble != nil:
		return report.Trouble
	case len(report.Failed) > 0:
		return cli.Exit(cli.Partial)
	}
	return nil
}

// Resident runs until ctx ends: at its time, and sooner on a hint. The error is a
// *residentError if another process does so already.
func (c *component) Resident(ctx context.Context) error {
	l, err := takeResident(ctx, c.home, c.id)
	if err != nil {
		return err
	}
	defer l.Release()
	c.beat.Resident = true
	defer c.beat.Flush()
	c.log.Info("started", "version", c.home.Version, "dir", c.home.Dir, "every", c.every)
	defer c.log.Info("stopped")
	why := timely
	for {
		report, err := c.once(ctx, why)
		if ctx.Err() != nil {
			return nil
		}
		if err := c.judge(report, err); err != nil {
			return err
		}
		if why, err = c.wait(ctx, report); err != nil {
			return nil
		}
	}
}

// judge decides whether a resident can continue after a run.
func (c *component) judge(r *heartbeat.Report, err error) error {
	if _, ok := errors.AsType[*lock.HeldError](err); ok {
		c.log.Warn("run not begun", "err", err)
		return nil
	}
	var dir *config.DirError
	if errors.Is(err, config.ErrNotInitialised) || errors.As(err, &dir) {
		return err // the data directory is gone, or no longer ours
	}
	if err != nil {
		r.Trouble = err // such as one of writing the heartbeat
	}
	c.sayTrouble(r.Trouble)
	var board *pipeline.BoardError
	if r.Trouble != nil && exitCode(r.Trouble) == cli.Credentials || errors.As(r.Trouble, &board) && board.Code == slacklist.CodeOtherStore {
		return r.Trouble // needs a person
	}
	return nil // a person can rename a column back; the heartbeat names it
}

// sayTrouble logs a trouble once, and its end.
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
		c.log.Warn("run failed", "err", trouble)
	default:
		c.log.Debug("run failed again", "err", trouble)
	}
}

// troubleRetry is the delay after a trouble that may pass by itself.
const troubleRetry = 30 * time.Second

// retryAt is the time of the next run after a trouble. It is zero if the trouble
// needs a person.
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

// wait blocks until the next run is due and returns why. The error says that the
// process stops.
func (c *component) wait(ctx context.Context, r *heartbeat.Report) (occasion, error) {
	delay := c.every
	why := timely
	due := r.Due
	if due.IsZero() {
		due = retryAt(r.Trouble, c.home.Now())
	}
	if !due.IsZero() {
		if d := due.Sub(c.home.Now()); d < delay {
			delay, why = max(d, 10*time.Millisecond), hinted
		}
	}
	over := time.After(delay)
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-over:
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

// boardHints watches for changes of the board: our own, those of our siblings, a
// person's on the embedded board, and the board's start.
func boardHints(boardDir string) *watch.Watcher {
	return watch.New(func(name string) bool { return name == "changed" || name == "endpoint.json" }, boardDir)
}

// residentError says that another process runs the component already.
type residentError struct {
	id  string
	pid int // 0 if the lock file does not tell
}

func (e *residentError) Error() string {
	if e.pid == 0 {
		return fmt.Sprintf("%s is running already", e.id)
	}
	return fmt.Sprintf("%s is running already, as process %d", e.id, e.pid)
}

// isResident reports whether a resident process runs a component: it holds a lock for its
// life.
func isResident(h *Home, id string) bool {
	_, held := lock.Holder(heartbeat.ResidentLock(h.Dir, id))
	return held
}

// takeResident makes this process the resident of a component. It waits for lock.Moment, then the
// error is a *residentError if another process holds the lock.
func takeResident(ctx context.Context, h *Home, id string) (*lock.Lock, error) {
	l, err := lock.Acquire(ctx, heartbeat.ResidentLock(h.Dir, id), lock.Moment)
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		return nil, &residentError{id: id, pid: held.PID}
	}
	return l, err
}
