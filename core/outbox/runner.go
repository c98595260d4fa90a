package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
)

// Deliverer brings a sink to what the store holds.
type Deliverer interface {
	// Deliver brings the tasks of the effects to what the store holds now, which may be
	// newer than what the effects ask for. It returns what came of each, in their order.
	Deliver(ctx context.Context, effects []core.Pending) []Result
}

// Result is what came of one effect. The zero value: it is delivered.
type Result struct {
	Err  error     // why it is not delivered
	Code string    // of the error, as data; "": the error has none
	Due  time.Time // not to be tried before, as the sink itself asks; zero: after a pause that grows
	// Asked is when a try was made that got no answer, so that the next one looks first;
	// zero: no other than the effect says already.
	Asked time.Time
	// Person reports that the next try fails the same way until a person acts.
	Person bool
	// Stop reports that the sink fails for all effects now: the run leaves it alone.
	Stop bool
}

// ErrAgain says that the sink had no time to deliver an effect, or all of it. Nothing is
// wrong: the run delivers it again at once.
var ErrAgain = errors.New("there was no time for it yet")

// Defaults of a Runner.
const (
	// leaseTime is how long a lease lasts that nobody renews. A process that died on
	// another machine holds effects up for so long.
	leaseTime = 15 * time.Second
	// batch is how many effects are delivered together.
	batch = 50
	// longestPause is the longest pause between two tries.
	longestPause = 5 * time.Minute
	// waitForOthers is how long Run waits for another process that delivers effects of
	// the tasks it was given.
	waitForOthers = 10 * time.Second
)

// Runner delivers effects to the sinks of this process. Its method may be called from
// several goroutines.
type Runner struct {
	Outbox core.Outbox
	Sinks  map[core.Sink]Deliverer // a sink that is missing is left to other processes
	Now    func() time.Time
	Lease  time.Duration // of each effect, renewed while it is delivered; zero: 15 seconds
	Wait   time.Duration // for other processes, see Run; zero: 10 seconds
}

// Run delivers the effects of tasks, or all that are due if none is given: to the
// rendering first, then to the dispatch files, then to the board. It does not wait for
// the pause after a failed try if tasks are given, and it waits a while for another
// process that delivers to them.
//
// It returns the tasks whose effects are undelivered, each with a *LeftError. The other
// error is one of the store.
func (r *Runner) Run(ctx context.Context, tasks ...pipeline.TaskID) (map[pipeline.TaskID]error, error) {
	run := &run{Runner: r, owner: newOwner(), times: map[effect]int{}, failed: map[pipeline.TaskID]Result{}, stop: map[core.Sink]error{}}
	if err := run.deliverAll(ctx, tasks); err != nil {
		return nil, err
	}
	return run.left(ctx, tasks)
}

// run is one call of Run. It has leases of its own.
type run struct {
	*Runner
	owner  string
	times  map[effect]int             // how often each was delivered
	failed map[pipeline.TaskID]Result // of tasks for which a sink failed now
	stop   map[core.Sink]error        // sinks that fail for all, and why
}

type effect struct {
	task pipeline.TaskID
	sink core.Sink
}

// maxTimes bounds how often a run delivers one effect, whose task may change meanwhile.
const maxTimes = 5

var errChanging = errors.New("the task changes faster than it is written")

// lookAgain is the pause between two looks at what another process delivers.
const lookAgain = 20 * time.Millisecond

// deliverAll delivers to all sinks until nothing of the tasks can be delivered, and
// nobody else is about to.
func (r *run) deliverAll(ctx context.Context, tasks []pipeline.TaskID) error {
	patience := time.After(cmp.Or(r.Wait, waitForOthers))
	for quiet := false; ; {
		pending, err := r.Outbox.Pending(ctx, "", tasks...)
		if err == nil {
			err = r.freeDead(ctx, pending)
		}
		if err != nil || len(pending) == 0 {
			return err
		}
		n, err := r.deliverOnce(ctx, tasks)
		if err != nil {
			return err
		}
		if n > 0 {
			quiet = false
			continue
		}
		others, err := r.leasedByOthers(ctx, tasks)
		if err != nil || quiet && !others {
			return err
		}
		if quiet = !others; quiet {
			continue // they may have given something back at this moment
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience:
			return nil
		case <-time.After(lookAgain):
		}
	}
}

