package app

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// statusCommand is otm status.
func statusCommand(s cli.Streams) *cobra.Command {
	return reading(&cobra.Command{
		Use:   "status",
		Short: "Say how the components are and what waits",
		Long: `Say when each component ran last, what waits and what failed, and what stands
on the board. It reads the data directory; --fresh asks the board.

A component is green if its last run began less than 5 minutes ago and all of it
worked. It is yellow if something failed in that run, if it does not have the
present otm.toml, or if the run was 5 to 15 minutes ago. It is red if the run was
longer ago or failed as a whole, or if its process ended and nothing starts it
again. An agent in trouble is counted as that, not as its component's failure.
otm-watcher is the part of the injector that notices new files in the inboxes.

The last lines are the problems in what runs here. otm doctor checks the set-up
as well.`,
	}, s, true, func(h *Home, v *view.View, _ []string) error {
		r := view.SummaryOf(v, maxReasonsShown)
		return h.answer(r, func() error { return printStatus(h, v, r) })
	})
}

// maxReasonsShown bounds how many failed files status tells about, newest first.
const maxReasonsShown = 5

func printStatus(h *Home, v *view.View, r *view.Summary) error {
	if err := printComponents(h, v, r); err != nil {
		return err
	}
	out := h.Out
	fmt.Fprintf(out, "\nwaiting  %s, %s", explain.Count(r.Inbox[inbox.NewTasks], "new task", "new tasks"), explain.Count(r.Inbox[inbox.TaskUpdates], "update", "updates"))
	if !r.Oldest.IsZero() {
		fmt.Fprintf(out, ", the oldest for %s", explain.Age(v.Now.Sub(r.Oldest)))
	}
	fmt.Fprintf(out, "\ndrops    %d failed", r.Failed)
	if r.Failed > 0 {
		fmt.Fprintf(out, " in %s; otm dead lists all, with what to do", safe.Escape(safe.Quote(filepath.Join(v.Dir, inbox.FailedDir))))
	}
	fmt.Fprintln(out)
	for _, f := range r.Reasons {
		fmt.Fprintf(out, "         %s: %s\n", safe.Escape(f.Name), safe.Escape(f.Error))
	}
	printBoard(out, v, r)
	if err := printAgents(out, v, r); err != nil {
		return err
	}
	if r.Queue > 0 {
		f := explain.Tell(explain.New(explain.QueueHolds, "n", r.Queue), v.Now)
		fmt.Fprintf(out, "queue    %s\n           → %s\n", f.Text, f.Hint)
	}
	word := "no problems found"
	if n := len(r.Findings); n > 0 {
		word = explain.Count(n, "problem", "problems")
	}
	_, err := fmt.Fprintf(out, "health   %s: %s\n", paint(h, r.Health, 0), word)
	for _, f := range r.Findings {
		printProblem(out, "         ", &f)
	}
	return err
}

// printProblem prints a problem, and below it what to do.
func printProblem(out io.Writer, indent string, f *explain.Told) {
	fmt.Fprintf(out, "%s%s\n", indent, safe.Escape(f.Text))
	if f.Hint != "" {
		fmt.Fprintf(out, "%s  → %s\n", indent, safe.Escape(f.Hint))
	}
	if f.Or != "" {
		fmt.Fprintf(out, "%s  or: %s\n", indent, safe.Escape(f.Or))
	}
}

func printComponents(h *Home, v *view.View, r *view.Summary) error {
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	for _, c := range r.Components {
		did, _, _ := strings.Cut(c.Details, "; ") // the rest is among the problems
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", paint(h, c.Health, 13), c.ID, agoOrDash(c.LastRun, v.Now), safe.Escape(did))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	noteNothingStays(h, v)
	return nil
}

func printBoard(out io.Writer, v *view.View, r *view.Summary) {
	fmt.Fprint(out, "board    ")
	if r.Board.WalkAt.IsZero() {
		fmt.Fprintln(out, "not read yet; otm status --fresh reads it")
		return
	}
	rows := explain.Count(r.Board.Rows, "row", "rows")
	if r.Board.Limit > 0 {
		rows = fmt.Sprintf("%d of %d rows", r.Board.Rows, r.Board.Limit)
	}
	fmt.Fprintf(out, "%s, with their steps %s, read %s\n", explain.Count(len(v.Tops()), "task", "tasks"), rows, explain.Ago(r.Board.WalkAt, v.Now))
	for _, st := range pipeline.Statuses {
		if n := r.Tasks[st]; n > 0 {
			fmt.Fprintf(out, "         %4d %s\n", n, st)
		}
	}
}

func printAgents(out io.Writer, v *view.View, r *view.Summary) error {
	if len(r.Agents) == 0 {
		fmt.Fprintf(out, "agents   none; name them in %s\n", safe.Escape(safe.Quote(filepath.Join(v.Dir, config.FileName))))
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, a := range r.Agents {
		head := ""
		if i == 0 {
			head = "agents"
		}
		var counts []string
		for _, st := range pipeline.Statuses {
			if n := a.Tasks[st]; n > 0 && !st.Over() {
				counts = append(counts, fmt.Sprintf("%d %s", n, st))
			}
		}
		fmt.Fprintf(w, "%-7s\t%s\t%s\t%s\n", head, short(a.Name, 30), triggerWords(a.Trigger), strings.Join(counts, ", "))
	}
	return w.Flush()
}

// paint writes a state in at least width characters, in colour on a terminal.
func paint(h *Home, s heartbeat.State, width int) string {
	colour := map[heartbeat.State]string{
		heartbeat.Green: "32", heartbeat.Yellow: "33", heartbeat.Red: "31", heartbeat.ClockError: "31",
	}[s]
	text := fmt.Sprintf("%-*s", width, s)
	if colour == "" || !isTerminal(h.Out) || h.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
