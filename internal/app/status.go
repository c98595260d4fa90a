package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// statusReport is what otm status tells.
type statusReport struct {
	Dir        string                  `json:"dir"`
	Components []componentStatus       `json:"components"`
	Inbox      map[inbox.Kind]int      `json:"inbox"`
	Oldest     *time.Time              `json:"oldest,omitempty"` // of what waits in an inbox
	Failed     int                     `json:"failed"`
	Board      boardStatus             `json:"board"`
	Tasks      map[pipeline.Status]int `json:"tasks"`
}

type componentStatus struct {
	ID      string           `json:"id"`
	State   heartbeat.State  `json:"state"`
	LastRun *time.Time       `json:"lastRun,omitempty"`
	Result  heartbeat.Result `json:"result,omitempty"`
	Details string           `json:"details,omitempty"`
	PID     int              `json:"pid,omitempty"`
}

type boardStatus struct {
	WalkAt *time.Time `json:"walkAt,omitempty"`
	Rows   int        `json:"rows"`
	Limit  int        `json:"limit,omitempty"`
}

// statusCommand is otm status.
func statusCommand(s cli.Streams) *cobra.Command {
	var asJSON, fresh bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say how the components are and what waits",
		Long: `Say when each component ran last, what waits and what failed, and what stands
on the board. It reads the data directory; --fresh asks the board.

A component is green if it ran less than 5 minutes ago, yellow up to 15, then red.`,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			r, err := h.status(c.Context(), fresh)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(s.Out).Encode(r)
			}
			return h.printStatus(r)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	c.Flags().BoolVar(&fresh, "fresh", false, "read the board now")
	return c
}

func (h *Home) status(ctx context.Context, fresh bool) (*statusReport, error) {
	r := &statusReport{Dir: h.Dir, Inbox: map[inbox.Kind]int{}, Tasks: map[pipeline.Status]int{}}
	now := h.Now()
	for _, id := range heartbeat.Components {
		b, err := heartbeat.Read(h.Dir, id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		cs := componentStatus{ID: id, State: heartbeat.Judge(b, now)}
		if b != nil {
			cs.LastRun, cs.Result, cs.Details, cs.PID = &b.LastRun, b.Result, b.Details, b.PID
		}
		r.Components = append(r.Components, cs)
	}
	for _, kind := range inbox.Kinds {
		files, err := h.Box.List(kind)
		if err != nil {
			return nil, err
		}
		r.Inbox[kind] = len(files)
		for _, f := range files {
			if at := f.Info.ModTime().UTC(); r.Oldest == nil || at.Before(*r.Oldest) {
				r.Oldest = &at
			}
		}
	}
	failed, err := h.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return nil, err
	}
	r.Failed = len(failed)
	v, err := h.look(ctx, fresh)
	if err != nil {
		return nil, err
	}
	r.Board = boardStatus{Rows: v.Rows, Limit: v.Limit}
	if !v.WalkAt.IsZero() {
		walk := v.WalkAt.UTC()
		r.Board.WalkAt = &walk
	}
	for _, t := range v.Tasks {
		r.Tasks[t.Status]++
	}
	return r, nil
}

func (h *Home) printStatus(r *statusReport) error {
	now := h.Now()
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	for _, c := range r.Components {
		last := "-"
		if c.LastRun != nil {
			last = age(now.Sub(*c.LastRun)) + " ago"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.paint(c.State), c.ID, last, c.Result, short(c.Details, 100))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(h.Out, "\nwaiting  %d new tasks, %d updates", r.Inbox[inbox.NewTasks], r.Inbox[inbox.TaskUpdates])
	if r.Oldest != nil {
		fmt.Fprintf(h.Out, ", the oldest for %s", age(now.Sub(*r.Oldest)))
	}
	fmt.Fprintf(h.Out, "\nfailed   %d", r.Failed)
	if r.Failed > 0 {
		fmt.Fprintf(h.Out, " in %s; otm retry --all puts them back", safe.Quote(h.Dir+"/"+inbox.FailedDir))
	}
	fmt.Fprintf(h.Out, "\nboard    ")
	if r.Board.WalkAt == nil {
		fmt.Fprintln(h.Out, "not read yet; otm status --fresh reads it")
		return nil
	}
	fmt.Fprintf(h.Out, "%d rows", r.Board.Rows)
	if r.Board.Limit > 0 {
		fmt.Fprintf(h.Out, " of %d", r.Board.Limit)
	}
	fmt.Fprintf(h.Out, ", read %s ago\n", age(now.Sub(*r.Board.WalkAt)))
	for _, st := range pipeline.Statuses {
		if n := r.Tasks[st]; n > 0 {
			fmt.Fprintf(h.Out, "         %4d %s\n", n, st)
		}
	}
	return nil
}

// paint colours a state where people see it.
func (h *Home) paint(s heartbeat.State) string {
	colour := map[heartbeat.State]string{
		heartbeat.Green: "32", heartbeat.Yellow: "33", heartbeat.Red: "31", heartbeat.ClockError: "31",
	}[s]
	text := fmt.Sprintf("%-13s", s)
	if colour == "" || !isTerminal(h.Out) || h.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