// deliverOnce goes through the sinks in their order, and returns how many effects it
// delivered.
func (r *run) deliverOnce(ctx context.Context, tasks []pipeline.TaskID) (n int, err error) {
	for _, sink := range core.Sinks {
		for r.Sinks[sink] != nil && r.stop[sink] == nil {
			left := slices.DeleteFunc(slices.Clone(tasks), func(id pipeline.TaskID) bool { return r.failed[id].Err != nil })
			if len(tasks) > 0 && len(left) == 0 {
				return n, nil
			}
			effects, err := r.Outbox.Lease(ctx, sink, r.owner, r.Now(), r.lease(), batch, left...)
			if err != nil {
				return n, err
			}
			if len(effects) == 0 {
				break
			}
			// If we crash here, others deliver: see freeDead.
			crash.Point("outbox.leased")
			settled, err := r.deliver(ctx, sink, effects)
			if n += settled; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// deliver has a sink deliver effects that are leased, and settles or postpones them.
func (r *run) deliver(ctx context.Context, sink core.Sink, effects []core.Pending) (settled int, err error) {
	stop := sync.OnceFunc(r.renew(ctx, sink, effects))
	defer stop() // also if the goroutine ends
	results := r.guarded(ctx, sink, effects)
	stop()
	// If we crash here, the sinks have the tasks, and are brought to the same again.
	crash.Point("outbox.delivered")
	var done, later []core.Pending
	for i, p := range effects {
		key := effect{p.Task, sink}
		if r.times[key]++; results[i].Err == nil && r.times[key] > maxTimes {
			results[i].Err = errChanging
		}
		if results[i].Stop {
			r.stop[sink] = results[i].Err
		}
		switch {
		case results[i].Err == nil:
			done = append(done, p)
		case errors.Is(results[i].Err, ErrAgain):
			r.times[key]--
			p.Due = r.Now()
			later = append(later, asked(p, results[i]))
		case ctx.Err() != nil: // we were stopped, which is no failure
			later = append(later, asked(p, results[i]))
		default:
			closed := errors.Is(results[i].Err, fs.ErrNotExist) || errors.Is(results[i].Err, fs.ErrPermission) // a file or its directory
			results[i].Person = results[i].Person || closed
			r.failed[p.Task] = results[i]
			later = append(later, r.postponed(p, results[i]))
		}
	}
	ctx = context.WithoutCancel(ctx) // what came of the effects must not be lost
	err = errors.Join(r.Outbox.Delivered(ctx, done...), r.Outbox.Postponed(ctx, later...))
	return len(done), err
}

// guarded has a sink deliver effects. If it panics, each goes alone, so that one task
// stops no other.
func (r *run) guarded(ctx context.Context, sink core.Sink, effects []core.Pending) (results []Result) {
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case len(effects) == 1:
			results = []Result{{Err: &core.PanicError{Value: p}, Person: true, Asked: r.Now()}}
		default:
			results = nil
			for i := range effects {
				results = append(results, r.guarded(ctx, sink, effects[i:i+1])...)
			}
		}
	}()
	return r.Sinks[sink].Deliver(ctx, effects)
}

// postponed returns an effect as it waits for its next try.
func (r *run) postponed(p core.Pending, why Result) core.Pending {
	p = asked(p, why)
	p.Tries++
	p.Code, p.Error, p.Due = why.Code, why.Err.Error(), why.Due
	if p.Due.IsZero() {
		p.Due = r.Now().Add(pause(p.Tries))
	}
	return p
}

// asked keeps the last try that got no answer, also where the sink could not look for
// what became of it.
func asked(p core.Pending, r Result) core.Pending {
	if r.Asked.After(p.AskedAt) {
		p.AskedAt = r.Asked
	}
	return p
}

// pause is the pause after so many tries that failed: a second, and then twice as long
// each time, up to five minutes.
func pause(tries int) time.Duration {
	if tries > 9 {
		return longestPause
	}
	return min(time.Second<<(tries-1), longestPause)
}

// renew renews the leases of effects until stop is called. A renewal that fails is not
// reported: the lease may lapse, and others may deliver the same.
func (r *run) renew(ctx context.Context, sink core.Sink, effects []core.Pending) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.Tick(r.lease() / 3)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				r.Outbox.Lease(ctx, sink, r.owner, r.Now(), r.lease(), 0, core.TasksOf(effects)...)
			}
		}
	})
	return func() { cancel(); renewing.Wait() }
}

