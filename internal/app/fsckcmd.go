package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/internal/cli"
	"otm/internal/datadir"
	"otm/internal/fsck"
	"otm/internal/safe"
	"otm/pipeline"
)

// fsckCommand is otm fsck.
func fsckCommand(s cli.Streams) *cobra.Command {
	var repair, rest bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Check the directory and the board for faults",
		Long: `Read the board, the store and all files, and report faults: tables that differ
from the events, archives that are damaged, tasks that are missing or stand twice, steps, updates, dispatch
files, wakes, the counter, half-made work, and temporary files. Exits with 0 if
there are none.

--repair mends what no other program mends, and says what it did. If the directory
was moved or copied, it makes this one the owner of its store and of the list.
--at-rest also reports what waits or is half made: use it when nothing runs and
nothing is due.`,
		Example: "  otm fsck\n  otm fsck --repair",
		RunE: withAnyHome(s, func(ctx context.Context, h *Home, _ []string) error {
			h.stores.moved = repair
			return runFsck(ctx, h, repair, rest)
		}),
	}
	c.Flags().BoolVar(&repair, "repair", false, "mend what can be mended")
	c.Flags().BoolVar(&rest, "at-rest", false, "also report what waits or is half made")
	jsonFlag(c, "print the findings as JSON")
	return c
}

func runFsck(ctx context.Context, h *Home, repair, rest bool) error {
	var moved *datadir.MovedError
	if err := datadir.Check(h.Dir); err != nil && !errors.As(err, &moved) {
		return err
	}
	if _, err := h.OpenStore(ctx); err != nil {
		return err
	}
	if moved != nil { // said at once: the board may not answer
		h.Note("the store belongs to this directory now, and no more to %q on %s", moved.Was.Dir, moved.Was.Host)
	}
	findings, err := checkAll(ctx, h, rest)
	if err != nil {
		return err
	}
	did, mended := []string{}, []string{}
	var trouble error
	if repair && len(findings) > 0 {
		before := findings
		did, trouble = repairFaults(ctx, h, before) // what it did is told all the same
		if findings, err = checkAll(ctx, h, rest); err != nil {
			for _, d := range did {
				h.Note("%s", d)
			}
			return errors.Join(trouble, err)
		}
		for _, f := range before {
			if !slices.ContainsFunc(findings, func(o fsck.Finding) bool { return f.Code == o.Code && f.TaskID == o.TaskID }) {
				mended = append(mended, f.Text)
			}
		}
	}
	err = h.answer(struct {
		Findings []fsck.Finding `json:"findings"`
		Did      []string       `json:"did"`
		Mended   []string       `json:"mended"`
	}{append([]fsck.Finding{}, findings...), did, mended}, func() error { return printFaults(h, findings, did) })
	if err = errors.Join(trouble, err); err == nil && len(findings) > 0 {
		return cli.Exit(cli.Partial)
	}
	return err
}

// checkAll walks the board and runs all checks.
func checkAll(ctx context.Context, h *Home, rest bool) ([]fsck.Finding, error) {
	if err := walk(ctx, h); err != nil {
		return nil, err
	}
	snap, err := h.snapshot()
	if err != nil {
		return nil, err
	}
	opened, err := h.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	bad, err := store.BadArchives(ctx, opened)
	if err != nil {
		return nil, err
	}
	return fsck.Check(ctx, fsck.Options{Dir: h.Dir, Store: opened, Agents: h.Agents(), Rows: snap.Rows, Bad: bad, Now: h.Now(), Quiet: rest})
}

func printFaults(h *Home, findings []fsck.Finding, did []string) error {
	for _, d := range did {
		fmt.Fprintf(h.Out, "did: %s\n", safe.Escape(d))
	}
	if len(findings) == 0 {
		fmt.Fprintln(h.Out, "no problems found")
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
	return nil
}

// repairFaults mends what can be mended, and returns what it did in words. It goes on
// after an error, and returns all errors.
func repairFaults(ctx context.Context, h *Home, findings []fsck.Finding) (did []string, err error) {
	rebuild := false
	var errs []error
	done := func(err error, format string, args ...any) {
		if errs = append(errs, err); err == nil {
			did = append(did, fmt.Sprintf(format, args...))
		}
	}
	did = []string{}
	for _, f := range findings {
		switch f.Repair {
		case fsck.RaiseCounter:
			next, err := raiseCounter(ctx, h, f.TaskID)
			done(err, "set the counter to %d", next)
		case fsck.RemoveFile:
			if err := os.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
				done(err, "removed %s", f.Path)
			}
		case fsck.HandleAgain:
			done(os.Rename(f.Path, filepath.Join(f.Args["to"], filepath.Base(f.Path))), "put %s back into %s", filepath.Base(f.Path), filepath.Base(f.Args["to"]))
		case fsck.Rebuild:
			rebuild = true
		}
	}
	if rebuild {
		backup, err := rebuildStore(ctx, h)
		done(err, "rebuilt the tables from the events; the former ones are in %s", backup)
	}
	return did, errors.Join(errs...)
}

func raiseCounter(ctx context.Context, h *Home, above pipeline.TaskID) (next int, err error) {
	counter, err := h.Counter.Counter(ctx) // taking the counter restores a lost one
	if err != nil {
		return 0, err
	}
	defer counter.Release()
	if err := counter.Raise(above); err != nil {
		return 0, err
	}
	return h.Counter.Stored()
}

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
