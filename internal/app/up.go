package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/daemon"
)

// upCommand is otm up.
func upCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, in the foreground",
		Long: `Run the injector, the dispatcher, the completion detector and, unless a Slack
list is configured, the embedded board, until it is interrupted. Prints the
address of the board's page; the code after # works once, for a minute.`,
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			return h.Up(ctx, func(page string) { fmt.Fprintln(s.Out, page) })
		}),
	}
}

// Up runs all components until ctx ends. ready gets the address of the page, with
// a one-time code, once the page answers and all components can start.
func (h *Home) Up(ctx context.Context, ready func(page string)) (err error) {
	p, err := openPage(ctx, h, board.Options{Listen: h.Config.Board.Listen}, h.Config.Slack.ListID == "")
	if err != nil {
		return err
	}
	defer func() { err = p.ended(err) }()
	g := daemon.NewGroup(ctx)
	g.Go(p.serve)
	return runResidents(ctx, g, h, kinds, DefaultEvery, func() { ready(firstLink(h, p.address)) })
}

// firstLink is the address that is printed when a page starts, with a one-time code
// for a browser that has no session.
func firstLink(h *Home, address string) string {
	link, err := newPageDoor(h).link(address)
	if err != nil {
		h.Warn("%v; otm board --link makes one later", err)
		return address
	}
	return link
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
address; the code after # works once, for a minute. --link prints a new
address for the running page.`,
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if rows < 0 {
				return cli.Errorf(cli.Usage, "--row-limit %d is negative", rows).Hint("otm board --row-limit 1000")
			}
			if agent := s.Getenv("OTM_AGENT"); link && agent != "" {
				return cli.Errorf(cli.Usage, "this shell is that of agent %s: whoever has a link acts as a person", agent)
			}
			if link {
				return newPageDoor(h).print(h.Out)
			}
			o := board.Options{Listen: h.Config.Board.Listen, RowLimit: rows}
			switch limits {
			case "":
			case "slack":
				o.Limits = &board.Limits{}
			default:
				return cli.Errorf(cli.Usage, "--limits %q: only slack is known", limits).Hint("otm board --limits slack")
			}
			p, err := openPage(ctx, h, o, true)
			if err != nil {
				return err
			}
			fmt.Fprintln(s.Out, firstLink(h, p.address))
			return p.ended(p.serve(ctx))
		}),
	}
	c.Flags().BoolVar(&link, "link", false, "print a new address of the running page, and exit")
	c.Flags().StringVar(&limits, "limits", "", "refuse calls beyond the limits of: slack")
	c.Flags().IntVar(&rows, "row-limit", 0, "rows a list may hold, steps counted (default: no limit)")
	return c
}
