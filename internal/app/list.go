package app

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// listCommand is otm list.
func listCommand(s cli.Streams) *cobra.Command {
	var asJSON, fresh, all bool
	var status, agent string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tasks on the board",
		Long: `List the tasks on the board, without those that are done, cancelled or
archived. It reads the snapshot and says how old that is; --fresh asks the board.`,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			want, ok := pipeline.ParseStatus(status)
			if status != "" && !ok {
				return cli.Errorf(cli.Usage, "--status %q: there is %s", status, strings.Join(texts(pipeline.Statuses), ", ")).Hint("otm list --status %s", pipeline.InProgress)
			}
			v, err := h.look(c.Context(), fresh)
			if err != nil {
				return err
			}
			tasks := []taskView{}
			for _, t := range v.Tasks {
				over := t.Status.Over()
				if status != "" && t.Status != want || agent != "" && pipeline.FoldName(t.Agent) != pipeline.FoldName(agent) || status == "" && over && !all {
					continue
				}
				tasks = append(tasks, t)
			}
			h.sayAge(v)
			if err := h.sayWaiting(); err != nil {
				return err
			}
			if agent != "" && len(tasks) == 0 && h.Config.Agents.Named(agent) == nil {
				h.Note("no agent %q is configured", agent)
			}
			if asJSON {
				return safe.EncodeJSON(s.Out, tasks)
			}
			return h.printTasks(tasks)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as one JSON array")
	c.Flags().BoolVar(&fresh, "fresh", false, "read the board now")
	c.Flags().BoolVar(&all, "all", false, "also those that are done, cancelled or archived")
	c.Flags().StringVar(&status, "status", "", "only those in this state")
	c.Flags().StringVar(&agent, "agent", "", "only those of this agent")
	return c
}

// sayAge says how old what follows is.
func (h *Home) sayAge(v *view) { h.sayWalk(v.WalkAt) }

func (h *Home) sayWalk(at time.Time) {
	if at.IsZero() {
		h.Note("the board was not read yet; --fresh reads it")
		return
	}
	h.Note("the board as it was %s ago", age(h.Now().Sub(at)))
}

// sayWaiting says that there are tasks which the board does not show yet.
func (h *Home) sayWaiting() error {
	files, err := h.Box.List(inbox.NewTasks)
	if err != nil || len(files) == 0 {
		return err
	}
	h.Note("%s in %s, not on the board yet", counted(len(files), "new task waits", "new tasks wait"), inbox.NewTasks)
	if !h.residents().any() {
		h.noteNothingStays()
	}
	return nil
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (h *Home) printTasks(tasks []taskView) error {
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	for _, t := range tasks {
		id := t.TaskID.String()
		if t.TaskID == 0 {
			id = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", id, t.Status, t.Priority, short(t.Agent, 20),
			t.done(), len(t.Steps), age(h.Now().Sub(t.Created)), short(t.Title, 70))
	}
	return w.Flush()
}

// showCommand is otm show.
func showCommand(s cli.Streams) *cobra.Command {
	var asJSON, fresh bool
	c := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a task and all that happened to it",
		Example: "  otm show T-00035",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Errorf(cli.Usage, "want one task id").Hint("otm show T-00035")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			id, err := pipeline.ParseTaskID(args[0])
			if err != nil {
				return cli.Errorf(cli.Usage, "%w", err).Hint("otm list --all")
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			v, err := h.look(c.Context(), fresh)
			if err != nil {
				return err
			}
			rec, err := h.record(id)
			if err != nil {
				return err
			}
			var task *taskView
			for i := range v.Tasks {
				if v.Tasks[i].TaskID == id {
					task = &v.Tasks[i]
				}
			}
			situation, err := h.situation()
			if err != nil {
				return err
			}
			why, err := situation.why(id)
			if err != nil {
				return err
			}
			if task == nil && rec == nil && why.Stage == isUnknown {
				return cli.Errorf(cli.Failed, "no task %v is known: it %s", id, why.Sentence).Hint("otm list --all")
			}
			h.sayAge(v)
			if asJSON {
				return safe.EncodeJSON(s.Out, struct {
					Task   *taskView        `json:"task"`
					Record *pipeline.Record `json:"record"`
					Why    reason           `json:"why"`
					WalkAt time.Time        `json:"walkAt"` // when the board was read
				}{task, rec, why, v.WalkAt.UTC()})
			}
			h.printTask(id, task, rec, &why)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	c.Flags().BoolVar(&fresh, "fresh", false, "read the board now")
	return c
}

func (h *Home) printTask(id pipeline.TaskID, t *taskView, rec *pipeline.Record, why *reason) {
	if t == nil && rec == nil {
		fmt.Fprintf(h.Out, "%v: %s\n", id, safe.Escape(why.line()))
		return
	}
	if t == nil {
		t = recordView(rec)
	}
	fmt.Fprintf(h.Out, "%v  %s\n", id, safe.Escape(t.Title))
	fmt.Fprintf(h.Out, "%s · %s · %s · %s", t.Status, t.Priority, t.Type, safe.Escape(t.Agent))
	if t.Project != "" {
		fmt.Fprintf(h.Out, " · %s", safe.Escape(t.Project))
	}
	fmt.Fprintln(h.Out)
	for i, step := range t.Steps {
		mark := " "
		if step.Done {
			mark = "x"
		}
		fmt.Fprintf(h.Out, "  %d [%s] %s\n", i+1, mark, safe.Escape(step.Title))
	}
	if t.Reason != "" {
		fmt.Fprintf(h.Out, "reason: %s\n", safe.Escape(t.Reason))
	}
	if t.Result != "" {
		fmt.Fprintf(h.Out, "result: %s\n", safe.Escape(t.Result))
	}
	fmt.Fprintf(h.Out, "why:    %s\n", safe.Escape(why.line()))
	if rec == nil {
		return
	}
	fmt.Fprintln(h.Out)
	for _, e := range rec.History {
		fmt.Fprintf(h.Out, "%s  %s: %s", e.At.UTC().Format("2006-01-02 15:04:05Z"), safe.Escape(e.Who), safe.Escape(e.What))
		if e.Detail != "" {
			fmt.Fprintf(h.Out, " (%s)", safe.Escape(e.Detail))
		}
		fmt.Fprintln(h.Out)
	}
}

// recordView is a task as its record has it.
func recordView(r *pipeline.Record) *taskView {
	t := &taskView{
		TaskID: r.TaskID, Title: r.Title, Status: r.Status, Agent: r.Agent, Priority: r.Priority, Project: r.Project,
		Type: string(r.Type), Reason: r.Reason, Result: r.Result, RowID: r.RowID, Created: r.CreatedAt, Updated: lastEvent(r),
	}
	for _, s := range r.Steps {
		t.Steps = append(t.Steps, stepView{Title: s.Title, Done: s.Done, RowID: s.RowID})
	}
	return t
}
