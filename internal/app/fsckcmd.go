package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/fsck"
	"otm/internal/lock"
	"otm/internal/safe"
	"otm/slacklist"
)

// fsckCommand is otm fsck.
func fsckCommand(s cli.Streams) *cobra.Command {
	var repair, rest, asJSON bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Hold the directory and the board against what must always be true",
		Long: `Read the board and all files, and say what is not as it must be: tasks that are
missing or stand twice, steps, updates, dispatch files, keys of wakes, the
counter, what is half made, litter. Exits with 0 if nothing is.

With --repair it mends what can be mended, and says what it did. With --at-rest
it also reports what waits or is half made: for a directory in which nothing
runs and nothing is due.`,
		Example: "  otm fsck\n  otm fsck --repair",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			return h.fsck(c.Context(), repair, rest, asJSON)
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "mend what can be mended")
	c.Flags().BoolVar(&rest, "at-rest", false, "also report what waits or is half made")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return c
}

func (h *Home) fsck(ctx context.Context, repair, rest, asJSON bool) error {
	findings, err := h.check(ctx, rest)
	if err != nil {
		return err
	}
	mended := []string{}
	if repair && len(findings) > 0 {
		if mended, err = h.repair(ctx, findings); err != nil {
			return err
		}
		if findings, err = h.check(ctx, rest); err != nil {
			return err
		}
	}
	if asJSON {
		err = json.NewEncoder(h.Out).Encode(struct {
			Findings []fsck.Finding `json:"findings"`
			Mended   []string       `json:"mended"`
		}{append([]fsck.Finding{}, findings...), mended})
	} else {
		h.printFindings(findings, mended)
	}
	if err == nil && len(findings) > 0 {
		return cli.Exit(cli.Partial)
	}
	return err
}

// check walks the board and looks.
func (h *Home) check(ctx context.Context, rest bool) ([]fsck.Finding, error) {
	if err := h.walk(ctx); err != nil {
		return nil, err
	}
	snap, err := slacklist.ReadSnapshot(h.Dir, h.Now())
	if err != nil {
		return nil, err
	}
	return fsck.Check(fsck.Options{Dir: h.Dir, Agents: h.Config.Agents, Rows: snap.Rows, Now: h.Now(), Quiet: rest})
}

func (h *Home) printFindings(findings []fsck.Finding, mended []string) {
	for _, m := range mended {
		fmt.Fprintf(h.Out, "mended: %s\n", safe.Escape(m))
	}
	if len(findings) == 0 {
		fmt.Fprintln(h.Out, "all is as it must be")
	}
	for _, f := range findings {
		who := ""
		if f.TaskID != 0 {
			who = f.TaskID.String() + ": "
		}
		fmt.Fprintf(h.Out, "%s%s\n  (%s)\n", who, safe.Escape(f.Text), f.Rule)
		if f.Hint != "" {
			fmt.Fprintf(h.Out, "  → %s\n", safe.Escape(f.Hint))
		}
	}
}

// repair mends what can be mended, and says what it did.
func (h *Home) repair(ctx context.Context, findings []fsck.Finding) ([]string, error) {
	did := []string{}
	again := false
	for _, f := range findings {
		switch f.Repair {
		case fsck.RaiseCounter:
			if err := h.Store.Raise(ctx, f.TaskID); err != nil {
				return did, err
			}
			counter, err := h.Store.Counter(ctx) // a lost one is found again when it is taken
			if err != nil {
				return did, err
			}
			counter.Release()
			did = append(did, "the counter stands above every id")
		case fsck.RemoveFile:
			if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return did, err
			}
			did = append(did, "removed "+f.Path)
		case fsck.RunAgain:
			again = true
		}
	}
	if again {
		if err := h.runAll(ctx); err != nil {
			return did, err
		}
		did = append(did, "ran the components twice")
	}
	return slices.Compact(did), nil
}

// runAll makes two runs of each component, as some things take two looks. What
// a resident does already, it does by itself.
func (h *Home) runAll(ctx context.Context) error {
	quiet := *h
	quiet.Out = io.Discard
	log := slog.New(slog.DiscardHandler)
	b := quiet.board(log)
	dispatcher, stop := quiet.dispatcher(b, log, DefaultEvery, 0)
	defer stop()
	for range 2 {
		for _, c := range []*component{quiet.injector(b, log, DefaultEvery, true), dispatcher, quiet.detector(b, log, DefaultEvery)} {
			if _, held := lock.Holder(h.lockPath(c.id + ".resident")); held {
				continue
			}
			if _, err := c.once(ctx, asked); err != nil {
				return err
			}
		}
	}
	return nil
}
