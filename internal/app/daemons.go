package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/explain"
	"otm/pipeline/inbox"
)

// minEvery is the shortest time between two runs.
const minEvery = 100 * time.Millisecond

func checkEvery(flag string, every time.Duration) error {
	if every < minEvery {
		return cli.Errorf(cli.Usage, "--%s %v: at least %v", flag, every, minEvery).Hint("--%s %v", flag, DefaultEvery)
	}
	return nil
}

// injectorCommand is otm-injector.
func injectorCommand(s cli.Streams, args []string) *cobra.Command {
	var dir string
	var once bool
	var every time.Duration
	c := &cobra.Command{
		Use:     heartbeat.Injector,
		Short:   "Bring drops from the inboxes to the board",
		Long:    "Bring drops from the inboxes to the board. Without a flag it stays, watches both\ninboxes and sweeps them regularly.",
		Version: cli.Version(),
		Args:    cli.NoWords(args),
		RunE: func(c *cobra.Command, _ []string) (failed error) {
			if err := checkEvery("sweep-every", every); err != nil {
				return err
			}
			h, err := OpenHome(s, dir)
			if err != nil {
				return err
			}
			log, closeLog, err := h.logger(heartbeat.Injector, !once)
			if err != nil {
				return err
			}
			defer func() {
				closeLog()
				failed = departed(h.Dir, failed)
			}()
			in := newInjector(h, h.board(log), log, every, once)
			if once {
				return in.Once(c.Context())
			}
			g := daemon.NewGroup(c.Context())
			goInjector(g, in)
			return g.Wait()
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "data directory (default: OTM_DIR, else the platform's)")
	c.Flags().BoolVar(&once, "once", false, "make one sweep, then exit")
	c.Flags().DurationVar(&every, "sweep-every", DefaultEvery, "time between two sweeps without a hint")
	return c
}

// goInjector starts the injector's loops in a group.
func goInjector(g *daemon.Group, in *component) {
	h := in.home
	w := inboxWatch(h.Box)
	in.events, in.hints = w.Changed(), boardHints(h.boardDir())
	in.degraded = func() string { return w.Stats().Degraded }
	g.Go(w.Run)
	g.Go(in.hints.Run)
	g.Go(func(ctx context.Context) error { return beatWatcher(ctx, h, w) })
	g.Go(in.Resident)
}

// probeEvery is the time between two tests of the watching. The first probe may
// come before the watch is set up, so it is repeated sooner.
const (
	probeEvery = time.Minute
	firstProbe = time.Second
)

// beatWatcher writes the watcher's heartbeat when every inbox has shown the event
// of a probe. A deaf watch therefore stops beating.
func beatWatcher(ctx context.Context, h *Home, w watcher) error {
	beat := heartbeat.NewWriter(h.Dir, heartbeat.Watcher, h.Version, h.Now)
	beat.Config = h.configStamp()
	tick := time.NewTicker(firstProbe)
	defer tick.Stop()
	seen := map[string]bool{}
	w.Probe()
	for {
		select {
		case <-ctx.Done():
			return nil
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
				beat.Beat(heartbeat.Success, fmt.Sprintf("watching, overflows: %d", stats.Overflows))
			} // if it cannot be written, its age tells
		}
	}
}

// passCommand is otm-dispatcher or otm-completion-detector.
func passCommand(s cli.Streams, args []string, id, short string) *cobra.Command {
	var dir string
	var once bool
	var every time.Duration
	c := &cobra.Command{
		Use:     id,
		Short:   short,
		Long:    short + ".\nWithout a flag it makes one pass; with --every it stays, and passes sooner when\nthe board changed.",
		Version: cli.Version(),
		Args:    cli.NoWords(args),
		RunE: func(c *cobra.Command, _ []string) (failed error) {
			stay := c.Flags().Changed("every") && !once
			if err := checkEvery("every", every); err != nil {
				return err
			}
			h, err := OpenHome(s, dir)
			if err != nil {
				return err
			}
			log, closeLog, err := h.logger(id, stay)
			if err != nil {
				return err
			}
			defer func() {
				closeLog()
				failed = departed(h.Dir, failed)
			}()
			b := h.board(log)
			var p *component
			if id == heartbeat.Dispatcher {
				patience := time.Duration(0)
				if stay {
					patience = wakePatience
				}
				var stop func()
				p, stop = newDispatcher(h, b, log, every, patience)
				defer stop()
			} else {
				p = newDetector(h, b, log, every)
			}
			if !stay {
				return p.Once(c.Context())
			}
			g := daemon.NewGroup(c.Context())
			goPass(g, p)
			return g.Wait()
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "data directory (default: OTM_DIR, else the platform's)")
	c.Flags().BoolVar(&once, "once", false, "make one pass, then exit")
	c.Flags().DurationVar(&every, "every", DefaultEvery, "stay, with this time between two passes without a hint, such as 2m")
	c.Flags().Lookup("every").DefValue = "0s" // it has none for people: without the flag the command does not stay
	return c
}

// wakePatience is how long a resident's pass waits for the answers to its wakes. A
// later answer begins another pass; what is dropped meanwhile is handed out.
const wakePatience = 50 * time.Millisecond

// goPass starts the loops of a dispatcher or a detector in a group.
func goPass(g *daemon.Group, p *component) {
	p.hints = boardHints(p.home.boardDir())
	g.Go(p.hints.Run)
	g.Go(p.Resident)
}
