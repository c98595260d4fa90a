package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/outbox"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/engine"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/complete"
	"otm/pipeline/inbox"
	"otm/pipeline/inbox/watch"
	"otm/pipeline/inject"
	"otm/slacklist"
)

// DefaultEvery is the time between two runs of a component without a hint.
const DefaultEvery = 2 * time.Minute

// minEvery is the shortest time between two runs.
const minEvery = 100 * time.Millisecond

// kind is one kind of component, with its command.
type kind struct {
	id, short, long string
	flag            string // sets the time between two runs
	stays           bool   // without a flag; else only where flag is given
	// build sets what the component does. stays is true for a resident.
	build func(c *component, e *engine.Engine, stays bool)
}

const passLong = ".\nWithout a flag it makes one pass; with --every it stays, and passes sooner when\nthe board changed."

// kinds lists the components in the order of a task's way.
var kinds = []kind{
	{heartbeat.Injector, "Bring drops from the inboxes to the board",
		". Without a flag it stays, watches both\ninboxes and sweeps them regularly.", "sweep-every", true, buildInjector},
	{heartbeat.Dispatcher, "Hand new tasks to their agents and wake them", passLong, "every", false, buildDispatcher},
	{heartbeat.Detector, "Set tasks to agent_done when all their steps are done", passLong, "every", false, buildDetector},
}

// newComponent builds a component on a board. Its stop has to be called in the end.
func newComponent(ctx context.Context, h *Home, b pipeline.Board, log *slog.Logger, k kind, every time.Duration, stays bool) (*component, error) {
	c := bareComponent(h, k.id)
	c.log, c.every = log, every
	e, err := newEngine(ctx, h, k.id, b, log)
	if err != nil {
		return nil, err
	}
	c.agents = e.SetAgents
	k.build(c, e, stays)
	return c, nil
}

// bareComponent returns a component without work.
func bareComponent(h *Home, id string) *component {
	c := &component{home: h, id: id, beat: heartbeat.NewWriter(h.Dir, id, h.Version, h.Now), agents: func(pipeline.Agents) {}, stop: func() {}}
	c.beat.Config = h.configStamp
	return c
}

// command is the program of one component.
func (k kind) command(s cli.Streams, args []string) *cobra.Command {
	var once bool
	var every time.Duration
	c := &cobra.Command{Use: k.id, Short: k.short, Long: k.short + k.long, Version: cli.Version(), Args: cli.NoWords(args)}
	c.RunE = withHome(s, func(ctx context.Context, h *Home, _ []string) error {
		if every < minEvery {
			return cli.Errorf(cli.Usage, "--%s %v: at least %v", k.flag, every, minEvery).Hint("--%s %v", k.flag, DefaultEvery)
		}
		if once || !k.stays && !c.Flags().Changed(k.flag) {
			return runOnce(ctx, h, k, every)
		}
		return runResidents(ctx, daemon.NewGroup(ctx), h, []kind{k}, every, func() {})
	})
	c.Flags().String("dir", "", "data directory (default: OTM_DIR, else the platform's)")
	c.Flags().BoolVar(&once, "once", false, "run once, then exit")
	c.Flags().DurationVar(&every, k.flag, DefaultEvery, "stay, with this time between two runs without a hint, such as 2m")
	if !k.stays {
		c.Flags().Lookup(k.flag).DefValue = "0s" // it has none for people: without the flag the command does not stay
	}
	return c
}

// runOnce makes one run of a component.
func runOnce(ctx context.Context, h *Home, k kind, every time.Duration) error {
	log := h.stderrLog(k.id)
	c, err := newComponent(ctx, h, h.board(log), log, k, every, false)
	if err != nil {
		return err
	}
	defer c.stop()
	return c.Once(ctx)
}

// runResidents runs components on one board, in a group, until the group ends. Each
// logs to its own file; the board's client logs to that of the first. It calls begun once
// all of them can start.
func runResidents(ctx context.Context, g *daemon.Group, h *Home, kinds []kind, every time.Duration, begun func()) error {
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	logs := make([]*slog.Logger, len(kinds))
	for i, k := range kinds {
		log, closeLog, err := h.logger(k.id)
		if err != nil {
			g.Go(func(context.Context) error { return err })
			return g.Wait()
		}
		logs[i], ends = log, append(ends, closeLog)
	}
	b := h.board(logs[0])
	var all []*component
	for i, k := range kinds {
		c, err := newComponent(ctx, h, b, logs[i], k, every, true)
		if err != nil && ctx.Err() != nil {
			break // a stop is no failure
		}
		if err != nil {
			g.Go(func(context.Context) error { return err }) // stops the others
			break
		}
		ends, all = append(ends, c.stop), append(all, c)
	}
	if len(all) == len(kinds) {
		begun()
		for _, c := range all {
			c.start(g)
		}
	}
	return g.Wait()
}