func (r *run) lease() time.Duration { return cmp.Or(r.Lease, leaseTime) }

// leasedByOthers reports whether others deliver effects of the tasks right now, to one of
// our sinks or to one that goes before it.
func (r *run) leasedByOthers(ctx context.Context, tasks []pipeline.TaskID) (bool, error) {
	if len(tasks) == 0 {
		return false, nil
	}
	pending, err := r.Outbox.Pending(ctx, "", tasks...)
	for _, p := range pending {
		ours := slices.ContainsFunc(core.Sinks[slices.Index(core.Sinks, p.Sink):], func(s core.Sink) bool { return r.Sinks[s] != nil })
		if ours && p.Owner != "" && r.failed[p.Task].Err == nil {
			return true, nil
		}
	}
	return false, err
}

// left returns the tasks with effects that are undelivered, and why.
func (r *run) left(ctx context.Context, tasks []pipeline.TaskID) (map[pipeline.TaskID]error, error) {
	pending, err := r.Outbox.Pending(ctx, "", tasks...)
	if err != nil {
		return nil, err
	}
	left := map[pipeline.TaskID]error{}
	for _, p := range pending {
		switch {
		case left[p.Task] != nil:
		case r.failed[p.Task].Err != nil:
			left[p.Task] = &LeftError{Pending: p, Err: r.failed[p.Task].Err, Person: r.failed[p.Task].Person, Stop: r.failed[p.Task].Stop}
		case r.stop[p.Sink] != nil:
			left[p.Task] = &LeftError{Pending: p, Err: r.stop[p.Sink], Stop: true}
		case len(tasks) > 0 || p.Error != "":
			left[p.Task] = &LeftError{Pending: p}
		}
	}
	return left, nil
}

// LeftError says that an effect is undelivered.
type LeftError struct {
	core.Pending       // as it waits: not before its Due
	Err          error // why the sink failed now; nil: it was not tried
	Person       bool  // the next try fails the same way until a person acts
	Stop         bool  // the sink failed for all effects
}

func (e *LeftError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	why := "it waits for its turn"
	switch {
	case e.Pending.Error != "":
		why = e.Pending.Error
	case e.Owner != "":
		why = "another process is about to write it"
	}
	return fmt.Sprintf("%s not written for %v: %s", names[e.Sink], e.Task, why)
}

func (e *LeftError) Unwrap() error { return e.Err }

// Looks reports whether the effect was tried on the board, and waits for a later look at it, as
// that of a task whose row is missing. Nothing is wrong then: somebody may have deleted the row.
func (e *LeftError) Looks() bool {
	board, ok := errors.AsType[*pipeline.BoardError](e.Err)
	return e.Sink == core.SinkBoard && e.Err != nil && !e.Stop && (ok && board.RowGone || !ok && !e.Person)
}

// names are the sinks as people know them.
var names = map[core.Sink]string{core.SinkRender: "rendering", core.SinkEntry: "dispatch file", core.SinkBoard: "board"}

// place names where process ids mean the same processes as here: this boot of this
// machine, and this namespace of processes.
var place = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid") // "" where there are none
	return strings.Join(strings.Fields(host+"/"+durable.BootID()+"/"+namespace), "_")
})

// newOwner returns a name under which a run leases effects. No other run has it.
func newOwner() string { return fmt.Sprintf("%s %d %s", place(), os.Getpid(), rand.Text()) }

// isDead reports whether the process of an owner is known to have ended. It is not known
// of processes elsewhere.
func isDead(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) != 3 || fields[0] != place() {
		return false
	}
	pid, err := strconv.Atoi(fields[1])
	return err == nil && pid > 0 && syscall.Kill(pid, 0) == syscall.ESRCH
}

// freeDead gives back what processes leased that have ended. A process that was killed
// may have made a row on the board.
func (r *run) freeDead(ctx context.Context, pending []core.Pending) error {
	var dead []core.Pending
	for _, p := range pending {
		if p.Owner == "" || !isDead(p.Owner) {
			continue
		}
		if now := r.Now(); p.Sink == core.SinkBoard && p.AskedAt.Before(now) {
			p.AskedAt = now
		}
		dead = append(dead, p)
	}
	return r.Outbox.Postponed(ctx, dead...)
}
