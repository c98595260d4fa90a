package app

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
)

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
		name := "-" // the drop names no task
		if d.TaskID != 0 {
			name = d.TaskID.String()
		}
		about := short(cmp.Or(d.Agent, "nobody"), 30) + "  " + short(cmp.Or(d.Title, "(no title)"), 60)
		if d.File != "" {
			about = safe.Escape(d.File)
		}
		fmt.Fprintf(out, "%-7s  %s\n", name, about)
		fmt.Fprintf(out, "         %s\n", reasonText(&d.Reason, "         ", "         next: "))
	}
}