// start starts the loops of a resident in a group.
func (c *component) start(g *daemon.Group) {
	c.hints = boardHints(c.home.boardDir())
	g.Go(c.hints.Run)
	if c.inbox != nil {
		c.events = c.inbox.Changed()
		g.Go(c.inbox.Run)
		g.Go(func(ctx context.Context) error { return beatWatcher(ctx, c.home, c.inbox) })
	}
	if c.watch != nil {
		g.Go(c.watch.Run)
	}
	for _, n := range c.notify {
		g.Go(n.Run)
	}
	if c.audit != nil {
		g.Go(c.audit.Run)
	}
	g.Go(c.Resident)
}

// Bounds of the time that a single run waits for what is due soon.
const (
	soonEnough = 20 * time.Second
	longEnough = 90 * time.Second
)

// buildInjector builds the injector. A single run walks the board each time.
func buildInjector(c *component, e *engine.Engine, stays bool) {
	h := c.home
	in := &inject.Injector{
		Box: h.Box, Engine: e, Agents: h.Agents(), Log: c.log, Now: h.Now,
		Times: h.Config.Times, Types: h.Config.Types,
	}
	if stays {
		c.inbox = watch.New(inbox.Arrives, h.Box.Dir(inbox.NewTasks), h.Box.Dir(inbox.TaskUpdates))
	}
	c.prune = func() { pruneProcessed(h, c.log) }
	var waiting atomic.Bool
	c.heed = waiting.Load
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		in.Progress, in.Agents = progress, h.Agents()
		sweep := in.Sweep
		if why == asked {
			sweep = func(ctx context.Context) (*heartbeat.Report, error) {
				return in.SweepUntilQuiet(ctx, soonEnough, longEnough)
			}
		}
		report, err := sweep(ctx)
		waiting.Store(report.Waiting > 0)
		if idle := report.Result() == heartbeat.Success && report.Waiting == 0; idle && err == nil && why != hinted {
			report.Trouble = checkBoard(ctx, e)
		}
		return report, err
	}
}

// checkBoard reads the board unless a component has read it within hintedAge. An
// injector without work would not notice that the token is refused (C52).
func checkBoard(ctx context.Context, e *engine.Engine) error {
	err := e.Refresh(ctx, hintedAge)
	if _, ok := errors.AsType[*lock.HeldError](err); ok {
		return nil // another component reads it
	}
	return err
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

// wakePatience is how long a resident's pass waits for the answers to its wakes. A
// later answer begins another pass; what is dropped meanwhile is handed out.
const wakePatience = 50 * time.Millisecond

// buildDispatcher builds the dispatcher. A single run waits for all answers to its
// wakes.
func buildDispatcher(c *component, e *engine.Engine, stays bool) {
	h := c.home
	wakers, stopWakers := newWakers(h, e, c.log, stays)
	e.Adopts = true
	d := &dispatch.Dispatcher{
		Dir: h.Dir, MessageDir: messageDir(h), Store: e, Outbox: e.Outbox, Held: func() bool { return h.configUnreadable() != nil }, Entries: e.Entries.(*dispatch.Entries), Agents: h.Agents(), Wakers: wakers,
		Log: c.log, Now: h.Now, Times: h.Config.Times, Types: h.Config.Types, Reviewers: h.Config.Reviewers, Deliver: e.Deliver,
		Look: func(ctx context.Context, maxAge time.Duration, r *heartbeat.Report) error {
			looked, err := e.Look(ctx, maxAge)
			r.Failed = append(r.Failed, looked.Findings...)
			r.RunBy(looked.Again)
			if err != nil {
				return r.Stopped(err)
			}
			return nil
		},
		Carry: func(ctx context.Context, a *pipeline.Agent) (bool, error) {
			reports, _ := waitingReports(h, func(string, ...any) {}) // what cannot be read holds up nothing; the injector tells of it
			return carryReports(ctx, h, e, a, reports)
		},
		Answered: func() { slacklist.TouchChanged(h.Dir) },
	}
	if len(h.Config.Advise) > 0 {
		a := &dispatch.Adviser{Command: h.Config.Advise, Dir: h.Dir, PathDir: pathDir(h), Secrets: h.Config.SecretEnv()}
		d.Advise = a.Ask
	}
	if stays {
		c.watch, c.notify = newWatcher(h, e, c.log), newNotifiers(h, e, c.log)
		c.audit = newAudit(h, e, c.log)
		d.Starts = []dispatch.Start{{What: core.StartedDispatcher, Version: h.Version}}
		d.Patience, d.Link = wakePatience, func() *dispatch.Link {
			link, err := dispatch.ReadLink(h.Dir)
			if err != nil {
				return nil // none is kept, or its outages are not known
			}
			return &link
		}
	}
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		d.Progress, d.Agents = progress, h.Agents()
		if g, ok := wakers[pipeline.TriggerGateway].(*gatewayWaker); ok && stays {
			d.Starts = append(d.Starts, g.notes.takeStarts()...)
			if why == timely {
				g.notes.list.ask()
			}
		}
		return d.Pass(ctx, why.maxAge(c.every))
	}
	c.stop = func() {
		d.Wait() // for the wakes that are under way
		stopWakers()
	}
}

