package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
)

// whyCommand is otm why.
func whyCommand(s cli.Streams) *cobra.Command {
	var all, fresh, asJSON bool
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a task is where it is, and what to do",
		Long: `Say why a task is where it is, and what to do about it. --all goes through all
tasks and lists those that have stood longer than their stage usually takes.
It reads the data directory; --fresh asks the board.`,
		Example: "  otm why T-00035\n  otm why --all",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == all {
				return cli.Errorf(cli.Usage, "want one task id, or --all").Hint("otm why T-00035")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var id pipeline.TaskID
			if !all {
				var err error
				if id, err = pipeline.ParseTaskID(args[0]); err != nil {
					return cli.Errorf(cli.Usage, "%w", err).Hint("otm list --all")
				}
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			if fresh {
				if err := h.walk(c.Context()); err != nil {
					return err
				}
			}
			situation, err := h.situation()
			if err != nil {
				return err
			}
			if all {
				return h.whyAll(situation, asJSON)
			}
			return h.whyOne(situation, id, asJSON)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all tasks that have stood too long")
	c.Flags().BoolVar(&fresh, "fresh", false, "read the board now")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// explained is a task with the reason why it is where it is.
type explained struct {
	TaskID pipeline.TaskID `json:"taskId"`
	Title  string          `json:"title,omitempty"`
	reason
}

func (h *Home) whyOne(s *situation, id pipeline.TaskID, asJSON bool) error {
	r, err := s.why(id)
	if err != nil {
		return err
	}
	h.sayWalk(s.snap.WalkAt)
	if asJSON {
		return json.NewEncoder(h.Out).Encode(explained{id, s.title(id), r})
	}
	fmt.Fprintf(h.Out, "%v: %s\n", id, safe.Escape(r.Sentence))
	if r.Next != "" {
		fmt.Fprintf(h.Out, "next: %s\n", safe.Escape(r.Next))
	}
	return nil
}

func (s *situation) title(id pipeline.TaskID) string {
	if row := s.rows[id]; row != nil {
		return row.Title
	}
	return ""
}

// whyAll lists what has stood longer than its stage usually takes, the oldest
// first.
func (h *Home) whyAll(s *situation, asJSON bool) error {
	slow, err := s.slow()
	if err != nil {
		return err
	}
	h.sayWalk(s.snap.WalkAt)
	if asJSON {
		return json.NewEncoder(h.Out).Encode(slow)
	}
	if len(slow) == 0 {
		fmt.Fprintln(h.Out, "nothing has stood longer than it usually takes")
		return nil
	}
	for _, e := range slow {
		fmt.Fprintf(h.Out, "%v %s: %s\n", e.TaskID, short(e.Title, 50), safe.Escape(e.Sentence))
		if e.Next != "" {
			fmt.Fprintf(h.Out, "         next: %s\n", safe.Escape(e.Next))
		}
	}
	return nil
}

// slow are the tasks that have stood longer than their stage usually takes.
func (s *situation) slow() ([]explained, error) {
	ids, err := s.home.Store.IDs()
	if err != nil {
		return nil, err
	}
	for id := range s.rows {
		ids = append(ids, id)
	}
	for id := range s.waiting {
		ids = append(ids, id)
	}
	for id := range s.failed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	slow := []explained{}
	for _, id := range slices.Compact(ids) {
		r, err := s.why(id)
		if err != nil {
			return nil, err
		}
		usual, bounded := s.home.usual(r.Stage)
		if bounded && (r.Since == nil || s.now.Sub(*r.Since) > usual) {
			slow = append(slow, explained{id, s.title(id), r})
		}
	}
	slices.SortStableFunc(slow, func(a, b explained) int { return sinceOf(a).Compare(sinceOf(b)) })
	return slow, nil
}

func sinceOf(e explained) time.Time {
	if e.Since == nil {
		return time.Time{}
	}
	return *e.Since
}
