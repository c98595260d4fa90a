package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/daemon"
)

// boardID is the name of the embedded board among the components.
const boardID = "otm-board"

// upCommand is otm up.
func upCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, in the foreground",
		Long: `Run the injector, the dispatcher, the completion detector and, unless a Slack
list is configured, the embedded board, until it is interrupted. Prints the
address of the board's page; what stands behind # works once, for a minute.`,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			return h.Up(c.Context(), func(page string) { fmt.Fprintln(s.Out, page) })
		},
	}
}

// Up runs all components until ctx ends. ready is told the address of the page
// with a link's code, once it answers.
func (h *Home) Up(ctx context.Context, ready func(page string)) (err error) {
	g := daemon.NewGroup(ctx)
	p, err := h.patiently(ctx, func() (*runningPage, error) {
		return h.openPage(ctx, board.Options{Listen: h.Config.Board.Listen})
	})
	if p == nil {
		return err
	}
	defer func() { err = p.ended(err) }()
	g.Go(p.serve)
	ready(h.firstLink(p.address))
	shared := h.board(slog.New(slog.DiscardHandler)) // startInjector gives it a log
	for _, start := range []func(*daemon.Group, *boardSource) (func(), error){h.startInjector, h.startDispatcher, h.startDetector} {
		stop, err := start(g, shared)
		if err != nil {
			g.Go(func(context.Context) error { return err }) // stops the others
			break
		}
		defer stop()
	}
	return g.Wait()
}

// patiently opens a page, and where files of ours cannot be written, as on a
// disk that is full, again until they can: that is no reason to end what is to
// run for months. It returns nil without an error where ctx ends before.
func (h *Home) patiently(ctx context.Context, open func() (*runningPage, error)) (*runningPage, error) {
	for said := false; ; {
		p, err := open()
		if err == nil || !mayPass(err) {
			return p, err
		}
		if ctx.Err() == nil && !said {
			h.Warn("the board cannot start yet, and tries again each %v: %v", troubleRetry, err)
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(troubleRetry):
		}
	}
}

// mayPass tells whether an error of the file system passes without anybody's
// doing something about OTM.
func mayPass(err error) bool {
	for _, passing := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// firstLink is the address that is printed when a page starts. Without a code
// it is of no use but to who has a session.
func (h *Home) firstLink(address string) string {
	link, err := h.link(address)
	if err != nil {
		h.Warn("%v; otm board --link makes one later", err)
		return address
	}
	return link
}

func (h *Home) startInjector(g *daemon.Group, b *boardSource) (func(), error) {
	log, closeLog, err := h.logger(heartbeat.Injector, true)
	if err != nil {
		return nil, err
	}
	b.log = log // of the board's client, for all three
	h.goInjector(g, h.injector(b, log, DefaultEvery, false))
	return closeLog, nil
}

func (h *Home) startDispatcher(g *daemon.Group, b *boardSource) (func(), error) {
	log, closeLog, err := h.logger(heartbeat.Dispatcher, true)
	if err != nil {
		return nil, err
	}
	p, stop := h.dispatcher(b, log, DefaultEvery, wakePatience)
	h.goPass(g, p)
	return func() {
		stop()
		closeLog()
	}, nil
}

func (h *Home) startDetector(g *daemon.Group, b *boardSource) (func(), error) {
	log, closeLog, err := h.logger(heartbeat.Detector, true)
	if err != nil {
		return nil, err
	}
	h.goPass(g, h.detector(b, log, DefaultEvery))
	return closeLog, nil
}

// boardCommand is otm board.
func boardCommand(s cli.Streams) *cobra.Command {
	var limits string
	var rows int
	var link bool
	c := &cobra.Command{
		Use:   "board",
		Short: "Run the embedded board alone",
		Long: `Run the embedded board until it is interrupted: a server on this machine that
speaks the Slack Lists API and shows the list on a page. Prints the page's
address; what stands behind # works once, for a minute. --link prints a new
address for the page that runs.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if rows < 0 {
				return cli.Errorf(cli.Usage, "--row-limit %d: is negative", rows).Hint("otm board --row-limit 1000")
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			if link {
				return h.printLink()
			}
			o := board.Options{Listen: h.Config.Board.Listen, RowLimit: rows}
			switch limits {
			case "":
			case "slack":
				o.Limits = &board.Limits{}
			default:
				return cli.Errorf(cli.Usage, "--limits %q: only slack is known", limits).Hint("otm board --limits slack")
			}
			p, err := h.patiently(c.Context(), func() (*runningPage, error) { return h.openBoard(c.Context(), o) })
			if p == nil {
				return err
			}
			fmt.Fprintln(s.Out, h.firstLink(p.address))
			return p.ended(p.serve(c.Context()))
		},
	}
	c.Flags().BoolVar(&link, "link", false, "print a new address of the page that runs, and exit")
	c.Flags().StringVar(&limits, "limits", "", "refuse calls beyond a service's limits: slack")
	c.Flags().IntVar(&rows, "row-limit", 0, "rows a list may hold, steps counted (default: no limit)")
	return c
}