// buildDetector builds the completion detector.
func buildDetector(c *component, e *engine.Engine, _ bool) {
	d := &complete.Detector{Engine: looksForDrift{e}, Types: c.home.Config.Types, Log: c.log, Now: c.home.Now}
	c.house = (&housekeeper{c: c}).keep
	var restored time.Time // when the renderings and the room on the list were last looked at
	c.run = func(ctx context.Context, why occasion, progress func()) (*heartbeat.Report, error) {
		e.Progress = progress
		report, err := d.Pass(ctx, why.maxAge(c.every))
		if now := c.home.Now(); err == nil && now.Sub(restored).Abs() >= restoreEvery {
			failed := e.Render.(*outbox.Render).Restore(ctx)
			if failed == nil {
				restored = now
			}
			if report.Trouble = cmp.Or(report.Trouble, failed); report.Trouble == nil {
				report.Trouble = keepRoom(ctx, c, e)
			}
		}
		return report, err
	}
}

// restoreEvery is how often the detector looks for deleted renderings, and at the room on
// the list.
const restoreEvery = time.Minute

// looksForDrift is the engine as the detector sees it.
type looksForDrift struct{ *engine.Engine }

// Look implements complete.Engine.
func (e looksForDrift) Look(ctx context.Context, maxAge time.Duration) (drifted int, err error) {
	looked, err := e.Engine.Look(ctx, maxAge)
	return looked.Drifted, err
}

// probeEvery is the time between two tests of the watching. Until the first one succeeds,
// it is repeated sooner: an inbox may be missing.
const (
	probeEvery = time.Minute
	firstProbe = time.Second
)

// watcher is what beatWatcher needs of a watch.
type watcher interface {
	Stands() <-chan struct{}
	Probe() int
	Probed() <-chan string
	Stats() watch.Stats
}

// beatWatcher writes the watcher's heartbeat when every inbox has shown the event
// of a probe. A deaf watch therefore stops beating.
func beatWatcher(ctx context.Context, h *Home, w watcher) error {
	beat := heartbeat.NewWriter(h.Dir, heartbeat.Watcher, h.Version, h.Now)
	beat.Config = h.configStamp
	tick := time.NewTicker(firstProbe)
	defer tick.Stop()
	seen := map[string]bool{}
	stands := w.Stands()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stands:
			stands = nil
			w.Probe()
		case <-tick.C:
			clear(seen)
			w.Probe()
		case dir := <-w.Probed():
			seen[dir] = true
			if len(seen) < len(inbox.Kinds) {
				continue
			}
			clear(seen)
			tick.Reset(probeEvery)
			stats := w.Stats()
			beat.Progress()
			if stats.Degraded != "" {
				beat.Beat(heartbeat.Partial, stats.Degraded, explain.New(explain.RunNote, "note", stats.Degraded))
			} else {
				beat.Beat(heartbeat.Success, fmt.Sprintf("watches the inboxes for the injector, overflows: %d", stats.Overflows))
			} // if it cannot be written, its age tells
		}
	}
}
