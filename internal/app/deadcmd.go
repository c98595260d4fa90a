package app

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
)

// deadCommand is otm dead.
func deadCommand(s cli.Streams) *cobra.Command {
	return reading(&cobra.Command{
		Use:   "dead",
		Short: "List the tasks that failed, with what went wrong and what to do",
		Long: `List the dead letters: tasks that failed and that nobody has requeued, given to
another agent, or cancelled; the newest first. OTM leaves them alone.`,
	}, s, false, func(h *Home, v *view.View, asJSON bool, _ []string) error {
		dead := deadLetters(v)
		if err := v.Err(); err != nil {
			return err
		}
		noteAge(h, v.Board.WalkAt)
		if asJSON {
			return safe.EncodeJSON(s.Out, dead)
		}
		if len(dead) == 0 {
			h.Note("no task has failed")
			return nil
		}
		printDead(s.Out, v.Now, dead)
		return nil
	})
}

// deadLetter is a task that failed.
type deadLetter struct {
	TaskID     pipeline.TaskID `json:"taskId"`
	Title      string          `json:"title"`
	Agent      string          `json:"agent"`
	FailedAt   time.Time       `json:"failedAt"`
	SetBy      string          `json:"setBy,omitempty"` // who said that it failed
	Diagnostic string          `json:"diagnostic"`      // "": nobody said why
	Next       []string        `json:"next"`            // commands
}

// deadLetters lists the tasks that failed, the newest first.
func deadLetters(v *view.View) []deadLetter {
	dead := []deadLetter{}
	for _, t := range v.Tasks() {
		if t.Status() != pipeline.Failed || t.State == nil {
			continue
		}
		d := deadLetter{TaskID: t.ID, Title: t.Title(), Agent: t.AgentName(), FailedAt: t.State.StatusAt.UTC(), Diagnostic: t.State.Reason}
		if t.State.Status == pipeline.Failed {
			d.SetBy = t.State.StatusBy.String()
		}
		for _, name := range []string{"requeue", "assign", "cancel"} {
			d.Next = append(d.Next, taskCommandNamed(name).line(t.ID.String()))
		}
		dead = append(dead, d)
	}
	slices.SortStableFunc(dead, func(a, b deadLetter) int { return b.FailedAt.Compare(a.FailedAt) })
	return dead
}

func printDead(out io.Writer, now time.Time, dead []deadLetter) {
	for _, d := range dead {
		fmt.Fprintf(out, "%v  %s  failed %s, set by %s  %s\n", d.TaskID, short(cmp.Or(d.Agent, "nobody"), 30), explain.Ago(d.FailedAt, now), safe.Escape(cmp.Or(d.SetBy, "somebody on the board")), short(d.Title, 50))
		fmt.Fprintf(out, "         %s\n", safe.Escape(cmp.Or(d.Diagnostic, "nobody said why")))
		for _, next := range d.Next {
			fmt.Fprintf(out, "         next: %s\n", safe.Escape(next))
		}
	}
}
