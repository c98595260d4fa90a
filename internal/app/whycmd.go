package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
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
	TaskID pipeline.TaskID `json:"taskId,omitempty"` // 0: a row that a person typed
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
		return safe.EncodeJSON(h.Out, explained{id, s.title(id), r})
	}
	fmt.Fprintf(h.Out, "%v: %s\n", id, safe.Escape(r.Sentence))
	if r.Next != "" {
		fmt.Fprintf(h.Out, "next: %s\n", safe.Escape(r.Next))
	}
	return nil
}

func (s *situation) title(id pipeline.TaskID) string {
	rec, err := s.home.record(id)
	if err != nil {
		rec = nil // it cannot be read
	}
	if row := s.ownRow(id, rec); row != nil && row.Title != "" {
		return row.Title
	}
	if rec != nil {
		return rec.Title
	}
	for _, c := range s.dropped {
		if c.Task.ID == id {
			return c.Task.Title
		}
	}
	var title string
	if f := s.failed[id]; f != nil {
		json.Unmarshal(f.Object.Get("title"), &title) // one that is none has none
	}
	return title
}

// whyAll lists what has stood longer than its stage usually takes, the oldest
// first.
func (h *Home) whyAll(s *situation, asJSON bool) error {
	slow, err := s.slow()
	if err != nil {
		return err
	}
	h.sayWalk(s.snap.WalkAt)
	if !h.residents().any() {
		h.noteNothingStays()
	}
	if asJSON {
		return safe.EncodeJSON(h.Out, slow)
	}
	if len(slow) == 0 {
		fmt.Fprintln(h.Out, "nothing has stood longer than it usually takes")
		return nil
	}
	for _, e := range slow {
		fmt.Fprintf(h.Out, "%s: %s\n", e.name(), safe.Escape(e.Sentence))
		if e.Next != "" {
			fmt.Fprintf(h.Out, "         next: %s\n", safe.Escape(e.Next))
		}
	}
	return nil
}

// name is how a task is called in the list; one that a person typed has no id.
func (e *explained) name() string {
	title := short(cmp.Or(e.Title, "(no title)"), 50)
	if e.TaskID == 0 {
		return "row " + title
	}
	return e.TaskID.String() + " " + title
}

// slow are the tasks that have stood longer than their stage usually takes, and
// the rows that are no tasks.
func (s *situation) slow() ([]explained, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	slow := []explained{}
	for _, id := range ids {
		r, err := s.why(id)
		if err != nil {
			return nil, err
		}
		if s.isSlow(r) {
			slow = append(slow, explained{id, s.title(id), r})
		}
	}
	for _, row := range s.tops {
		if s.taskOf(row) != 0 {
			continue // it was told of
		}
		if r := s.whyStranger(row); s.isSlow(r) {
			slow = append(slow, explained{0, row.Title, r})
		}
	}
	slices.SortStableFunc(slow, func(a, b explained) int { return sinceOf(a).Compare(sinceOf(b)) })
	return slow, nil
}

// ids are those of all tasks of which anything is known.
func (s *situation) ids() ([]pipeline.TaskID, error) {
	ids, err := s.home.Store.IDs()
	if err != nil {
		return nil, err
	}
	for _, known := range []iter.Seq[pipeline.TaskID]{
		maps.Keys(s.rows), maps.Keys(s.waiting), maps.Keys(s.failed), maps.Keys(s.updates), maps.Keys(s.refused),
	} {
		ids = slices.AppendSeq(ids, known)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// isSlow tells whether a task stands longer than its stage usually takes.
func (s *situation) isSlow(r reason) bool {
	usual, bounded := s.home.usual(r.Stage)
	return r.late || bounded && (r.Since == nil || s.now.Sub(*r.Since) > usual)
}

func sinceOf(e explained) time.Time {
	if e.Since == nil {
		return time.Time{}
	}
	return *e.Since
}
