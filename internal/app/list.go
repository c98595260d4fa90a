package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// listCommand is otm list.
func listCommand(s cli.Streams) *cobra.Command {
	var all bool
	var status, agent string
	c := reading(&cobra.Command{
		Use:   "list",
		Short: "List the tasks on the board",
		Long: `List the tasks on the board, without those that are done, cancelled or
archived. It reads the snapshot and says how old that is; --fresh asks the board.`,
	}, s, false, func(h *Home, v *view.View, _ []string) error {
		want, ok := pipeline.ParseStatus(status)
		if status != "" && !ok {
			return cli.Errorf(cli.Usage, "--status %q: there is %s", status, strings.Join(pipeline.Texts(pipeline.Statuses), ", ")).Hint("otm list --status %s", cmp.Or(pipeline.Nearest(strings.ToLower(status), pipeline.Texts(pipeline.Statuses)), string(pipeline.InProgress)))
		}
		tasks := []view.Card{}
		for _, t := range v.Tasks() {
			over := t.Status().Over()
			if status != "" && t.Status() != want || agent != "" && pipeline.FoldName(t.AgentName()) != pipeline.FoldName(agent) || status == "" && over && !all {
				continue
			}
			tasks = append(tasks, t.Card())
		}
		if err := v.Err(); err != nil {
			return err
		}
		noteAge(h, v.Board.WalkAt)
		if n := v.Inbox.Waiting[inbox.NewTasks]; n > 0 {
			h.Note("%s in %s, not on the board yet", explain.Count(n, "new task waits", "new tasks wait"), inbox.NewTasks)
			noteNothingStays(h, v)
		}
		if agent != "" && len(tasks) == 0 && h.Agents().Named(agent) == nil {
			h.Note("no agent %q is configured", agent)
		}
		return h.answer(tasks, func() error { return printTasks(s.Out, v.Now, tasks) })
	})
	c.Flags().BoolVar(&all, "all", false, "also those that are done, cancelled or archived")
	c.Flags().StringVar(&status, "status", "", "only those in this status")
	c.Flags().StringVar(&agent, "agent", "", "only those of this agent")
	return c
}

func printTasks(out io.Writer, now time.Time, tasks []view.Card) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range tasks {
		done := len(pipeline.Filter(t.Steps, func(s view.Step) bool { return s.Done }))
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", idOrDash(t.TaskID), t.Status, t.Priority, short(t.Agent, 20),
			done, len(t.Steps), explain.Age(now.Sub(t.Created)), short(t.Title, 70))
	}
	return w.Flush()
}

// showCommand is otm show.
func showCommand(s cli.Streams) *cobra.Command {
	return reading(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a task and all that happened to it",
		Example: "  otm show T-00035",
		Args:    words(1, 1, "want one task id", "otm show T-00035"),
	}, s, false, func(h *Home, v *view.View, args []string) error {
		id, err := taskArg(args)
		if err != nil {
			return err
		}
		return show(h, v, id)
	})
}

// Shown is what otm show --json and the API tell of a task.
type Shown struct {
	Task    *view.Card  `json:"task"`  // as the board has it; null: the board has it not
	State   *core.Task  `json:"state"` // as the store has it; null: it does not know it
	History []view.Line `json:"history"`
	Why     why.Reason  `json:"why"`
	WalkAt  time.Time   `json:"walkAt,omitzero"` // when the board was read
}

// shownOf returns what is known of a task, and the reason why it is where it is.
func shownOf(v *view.View, id pipeline.TaskID) (s Shown, t *view.Task, err error) {
	if s.Why, err = why.Of(v, id); err != nil {
		return s, nil, err
	}
	t = v.Task(id)
	if t.Row != nil {
		s.Task = new(t.Card())
	}
	if s.Why.Stage == why.IsOver {
		s.Why.Next = "" // what there is to see follows
	}
	s.State, s.WalkAt = t.State, v.Board.WalkAt.UTC()
	s.History, err = v.History(t.ID)
	return s, t, err
}

func show(h *Home, v *view.View, id pipeline.TaskID) error {
	s, t, err := shownOf(v, id)
	if err != nil {
		return err
	}
	r := s.Why
	if t.Row == nil && t.State == nil && r.Stage == why.IsUnknown {
		return cli.Errorf(cli.Failed, "no task %v is known: it %s", id, r.Sentence).Hint("otm list --all")
	}
	noteAge(h, v.Board.WalkAt)
	return h.answer(s, func() error {
		if t.Row == nil && t.State == nil {
			fmt.Fprintf(h.Out, "%v: %s\n", id, reasonText(&r, "         ", "         → "))
			return nil
		}
		printTask(h.Out, t, reasonText(&r, "        ", "        → "))
		printLines(h.Out, s.History)
		return nil
	})
}

