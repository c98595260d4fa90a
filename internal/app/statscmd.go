package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/pipeline"
)

// Stats are figures of a period. They follow from the states of tasks, which are kept for ever,
// and from the events of incidents.
type Stats struct {
	Since   time.Time               `json:"since"`
	Until   time.Time               `json:"until"`
	Status  map[pipeline.Status]int `json:"tasksByStatus"` // of all tasks, as they are now
	Created int                     `json:"created"`
	Done    int                     `json:"done"`
	// TakenToDone is from when an agent first took a task until it said that it is done (TT-02 to
	// TT-04), of the tasks that were so in the period.
	TakenToDone Span `json:"takenToDone"`
	// WakeToTaken is from a wake that was accepted until its agent took the task.
	WakeToTaken Span              `json:"wakeToTaken"`
	Review      Span              `json:"review"` // from agent_done to done
	Agents      []*AgentStats     `json:"agents"`
	Months      []*MonthStats     `json:"months,omitempty"` // of a year
	Incidents   []*incident.Tally `json:"incidents"`        // period is that of these figures
}

// Span adds up times.
type Span struct {
	Count   int     `json:"count"`
	Average float64 `json:"averageSeconds"`
	Longest float64 `json:"longestSeconds"`
}

func (s *Span) add(from, to time.Time) {
	d := to.Sub(from).Seconds()
	s.Count++
	s.Average += (d - s.Average) / float64(s.Count)
	s.Longest = max(s.Longest, d)
}

func (s Span) String() string {
	if s.Count == 0 {
		return "-"
	}
	of := func(seconds float64) string { return explain.Age(time.Duration(seconds * float64(time.Second))) }
	return fmt.Sprintf("%s on average, %s at most, %s", of(s.Average), of(s.Longest), explain.Count(s.Count, "time", "times"))
}

// AgentStats are the figures of an agent.
type AgentStats struct {
	Agent   string `json:"agent"`
	Open    int    `json:"open"` // its tasks that are not over now
	Done    int    `json:"done"`
	Runs    Span   `json:"runs"`    // that began in the period and ended
	Failed  int    `json:"failed"`  // runs that failed; one that ticked a step, or asked for a later start, did not
	Retries int    `json:"retries"` // runs that follow one without a result
}

// MonthStats are the figures of a month.
type MonthStats struct {
	Month   string `json:"month"` // such as 2026-11
	Created int    `json:"created"`
	Done    int    `json:"done"`
}

// statsCommand is otm stats.
func statsCommand(s cli.Streams) *cobra.Command {
	var since string
	var year int
	c := &cobra.Command{
		Use:   "stats",
		Short: "Say how many tasks were done, how long they took, and what went wrong",
		Long: `Print figures of the last 30 days, of the time since --since, or of a year: tasks by
status and agent, how long agents take to answer a wake and to finish a task, how long
results wait for a review, runs and retries, and incidents by their codes. The figures
reach back to the first task: archives count.`,
		Example: "  otm stats\n  otm stats --since 7d --json\n  otm stats --year 2026",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			f := core.EventFilter{}
			if err := eventFilter(&f, "", since, h.Now()); err != nil {
				return err
			}
			stats, err := StatsOf(ctx, h, f.Since, year)
			if wrong, ok := errors.AsType[*FieldError](err); ok {
				return cli.Errorf(cli.Usage, "%w", wrong.Err).Hint("otm stats --year %d", year)
			}
			if err != nil {
				return err
			}
			return h.answer(stats, func() error { return stats.print(h) })
		}),
	}
	c.Flags().StringVar(&since, "since", "", "from a time on, such as 7d or 2026-11-29T08:00:00Z (default: 30d)")
	c.Flags().IntVar(&year, "year", 0, "of a year, such as 2026, by months as well")
	jsonFlag(c, "print it as JSON")
	return c
}

// StatsOf returns the figures of the time since one, or of a year if that is not 0. Without both,
// they are those of the last 30 days. The error may be a *FieldError.
func StatsOf(ctx context.Context, h *Home, since time.Time, year int) (*Stats, error) {
	now := h.Now()
	switch {
	case since.IsZero():
		since = now.Add(-30 * 24 * time.Hour)
	case year != 0:
		return nil, &FieldError{"query.year", errors.New("give since or year")}
	}
	s := &Stats{Since: since, Until: now, Agents: []*AgentStats{}}
	if year != 0 {
		s.Since = time.Date(year, 1, 1, 0, 0, 0, 0, now.Location())
		s.Until = s.Since.AddDate(1, 0, 0)
		for m := range 12 {
			s.Months = append(s.Months, &MonthStats{Month: s.Since.AddDate(0, m, 0).Format("2006-01")})
		}
	}
	return s, s.count(ctx, h)
}

