package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/internal/cli"
	"otm/internal/safe"
)

// rebuildCommand is otm rebuild.
func rebuildCommand(s cli.Streams) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the tables anew from the events",
		Long: `Events are the truth: what the tables say of tasks and agents follows from them.
--check replays all events, reads all archives, and prints what differs or is
damaged; exits with 3 if something is. Without it, rows that differ are replaced
by what the events say, after a backup.`,
		Example: "  otm rebuild --check",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if check {
				return checkStore(ctx, h)
			}
			backup, err := rebuildStore(ctx, h)
			switch {
			case err != nil:
			case backup == "":
				fmt.Fprintln(h.Out, "nothing to rebuild: the tables follow from the events")
			default:
				fmt.Fprintf(h.Out, "rebuilt; the former tables are in %s\n", safe.Escape(backup))
			}
			return err
		}),
	}
	c.Flags().BoolVar(&check, "check", false, "only say what differs")
	return c
}

// checkStore prints what the tables say otherwise than the events.
func checkStore(ctx context.Context, h *Home) error {
	s, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	bad, err := store.BadArchives(ctx, s)
	if err != nil {
		return err
	}
	differences, err := s.Differs(ctx)
	if err != nil && (!errors.Is(err, core.ErrArchive) || len(bad) == 0) {
		return err
	}
	for _, d := range differences {
		fmt.Fprintln(h.Out, safe.Escape(d))
	}
	for _, b := range bad {
		fmt.Fprintf(h.Out, "%s: %s\n", safe.Escape(b.Why), safe.Escape(b.Do))
	}
	if len(differences)+len(bad) > 0 {
		return cli.Exit(cli.Partial)
	}
	fmt.Fprintln(h.Out, "no problems found")
	return nil
}

// rebuildStore replaces the rows of the tables that differ from the events, and returns
// the path of the backup; "": nothing differed.
func rebuildStore(ctx context.Context, h *Home) (backup string, err error) {
	s, err := h.OpenStore(ctx)
	if err != nil {
		return "", err
	}
	backup, _, err = store.Rebuild(ctx, s, h.Now())
	return backup, err
}