// printTask prints a task. Steps that otm-update does not know yet have no
// number (C10).
func printTask(out io.Writer, task *view.Task, reason string) {
	t := task.Card()
	fmt.Fprintf(out, "%v  %s\n", t.TaskID, safe.Escape(t.Title))
	fmt.Fprintf(out, "%s · %s · %s · %s", t.Status, t.Priority, t.Type, safe.Escape(t.Agent))
	if t.Project != "" {
		fmt.Fprintf(out, " · %s", safe.Escape(t.Project))
	}
	if t.Context != "" {
		fmt.Fprintf(out, " · %s", t.Context)
	}
	fmt.Fprintln(out)
	for _, input := range t.Inputs {
		fmt.Fprintf(out, "input: %s\n", safe.Escape(input))
	}
	if task.State != nil {
		printBody(out, "body:", task.State.Body)
	}
	for _, step := range t.Steps {
		number := "-"
		if step.Number > 0 {
			number = strconv.Itoa(step.Number)
		}
		fmt.Fprintf(out, "  %s [%s] %s\n", number, cli.Tick(step.Done), safe.Escape(step.Title))
	}
	switch s := task.State; {
	case s != nil && s.Question != "":
		fmt.Fprintf(out, "asked:  %s\nanswer: %s\n", safe.Escape(s.Question), safe.Escape(cmp.Or(t.Reason, "(without words)")))
	case t.Reason != "":
		fmt.Fprintf(out, "reason: %s\n", safe.Escape(t.Reason))
	}
	if t.Result != "" {
		fmt.Fprintf(out, "result: %s\n", safe.Escape(t.Result))
	}
	fmt.Fprintf(out, "why:    %s\n", reason)
}

// printLines prints what happened to a task.
func printLines(out io.Writer, lines []view.Line) {
	if len(lines) > 0 {
		fmt.Fprintln(out)
	}
	for _, e := range lines {
		fmt.Fprintf(out, "%s  %s: %s\n", explain.Time(e.At), safe.Escape(e.Who), safe.Escape(e.Said()))
	}
}

// deadCommand is otm dead.
func deadCommand(s cli.Streams) *cobra.Command {
	return reading(&cobra.Command{
		Use:   "dead",
		Short: "List the tasks and drops that failed, with what went wrong and what to do",
		Long: `List the dead letters: tasks that failed and that nobody has requeued, given to
another agent, or cancelled; and the drops in failed/; the newest first. OTM leaves
them alone.`,
	}, s, false, func(h *Home, v *view.View, _ []string) error {
		dead, err := DeadLetters(v)
		if err != nil {
			return err
		}
		noteAge(h, v.Board.WalkAt)
		return h.answer(dead, func() error {
			if len(dead) == 0 {
				h.Note("nothing has failed")
			}
			printDead(s.Out, dead)
			return nil
		})
	})
}

// DeadLetter is a task or a drop that failed, and why.
type DeadLetter struct {
	why.Entry
	File     string    `json:"file,omitempty"` // of a drop, in failed/
	Agent    string    `json:"agent"`
	FailedAt time.Time `json:"failedAt"`
	Runs     int       `json:"runs"` // how many there were
}

// DeadLetters lists the tasks and the drops that failed, the newest first.
func DeadLetters(v *view.View) ([]DeadLetter, error) {
	dead := []DeadLetter{}
	for _, t := range v.Tasks() {
		if t.Status() != pipeline.Failed || t.State == nil {
			continue
		}
		reason, err := why.Of(v, t.ID)
		if err != nil {
			return nil, err
		}
		dead = append(dead, DeadLetter{
			Entry: why.Entry{TaskID: t.ID, Title: t.Title(), Reason: reason}, Agent: t.AgentName(), FailedAt: t.State.StatusAt.UTC(), Runs: len(t.State.Runs),
		})
	}
	for _, f := range v.Failures(len(v.Inbox.Failed)) {
		letter := DeadLetter{Entry: why.Entry{Reason: why.OfFile(v, &f)}, File: f.Name, FailedAt: f.Result.At.UTC()}
		if f.Object != nil {
			letter.TaskID = f.TaskID()
		}
		dead = append(dead, letter)
	}
	slices.SortStableFunc(dead, func(a, b DeadLetter) int { return b.FailedAt.Compare(a.FailedAt) })
	return dead, v.Err()
}

func printDead(out io.Writer, dead []DeadLetter) {
	for i := range dead {
		d := &dead[i]
		about := short(cmp.Or(d.Agent, "nobody"), 30) + "  " + short(cmp.Or(d.Title, "(no title)"), 60)
		if d.File != "" {
			about = safe.Escape(d.File)
		}
		fmt.Fprintf(out, "%-7s  %s\n", idOrDash(d.TaskID), about)
		fmt.Fprintf(out, "         %s\n", reasonText(&d.Reason, "         ", "         next: "))
	}
}

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
