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
		Short: "List the tasks that failed, with what went wrong and what to do",
		Long: `List the dead letters: tasks that failed and that nobody has requeued, given to
another agent, or cancelled; the newest first. OTM leaves them alone.`,
	}, s, false, func(h *Home, v *view.View, asJSON bool, _ []string) error {
		dead, err := deadLetters(v)
		if err != nil {
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
		printDead(s.Out, dead)
		return nil
	})
}

// deadLetter is a task that failed, and why.
type deadLetter struct {
	why.Entry
	Agent    string    `json:"agent"`
	FailedAt time.Time `json:"failedAt"`
	Runs     int       `json:"runs"` // how many there were
}

// deadLetters lists the tasks that failed, the newest first.
func deadLetters(v *view.View) ([]deadLetter, error) {
	dead := []deadLetter{}
	for _, t := range v.Tasks() {
		if t.Status() != pipeline.Failed || t.State == nil {
			continue
		}
		reason, err := why.Of(v, t.ID)
		if err != nil {
			return nil, err
		}
		dead = append(dead, deadLetter{why.Entry{TaskID: t.ID, Title: t.Title(), Reason: reason}, t.AgentName(), t.State.StatusAt.UTC(), len(t.State.Runs)})
	}
	slices.SortStableFunc(dead, func(a, b deadLetter) int { return b.FailedAt.Compare(a.FailedAt) })
	return dead, v.Err()
}

func printDead(out io.Writer, dead []deadLetter) {
	for i := range dead {
		d := &dead[i]
		fmt.Fprintf(out, "%v  %s  %s\n", d.TaskID, short(cmp.Or(d.Agent, "nobody"), 30), short(cmp.Or(d.Title, "(no title)"), 60))
		fmt.Fprintf(out, "         %s\n", reasonText(&d.Reason, "         ", "         next: "))
	}
}
