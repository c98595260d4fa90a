package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/lock"
	"otm/slacklist"
)

// boardID is the name of the embedded board among the components.
const boardID = "otm-board"

// upCommand is otm up.
func upCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, in the foreground",
		Long: `Run the injector, the dispatcher, the completion detector and, unless a Slack
list is configured, the embedded board, until it is interrupted.`,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			return h.Up(c.Context(), func(page string) {
				if page != "" {
					fmt.Fprintln(s.Out, page)
				}
			})
		},
	}
}

// Up runs all components until ctx ends. ready is told the address of the
// embedded board's page, "" where a list is configured, once the board
// answers.
func (h *Home) Up(ctx context.Context, ready func(page string)) error {
	g := daemon.NewGroup(ctx)
	if h.Config.Slack.ListID == "" {
		b, err := h.openBoard(ctx, board.Options{Listen: h.Config.Board.Listen})
		if err != nil {
			return err
		}
		defer b.close()
		g.Go(b.serve)
		ready(b.endpoint.Page)
	} else {
		ready("")
	}
	shared := h.board(slog.New(slog.DiscardHandler))
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

func (h *Home) startInjector(g *daemon.Group, b *boardSource) (func(), error) {
	log, closeLog, err := h.logger(heartbeat.Injector, true)
	if err != nil {
		return nil, err
	}
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

// runningBoard is the embedded board in this process.
type runningBoard struct {
	server   *board.Server
	endpoint board.Endpoint
	lock     *lock.Lock
	closeLog func()
}

// openBoard opens the embedded board and makes it listen.
func (h *Home) openBoard(ctx context.Context, o board.Options) (*runningBoard, error) {
	l, err := h.residentLock(ctx, boardID)
	if err != nil {
		return nil, err
	}
	log, closeLog, err := h.logger(boardID, true)
	if err != nil {
		l.Release()
		return nil, err
	}
	b := &runningBoard{lock: l, closeLog: closeLog}
	o.Dir, o.Log, o.Now = h.boardDir(), log, h.Now
	o.OnPeopleEdit = func() {
		if err := slacklist.TouchEdited(h.Dir); err != nil {
			log.Warn("edit not announced", "err", err)
		}
	}
	b.server, err = board.Open(o)
	if err == nil {
		b.endpoint, err = b.server.Listen()
	}
	if err != nil {
		b.close()
		return nil, err
	}
	log.Info("listening", "url", b.endpoint.URL, "list", b.endpoint.ListID)
	return b, nil
}

func (b *runningBoard) serve(ctx context.Context) error { return b.server.Serve(ctx) }

func (b *runningBoard) close() error {
	var err error
	if b.server != nil {
		err = b.server.Close()
	}
	b.closeLog()
	return errors.Join(err, b.lock.Release())
}

// boardCommand is otm board.
func boardCommand(s cli.Streams) *cobra.Command {
	var limits string
	var rows int
	c := &cobra.Command{
		Use:   "board",
		Short: "Run the embedded board alone",
		Long: `Run the embedded board until it is interrupted: a server on this machine that
speaks the Slack Lists API and shows the list on a page. Prints the page's
address.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if rows < 0 {
				return cli.Errorf(cli.Usage, "--row-limit %d: is negative", rows)
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			o := board.Options{Listen: h.Config.Board.Listen, RowLimit: rows}
			switch limits {
			case "":
			case "slack":
				o.Limits = &board.Limits{}
			default:
				return cli.Errorf(cli.Usage, "--limits %q: only slack is known", limits).Hint("otm board --limits slack")
			}
			b, err := h.openBoard(c.Context(), o)
			if err != nil {
				return err
			}
			defer b.close()
			fmt.Fprintln(s.Out, b.endpoint.Page)
			return b.serve(c.Context())
		},
	}
	c.Flags().StringVar(&limits, "limits", "", "refuse calls beyond a service's limits: slack")
	c.Flags().IntVar(&rows, "row-limit", 0, "rows a list may hold, steps counted (default: no limit)")
	return c
}
