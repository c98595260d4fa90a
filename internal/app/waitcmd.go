package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// waitCommand is otm wait.
func waitCommand(s cli.Streams) *cobra.Command {
	var first bool
	var long time.Duration
	c := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait until tasks have ended",
		Long: `Wait until agents have nothing more to do with tasks: until each is agent_done, done,
rejected, failed, cancelled or archived, or its row was deleted. Print a line for each
as it ends, with its result.

Exit codes: 0 all ended as agent_done or done · 3 one ended otherwise (with --any: the
first one) · 75 the time of --for is over, and what ended was printed.`,
		Example: "  otm wait T-00035 T-00036 --for 1h\n  otm wait --any T-00035 T-00036",
		Args:    words(1, many, "no task is named", "otm wait T-00035"),
		RunE: withHome(s, func(ctx context.Context, h *Home, args []string) error {
			w := waiter{Home: h, first: first}
			for i := range args {
				id, err := taskArg(args[i:])
				if err != nil {
					return err
				}
				if !slices.Contains(w.left, id) {
					w.left = append(w.left, id)
				}
			}
			if long < 0 {
				return cli.Errorf(cli.Usage, "--for %v lies in the past", long).Hint("otm wait %s --for 1h", safe.Quote(args[0]))
			}
			return w.wait(ctx, long)
		}),
	}
	c.Flags().BoolVar(&first, "any", false, "wait for the first one only")
	c.Flags().DurationVar(&long, "for", 0, "for how long to wait, such as 1h (default: without a limit)")
	jsonFlag(c, "print one JSON array at the end")
	return c
}

// waiter waits for tasks.
type waiter struct {
	*Home
	first  bool              // wait for the first one only
	left   []pipeline.TaskID // those that have not ended
	ended  []ended
	status map[pipeline.TaskID]pipeline.Status // as last seen
}

// ended is how a task ended.
type ended struct {
	TaskID string          `json:"taskId"`
	Status pipeline.Status `json:"status"`
	OK     bool            `json:"ok"` // agent_done or done
	Result string          `json:"result,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// wait waits for so long; zero: without a limit.
func (w *waiter) wait(ctx context.Context, long time.Duration) error {
	s, err := w.OpenStore(ctx)
	if err != nil {
		return err
	}
	var over <-chan time.Time
	if long > 0 {
		over = time.After(long)
	}
	for last := false; ; {
		if err := w.look(ctx, s); err != nil {
			return err
		}
		if last || len(w.left) == 0 || w.first && len(w.ended) > 0 {
			return w.end()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			last = true // what ended at that moment counts
		case <-time.After(lookForEvents):
		}
	}
}

// look notes which tasks have ended, in the order in which they did.
func (w *waiter) look(ctx context.Context, s *store.Store) error {
	tasks, err := s.Tasks(ctx, core.Filter{IDs: w.left})
	if err != nil {
		return err
	}
	slices.SortStableFunc(tasks, func(a, b *core.Task) int { return a.ChangedAt.Compare(b.ChangedAt) })
	w.status = map[pipeline.TaskID]pipeline.Status{}
	for _, t := range tasks {
		w.status[t.ID] = t.Status
		if t.Status.Finished() || t.Away() {
			if err := w.note(t); err != nil {
				return err
			}
		}
	}
	return w.onTheirWay(ctx, s, slices.DeleteFunc(slices.Clone(w.left), func(id pipeline.TaskID) bool { return w.status[id] != "" }))
}

// note notes that a task has ended.
func (w *waiter) note(t *core.Task) error {
	e := ended{TaskID: t.ID.String(), Status: t.Status, OK: t.Status.StepDone(), Result: t.Result, Reason: t.Reason}
	if t.Away() && !t.Status.Finished() {
		e.Reason = "its row was deleted"
	}
	w.left = slices.DeleteFunc(w.left, func(id pipeline.TaskID) bool { return id == t.ID })
	w.ended = append(w.ended, e)
	if w.asJSON {
		return nil
	}
	text := e.Result
	if !e.OK {
		text = e.Reason
	}
	line := fmt.Sprintf("%s  %-10s  %s", e.TaskID, e.Status, safe.Escape(text))
	_, err := fmt.Fprintln(w.Out, strings.TrimRight(line, " "))
	return err
}

// onTheirWay refuses a task that will never be known: it is neither in the store nor in the
// inbox.
func (w *waiter) onTheirWay(ctx context.Context, s *store.Store, unknown []pipeline.TaskID) error {
	if len(unknown) == 0 {
		return nil
	}
	drops, err := inbox.Drops(w.Dir)
	if err != nil {
		return err
	}
	for _, id := range unknown {
		if _, dropped := drops[id]; dropped {
			continue
		}
		if _, err := s.Task(ctx, id); errors.Is(err, core.ErrNoTask) { // else it left the inbox since
			return cli.Errorf(cli.Failed, "%v is no task that OTM knows, and no drop in the inbox", id).Hint("otm why %v", id).Hint("otm list")
		} else if err != nil {
			return err
		}
	}
	return nil
}

// end is the answer: how the tasks ended.
func (w *waiter) end() error {
	if err := w.answer(append([]ended{}, w.ended...), printed); err != nil {
		return err
	}
	wrong := slices.ContainsFunc(w.ended, func(e ended) bool { return !e.OK })
	switch {
	case w.first && len(w.ended) > 0:
		wrong = !w.ended[0].OK
	case len(w.left) > 0:
		are := pipeline.Map(w.left, func(id pipeline.TaskID) string {
			return fmt.Sprintf("%v is %s", id, cmp.Or(string(w.status[id]), "in the inbox"))
		})
		return cli.Errorf(cli.TryLater, "%d of %d tasks have not ended: %s", len(w.left), len(w.left)+len(w.ended), strings.Join(are, ", ")).Hint("otm why %v", w.left[0])
	}
	if wrong {
		return cli.Exit(cli.Partial)
	}
	return nil
}
