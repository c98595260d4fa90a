package app

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/pipeline"
)

// historyCommand is otm history.
func historyCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:     "history [ID]",
		Short:   "List archived tasks, or show one",
		Long:    "List the tasks that otm archive moved off the board, oldest first, or show one\nwith its history.",
		Example: "  otm history\n  otm history T-00035",
		Args:    words(0, 1, "give one task id, or none", "otm history T-00035"),
	}
	c.RunE = withHome(s, func(ctx context.Context, h *Home, args []string) (err error) {
		var id pipeline.TaskID
		if len(args) == 1 {
			if id, err = taskArg(args); err != nil {
				return err
			}
		}
		v, err := lookAround(ctx, h, false, false)
		if err != nil {
			return err
		}
		entries, err := readHistory(ctx, v.Store, id)
		switch {
		case err != nil:
			return err
		case id == 0:
			return h.answer(entries, func() error { return printHistory(s, entries) })
		case len(entries) == 0 && !h.asJSON:
			return cli.Errorf(cli.Failed, "%v is not in the history", id).Hint("otm show %v", id)
		}
		return h.answer(entries, func() error { return show(h, v, id) })
	})
	jsonFlag(c, "print one JSON array")
	return c
}

// entry is a task as it left the board.
type entry struct {
	ArchivedAt time.Time       `json:"archivedAt"`
	TaskID     pipeline.TaskID `json:"taskId"`
	Row        pipeline.Row    `json:"row"`
	Steps      []pipeline.Row  `json:"steps"`
	State      *core.Task      `json:"state"`
}

// readHistory returns the entry of an archived task, or of all, the first archived first.
func readHistory(ctx context.Context, store core.Reader, id pipeline.TaskID) ([]*entry, error) {
	events, err := store.Events(ctx, core.EventFilter{Task: id, Types: []string{"Archived", "Imported"}, Archived: true})
	if err != nil {
		return nil, err
	}
	entries := []*entry{}
	for i := range events {
		e := &entry{ArchivedAt: events[i].At, TaskID: events[i].Task, Steps: []pipeline.Row{}}
		switch data := events[i].Data.(type) {
		case core.Archived:
			e.Row, e.Steps = data.Row, append(e.Steps, data.Steps...)
		case core.Imported:
			if data.Row == nil {
				continue
			}
			e.Row, e.Steps, e.ArchivedAt = *data.Row, append(e.Steps, data.Steps...), data.Task.ArchivedAt
		}
		if e.State, err = store.Task(ctx, e.TaskID); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b *entry) int { return a.ArchivedAt.Compare(b.ArchivedAt) })
	return entries, nil
}

func printHistory(s cli.Streams, entries []*entry) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%s\n", e.TaskID, e.State.Status, explain.Time(e.ArchivedAt), short(e.State.Agent, 20), short(e.State.Title, 70))
	}
	return w.Flush()
}
