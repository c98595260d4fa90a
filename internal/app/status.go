package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
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
	Reasons    []failedReason          `json:"failedReasons"` // of the newest
	Agents     []agentStatus           `json:"agents"`
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
	Stays   bool             `json:"resident"` // a process stays for it now
}

// agentStatus is how things stand with one agent.
type agentStatus struct {
	Name    string                  `json:"name"`
	Trigger pipeline.Trigger        `json:"trigger,omitempty"` // "" for a person
	Trouble string                  `json:"trouble,omitempty"`
	Tasks   map[pipeline.Status]int `json:"tasks"`
}

type failedReason struct {
	Name  string      `json:"name"`
	Class inbox.Class `json:"class,omitempty"`
	Error string      `json:"error"`
}

type boardStatus struct {
	WalkAt *time.Time `json:"walkAt,omitempty"`
	Rows   int        `json:"rows"`
	Limit  int        `json:"limit,omitempty"`
}

// noLimit is from which number on a limit of rows is none that anybody meets:
// the embedded board names a million.
const noLimit = 100_000

// nearlyFull tells whether a tenth or less of the room is left.
func (b *boardStatus) nearlyFull() bool { return b.Limit > 0 && b.Rows*10 >= b.Limit*9 }

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
				return safe.EncodeJSON(s.Out, r)
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
		cs.Stays = h.residents().running(id)
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
	r.Failed, r.Reasons = len(failed), h.failedReasons(failed)
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
	r.Agents = h.agentStatuses(v)
	return r, nil
}

// maxReasonsShown bounds how many failed files are told of, newest first.
const maxReasonsShown = 5

func (h *Home) failedReasons(names []string) []failedReason {
	reasons := []failedReason{}
	for _, name := range slices.Backward(names) {
		if len(reasons) == maxReasonsShown {
			break
		}
		switch f, err := h.Box.ReadSettled(inbox.FailedDir, name); {
		case err == nil:
			reasons = append(reasons, failedReason{Name: name, Class: f.Result.Class, Error: f.Result.Error})
		case !errors.Is(err, fs.ErrNotExist): // else it was put back meanwhile
			reasons = append(reasons, failedReason{Name: name, Error: err.Error()})
		}
	}
	return reasons
}

func (h *Home) agentStatuses(v *view) []agentStatus {
	all := []agentStatus{}
	for i := range h.Config.Agents {
		a := &h.Config.Agents[i]
		s := agentStatus{Name: a.Name, Tasks: map[pipeline.Status]int{}}
		if !a.Person {
			s.Trigger = a.Trigger
			if !isDir(a.Workspace) {
				s.Trouble = "workspace is missing: mkdir -p " + safe.Quote(a.Workspace)
			}
		}
		for _, t := range v.Tasks {
			if t.Agent == a.Name {
				s.Tasks[t.Status]++
			}
		}
		all = append(all, s)
	}
	return all
}

func (h *Home) printStatus(r *statusReport) error {
	if err := h.printComponents(r); err != nil {
		return err
	}
	now := h.Now()
	fmt.Fprintf(h.Out, "\nwaiting  %s, %s", counted(r.Inbox[inbox.NewTasks], "new task", "new tasks"), counted(r.Inbox[inbox.TaskUpdates], "update", "updates"))
	if r.Oldest != nil {
		fmt.Fprintf(h.Out, ", the oldest for %s", age(now.Sub(*r.Oldest)))
	}
	fmt.Fprintf(h.Out, "\nfailed   %d", r.Failed)
	if r.Failed > 0 {
		fmt.Fprintf(h.Out, " in %s; otm retry FILE puts one back", safe.Escape(safe.Quote(filepath.Join(h.Dir, inbox.FailedDir))))
	}
	fmt.Fprintln(h.Out)
	for _, f := range r.Reasons {
		fmt.Fprintf(h.Out, "         %s: %s\n", safe.Escape(f.Name), safe.Escape(f.Error))
	}
	h.printBoard(r)
	return h.printAgents(r)
}

func (h *Home) printComponents(r *statusReport) error {
	now := h.Now()
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	stays := false
	for _, c := range r.Components {
		last := "-"
		if c.LastRun != nil {
			last = age(now.Sub(*c.LastRun)) + " ago"
		}
		reasons := strings.Split(c.Details, "; ")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.paint(c.State), c.ID, last, safe.Escape(string(c.Result)), safe.Escape(reasons[0]))
		for _, reason := range reasons[1:] {
			fmt.Fprintf(w, "%13s\t\t\t\t- %s\n", "", safe.Escape(reason))
		}
		stays = stays || c.Stays
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !stays {
		h.noteNothingStays()
	}
	return nil
}

// noteNothingStays says that no component stays running, unless timers are
// known to run them.
func (h *Home) noteNothingStays() {
	switch o := h.installation(); {
	case o == nil:
		h.Note("nothing stays running here; unless timers run the components, start them with: %s", startBy(o, h.Dir, h.Getenv))
	case !o.Timers:
		h.Note("nothing stays running here; to start what was installed, run: %s", startBy(o, h.Dir, h.Getenv))
	}
}

func (h *Home) printBoard(r *statusReport) {
	fmt.Fprint(h.Out, "board    ")
	if r.Board.WalkAt == nil {
		fmt.Fprintln(h.Out, "not read yet; otm status --fresh reads it")
		return
	}
	fmt.Fprintf(h.Out, "%d rows", r.Board.Rows)
	if r.Board.Limit > 0 && r.Board.Limit < noLimit {
		fmt.Fprintf(h.Out, " of %d", r.Board.Limit)
	}
	fmt.Fprintf(h.Out, ", read %s ago\n", age(h.Now().Sub(*r.Board.WalkAt)))
	if r.Board.nearlyFull() {
		fmt.Fprintln(h.Out, "         nearly full: otm archive --older-than 7d")
	}
	for _, st := range pipeline.Statuses {
		if n := r.Tasks[st]; n > 0 {
			fmt.Fprintf(h.Out, "         %4d %s\n", n, st)
		}
	}
}

func (h *Home) printAgents(r *statusReport) error {
	if len(r.Agents) == 0 {
		fmt.Fprintf(h.Out, "agents   none; name them in %s\n", safe.Escape(safe.Quote(filepath.Join(h.Dir, config.FileName))))
		return nil
	}
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	for i, a := range r.Agents {
		head := ""
		if i == 0 {
			head = "agents"
		}
		trigger := string(a.Trigger)
		if trigger == "" {
			trigger = "person"
		}
		var counts []string
		for _, st := range pipeline.Statuses {
			if n := a.Tasks[st]; n > 0 && !st.Over() {
				counts = append(counts, fmt.Sprintf("%d %s", n, st))
			}
		}
		if a.Trouble != "" {
			counts = append(counts, a.Trouble)
		}
		fmt.Fprintf(w, "%-7s\t%s\t%s\t%s\n", head, short(a.Name, 30), trigger, safe.Escape(strings.Join(counts, ", ")))
	}
	return w.Flush()
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
