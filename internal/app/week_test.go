package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// weekFile, where it is set, names a file for the tables of docs/performance.md
// that are simulated: then weeks are, which takes a while.
const weekFile = "OTM_WEEK"

// weeks are what is simulated for the tables: a week of ten, a hundred and a
// thousand tasks a day on a list of Slack's, kept by different habits, and days
// that show where one token ends.
var weeks = []regime{
	{tasks: 10, days: 7, rows: 1000},
	{tasks: 100, days: 7, rows: 1000},
	{tasks: 100, days: 7, rows: 1000, every: 24 * time.Hour, keptDone: 24 * time.Hour},
	{tasks: 1000, days: 7, rows: 1000},
	{tasks: 1000, days: 7, rows: 1000, every: time.Hour},
	{tasks: 2000, days: 1, every: time.Hour},
}

// TestWeek lives a day with a list of Slack's: all tasks come to their end, no
// call is made that Slack would refuse, and nobody waits long. With OTM_WEEK
// set, it lives what weeks says, and writes what it was like.
func TestWeek(t *testing.T) { // not in parallel: all calls lead to its board
	crashtest.Long(t, "lives through a day")
	path := os.Getenv(weekFile)
	if path == "" {
		tasks := crashtest.Fewer(20)
		day := simulate(t, regime{tasks: tasks, days: 1, rows: 1000, every: 6 * time.Hour})
		if day.over != "" {
			t.Errorf("called too often:%s", day.over)
		}
		if day.ended < tasks*3/4 { // those of the evening are reviewed the next morning
			t.Errorf("%d of %d tasks came to their end", day.ended, tasks)
		}
		if day.assigned[1] > time.Minute || day.reported[1] > time.Minute {
			t.Errorf("95 of 100 were assigned within %v, and 95 of 100 reports written within %v; want a minute", day.assigned[1], day.reported[1])
		}
		return
	}
	var all []*lived
	for _, r := range weeks {
		if w := simulate(t, r); w.tasks > 0 { // else it was not among those that go test was asked for
			all = append(all, w)
		}
		var tables bytes.Buffer
		printWeeks(&tables, all)
		if err := os.WriteFile(path, tables.Bytes(), 0o600); err != nil { // each time, as it takes long
			t.Fatal(err)
		}
	}
}

// lived is what a life was like.
type lived struct {
	regime
	created, ended int
	most, left     int           // rows
	fullAfter      time.Duration // 0: never
	waiting        int           // tasks that nobody was given
	row            [3]time.Duration
	assigned       [3]time.Duration
	reported       [3]time.Duration
	calls          map[string]tally
	minutes        float64 // from 8 to 18 h
	over           string
}

func simulate(t *testing.T, r regime) *lived {
	var out lived
	t.Run(fmt.Sprintf("%d a day for %d", r.tasks, r.days), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var agents []string
			for i := range 10 {
				agents = append(agents, fmt.Sprintf("agent%d", i))
			}
			l := newSimulated(newVirtual(t, r.rows, agents...), r, agents)
			l.live()
			out = l.lived()
		})
	})
	return &out
}

// lived looks back.
func (l *simulated) lived() lived {
	out := lived{
		regime: l.regime, created: len(l.drops), ended: l.ended, most: l.most, left: l.far.rows(l.T),
		over: l.far.overLimits(), calls: map[string]tally{},
	}
	if !l.full.IsZero() {
		out.fullAfter = l.full.Sub(epoch)
	}
	var row, assigned, reported []time.Duration
	for id, dropped := range l.drops {
		if l.stored(id) == nil {
			out.waiting++
			continue
		}
		steps := 0
		given := false
		for _, e := range l.events(id) {
			w, written := e.Data.(core.BoardWritten)
			switch {
			case !written:
				continue
			case w.Row != "":
				row = append(row, e.At.Sub(dropped))
			}
			if w.Shown.Status == pipeline.Assigned && !given {
				assigned, given = append(assigned, e.At.Sub(dropped)), true
			}
			for _, s := range w.Steps {
				if s.Shown.Done && steps < len(l.reports[id]) {
					reported = append(reported, e.At.Sub(l.reports[id][steps]))
					steps++
				}
			}
		}
		if !given {
			out.waiting++
		}
	}
	out.row, out.assigned, out.reported = spread(row), spread(assigned), spread(reported)
	out.minutes = workedUntil(time.Since(epoch)).Minutes()
	for method, c := range l.far.calls {
		out.calls[method] = *c
	}
	return out
}

// spread is the median, what 95 of 100 are below, and the longest.
func spread(times []time.Duration) [3]time.Duration {
	if len(times) == 0 {
		return [3]time.Duration{}
	}
	slices.Sort(times)
	return [3]time.Duration{times[len(times)/2], times[len(times)*95/100], times[len(times)-1]}
}

func printWeeks(out io.Writer, weeks []*lived) {
	fmt.Fprintln(out, "a list of Slack's with 1,000 rows (-: any number), one to three steps a task, in virtual time; times are p50 / p95 / most")
	fmt.Fprintf(out, "%8s %5s %14s %10s %10s %8s %24s %24s %24s\n", "tasks", "days", "archive", "most rows", "full after", "waiting", "drop to row", "drop to assigned", "report to board")
	for _, w := range weeks {
		fmt.Fprintf(out, "%8d %5d %14s %10s %10s %8d %24s %24s %24s\n", w.tasks, w.days, w.habit(), w.rowsAtMost(), hours(w.fullAfter), w.waiting, seconds(w.row), seconds(w.assigned), seconds(w.reported))
	}
	fmt.Fprintln(out, "\ncalls a minute, on average from 8 to 18 h / within any one minute")
	fmt.Fprintf(out, "%8s %14s", "tasks", "archive")
	for _, m := range mostCalled {
		fmt.Fprintf(out, " %16s", strings.TrimPrefix(m, "slackLists."))
	}
	fmt.Fprintf(out, " %8s\n", "refused")
	for _, w := range weeks {
		fmt.Fprintf(out, "%8d %14s", w.tasks, w.habit())
		for _, m := range mostCalled {
			fmt.Fprintf(out, " %16s", fmt.Sprintf("%.1f / %d", w.calls[m].atWork/w.minutes, w.calls[m].most))
		}
		refused := 0
		for _, c := range w.calls {
			refused += c.refused
		}
		fmt.Fprintf(out, " %8d\n", refused)
	}
}

// mostCalled are the methods of the table of calls.
var mostCalled = []string{"slackLists.items.create", "slackLists.items.update", "slackLists.items.list", "slackLists.items.deleteMultiple"}

func (r regime) habit() string {
	if r.every == 0 {
		return "never"
	}
	return fmt.Sprintf("%gh, over %gh", r.every.Hours(), r.keptDone.Hours())
}

func (w *lived) rowsAtMost() string {
	if w.rows == 0 {
		return fmt.Sprintf("%d -", w.most)
	}
	return fmt.Sprint(w.most)
}

func hours(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

func seconds(t [3]time.Duration) string {
	return fmt.Sprintf("%.1f / %.1f / %.0f s", t[0].Seconds(), t[1].Seconds(), t[2].Seconds())
}
