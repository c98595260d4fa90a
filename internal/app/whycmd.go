package app

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
)

// whyCommand is otm why.
func whyCommand(s cli.Streams) *cobra.Command {
	var all bool
	c := reading(&cobra.Command{
		Use:   "why ID",
		Short: "Say why a task is where it is, and what to do",
		Long: `Say why a task is where it is, and what to do about it. --all goes through all
tasks and lists those that have stood longer than their stage usually takes, are
blocked, have failed, or wait for another run. It reads the data directory; --fresh
asks the board.`,
		Example: "  otm why T-00035\n  otm why --all",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == all {
				return cli.Errorf(cli.Usage, "want one task id, or --all").Hint("otm why T-00035")
			}
			return nil
		},
	}, s, false, func(h *Home, v *view.View, args []string) error {
		if all {
			return whyAll(h, v)
		}
		id, err := taskArg(args)
		if err != nil {
			return err
		}
		return whyOne(h, v, id)
	})
	c.Flags().BoolVar(&all, "all", false, "all tasks that have stood too long")
	return c
}

func whyOne(h *Home, v *view.View, id pipeline.TaskID) error {
	r, err := why.Of(v, id)
	if err != nil {
		return err
	}
	noteAge(h, v.Board.WalkAt)
	return h.answer(why.Entry{TaskID: id, Title: v.Task(id).Title(), Reason: r}, func() error {
		_, err := fmt.Fprintf(h.Out, "%v: %s\n", id, reasonText(&r, "         ", "next: "))
		return err
	})
}

// reasonText is a reason for a terminal: one finding on each line, after the first with
// an indent, and then what to do.
func reasonText(r *why.Reason, indent, next string) string {
	text := strings.Join(pipeline.Map(r.Lines, safe.Escape), "\n"+indent)
	if r.Next != "" {
		text += "\n" + next + safe.Escape(r.Next)
	}
	if r.Or != "" {
		text += "\n" + strings.NewReplacer("→ ", "or: ", "next: ", "or:   ").Replace(next) + safe.Escape(r.Or)
	}
	return text
}

// whyAll lists what has stood longer than its stage usually takes, the oldest
// first.
func whyAll(h *Home, v *view.View) error {
	slow, err := why.Slow(v)
	if err != nil {
		return err
	}
	noteAge(h, v.Board.WalkAt)
	noteNothingStays(h, v)
	return h.answer(slow, func() error { return printSlow(h, slow) })
}

func printSlow(h *Home, slow []why.Entry) error {
	if len(slow) == 0 {
		fmt.Fprintln(h.Out, "nothing has stood longer than it usually takes")
		return nil
	}
	// Tasks that wait for one thing, such as their agent, are told of it together.
	type group struct{ tasks, reason string }
	var groups []group
	of := map[string]int{} // the group of a reason that has lines of its own
	for i := range slow {
		task, reason, _ := strings.Cut(slowText(&slow[i]), "\n")
		at, told := of[reason]
		if !told {
			at, groups = len(groups), append(groups, group{reason: reason})
		}
		if len(slow[i].Lines) > 1 {
			of[reason] = at
		}
		groups[at].tasks += task + "\n"
	}
	for _, g := range groups {
		fmt.Fprint(h.Out, g.tasks)
		if g.reason != "" {
			fmt.Fprintln(h.Out, g.reason)
		}
	}
	return nil
}

// slowText is a task with its reason, for a terminal.
func slowText(e *why.Entry) string {
	return fmt.Sprintf("%s %s: %s", idOrDash(e.TaskID), short(cmp.Or(e.Title, "(no title)"), 50), reasonText(&e.Reason, "         ", "         next: "))
}
