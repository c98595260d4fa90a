package app

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/history"
)

// historyCommand is otm history.
func historyCommand(s cli.Streams) *cobra.Command {
	var asJSON bool
	var agent string
	c := &cobra.Command{
		Use:     "history [ID]",
		Short:   "List archived tasks, or show one",
		Long:    "List the tasks that otm archive moved off the board, oldest first, or show one\nwith its history.",
		Example: "  otm history\n  otm history T-00035",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Errorf(cli.Usage, "give one task id, or none").Hint("otm history T-00035")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var id pipeline.TaskID
			if len(args) == 1 {
				var err error
				if id, err = pipeline.ParseTaskID(args[0]); err != nil {
					return cli.Errorf(cli.Usage, "%w", err).Hint("otm history")
				}
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			entries, err := readHistory(h, func(e *history.Entry) bool {
				return (id == 0 || e.TaskID == id) && (agent == "" || pipeline.FoldName(agentOf(e)) == pipeline.FoldName(agent))
			})
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return safe.EncodeJSON(s.Out, entries)
			case id != 0 && len(entries) == 0:
				return cli.Errorf(cli.Failed, "%v is not in the history", id).Hint("otm show %v", id)
			case id != 0:
				printEntry(h, entries[len(entries)-1])
				return nil
			}
			return printHistory(s, entries)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	c.Flags().StringVar(&agent, "agent", "", "only tasks of this agent")
	return c
}

// readHistory returns the wanted entries. It warns of a line that is no entry; a file
// that cannot be read is an error.
func readHistory(h *Home, wanted func(*history.Entry) bool) ([]*history.Entry, error) {
	entries := []*history.Entry{}
	for e, err := range history.Read(h.Dir) {
		if errors.Is(err, history.ErrNoEntry) {
			h.Warn("%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if wanted(e) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// agentOf is the agent that had the task.
func agentOf(e *history.Entry) string {
	if e.Record != nil && e.Record.Agent != "" {
		return e.Record.Agent
	}
	return e.Row.Assignee
}

func printHistory(s cli.Streams, entries []*history.Entry) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%s\n", e.TaskID, e.Row.CurrentStatus(), e.ArchivedAt.UTC().Format("2006-01-02"), short(agentOf(e), 20), short(e.Row.Title, 70))
	}
	return w.Flush()
}

// printEntry shows a task as the board had it when it was archived.
func printEntry(h *Home, e *history.Entry) {
	var steps []*pipeline.Row
	for i := range e.Steps {
		steps = append(steps, &e.Steps[i])
	}
	t := view.Join(e.TaskID, &e.Row, steps, e.Record)
	t.Agent = h.Config.Agents.Assigned(e.Row.Assignee)
	archived := explain.New(explain.TaskArchived, "at", e.ArchivedAt)
	printTask(h.Out, jsonOf(t), safe.Escape(archived.Text(h.Now())))
	if e.Record != nil {
		printEvents(h.Out, e.Record)
	}
}