func (s *Stats) count(ctx context.Context, h *Home) error {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	tasks, err := store.Tasks(ctx, core.Filter{})
	if err != nil {
		return err
	}
	s.Status = map[pipeline.Status]int{}
	agents := map[string]*AgentStats{}
	of := func(name string) *AgentStats {
		key := pipeline.FoldName(name)
		if agents[key] == nil {
			agents[key] = &AgentStats{Agent: name}
		}
		return agents[key]
	}
	for _, t := range tasks {
		s.Status[t.Status]++
		if !t.Status.Over() && t.Agent != "" {
			of(t.Agent).Open++
		}
		s.task(t, of)
	}
	for _, key := range slices.Sorted(maps.Keys(agents)) {
		s.Agents = append(s.Agents, agents[key])
	}
	s.Incidents, err = incident.Tallies(ctx, store, s.Since, s.Until)
	return err
}

// in reports whether a time is in the period.
func (s *Stats) in(t time.Time) bool { return !t.IsZero() && !t.Before(s.Since) && t.Before(s.Until) }

// month returns the figures of the month of a time in the period.
func (s *Stats) month(t time.Time) *MonthStats {
	if s.Months == nil {
		return &MonthStats{} // nobody looks at it
	}
	return s.Months[t.In(s.Since.Location()).Month()-1]
}

// task counts what happened to a task in the period.
func (s *Stats) task(t *core.Task, of func(agent string) *AgentStats) {
	if s.in(t.CreatedAt) {
		s.Created++
		s.month(t.CreatedAt).Created++
	}
	if t.Status == pipeline.Done && s.in(t.ValidatedAt) {
		s.Done++
		s.month(t.ValidatedAt).Done++
		of(t.Agent).Done++
	}
	if !t.CompletedAt.IsZero() && t.ValidatedAt.After(t.CompletedAt) && s.in(t.ValidatedAt) {
		s.Review.add(t.CompletedAt, t.ValidatedAt)
	}
	if len(t.Runs) > 0 && s.in(t.CompletedAt) {
		s.TakenToDone.add(t.Runs[0].Began, t.CompletedAt)
	}
	var before time.Time // when the run before began
	for i := range t.Runs {
		r := &t.Runs[i]
		if s.in(r.Began) {
			s.run(t, r, before, of(r.Agent))
			if i > 0 && t.Runs[i-1].Ending == core.EndFailed {
				of(r.Agent).Retries++
			}
		}
		before = r.Began
	}
}

// run counts a run. The one before it began at a time.
func (s *Stats) run(t *core.Task, r *core.Run, before time.Time, of *AgentStats) {
	if !r.Ended.IsZero() {
		of.Runs.add(r.Began, r.Ended)
	}
	if r.Ending == core.EndFailed && !r.Free {
		of.Failed++
	}
	for _, w := range slices.Backward(t.Wakes) {
		if core.SameAgent(w.Agent, r.Agent) && !w.Accepted.IsZero() && w.AskedAt.After(before) && !w.Accepted.After(r.Began) {
			s.WakeToTaken.add(w.Accepted, r.Began)
			return
		}
	}
}

func (s *Stats) print(h *Home) error {
	fmt.Fprintf(h.Out, "from %s until %s\n", explain.Time(s.Since), explain.Time(s.Until))
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "created\t%d\ndone\t%d\n", s.Created, s.Done)
	fmt.Fprintf(w, "taken to done\t%v\nwake to taken\t%v\nreview\t%v\n", s.TakenToDone, s.WakeToTaken, s.Review)
	for _, m := range s.Months {
		fmt.Fprintf(w, "%s\t%d created, %d done\n", m.Month, m.Created, m.Done)
	}
	fmt.Fprintln(w, "\ntasks now")
	for _, status := range pipeline.Statuses {
		if n := s.Status[status]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\n", status, n)
		}
	}
	fmt.Fprintln(w, "\nagent\topen\tdone\tfailed runs\tretries\truns")
	for _, a := range s.Agents {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%v\n", short(a.Agent, 30), a.Open, a.Done, a.Failed, a.Retries, a.Runs)
	}
	fmt.Fprintln(w, "\nincidents\topened\tput right\ttold\tin all\tfirst\tlast")
	for _, i := range s.Incidents {
		if n := &i.Period; n.Opened > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", i.Name(), n.Opened, n.Corrected, n.Escalated, i.Total.Opened, explain.Time(i.First), explain.Time(i.Last))
		}
	}
	return w.Flush()
}
