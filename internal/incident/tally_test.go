package incident

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/pipeline"
)

// count counts what there was in the last day.
func (w *world) count() string {
	w.Helper()
	all, err := Tallies(w.Context(), w.store, w.now.Add(-24*time.Hour), w.now.Add(time.Second))
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for _, t := range all {
		if (t.Total != Counts{}) {
			lines = append(lines, fmt.Sprint(t.Name(), " ", t.Total, t.Period))
		}
	}
	return strings.Join(lines, ", ")
}

// Incidents are counted by their codes: how often each was opened, how often OTM put it
// right, how often people were told. All codes of the specification are there.
func TestTallies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if all, err := Tallies(t.Context(), w.store, w.now, w.now); err != nil || len(all) != 12 || all[11].Code != "ERR-12" {
		t.Errorf("at first %v, %v", all, err)
	}
	w.wrong = []explain.Finding{quiet, gatewayDown}
	w.look(time.Minute)
	w.look(time.Minute)
	w.woken("devdas")
	w.look(time.Minute)
	w.wrong = []explain.Finding{silentLong, gatewayDown}
	w.look(time.Minute)
	w.wrong = nil
	w.look(time.Minute)
	w.look(time.Minute)
	if got, want := w.count(), "ERR-01 silent {1 1 1} {1 1 1}, gateway away {1 0 1} {1 0 1}"; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	w.now = w.now.Add(48 * time.Hour)
	if got, want := w.count(), "ERR-01 silent {1 1 1} {0 0 0}, gateway away {1 0 1} {0 0 0}"; got != want {
		t.Errorf("two days later counted %s, want %s", got, want)
	}
}

// woken notes that OTM woke an agent.
func (w *world) woken(agent string) {
	w.Helper()
	w.store.Request(w.Context(), w.now, pipeline.Task{ID: 3, Title: "x", Agent: agent, Steps: []string{"one"}})
	begin := core.Command{At: w.now, By: core.Component("x"), Task: 3, Agent: agent}
	for _, do := range []func(t *core.Task) core.Action{
		func(*core.Task) core.Action {
			return core.Written{Row: "R", Steps: []core.WrittenStep{{Step: 1, Row: "S"}}}
		},
		func(*core.Task) core.Action { return core.HandOut{Agent: agent, Workspace: "/w"} },
		func(t *core.Task) core.Action {
			return core.BeginWake{Version: t.Version, Tasks: []pipeline.TaskID{3}, AskedAt: w.now}
		},
		func(t *core.Task) core.Action { return core.SettleWake{Key: t.Wakes[0].Key, Answer: core.WakeAccepted} },
	} {
		task, err := w.store.Task(w.Context(), 3)
		if err != nil {
			w.Fatal(err)
		}
		begin.Do = do(task)
		if o, err := w.store.Do(w.Context(), begin); err != nil || o[0].Err != nil {
			w.Fatalf("%T: %v, %v", begin.Do, err, o[0].Err)
		}
	}
}

// days are the days that were ended, as they are told.
func (w *world) days() string {
	w.Helper()
	events, err := w.store.Events(w.Context(), core.EventFilter{Types: []string{"DayEnded"}})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, e := range events {
		ended := e.Data.(core.DayEnded)
		d, err := Daily(w.Context(), w.store, ended.From.In(w.now.Location()), ended.To.In(w.now.Location()))
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, d.Text())
	}
	return strings.Join(all, "\n")
}

// badStore is a store that cannot say which days ended.
type badStore struct{ core.Store }

func (s badStore) Events(ctx context.Context, f core.EventFilter) ([]core.Event, error) {
	if f.Last {
		return nil, errors.New("damaged")
	}
	return s.Store.Events(ctx, f)
}

// A look counts although the end of the day cannot be noted. A later look notes it.
func TestDayNotEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Date(2026, 11, 28, 23, 50, 0, 0, time.UTC)
	w.wrong = []explain.Finding{gatewayDown}
	beats := 0
	w.Beat = func() { beats++ }
	w.Watcher.Store = badStore{w.store}
	for range 4 {
		w.look(4 * time.Minute)
	}
	if beats != 4 {
		t.Errorf("%d looks count, want 4", beats)
	}
	w.Watcher.Store = w.store
	w.look(time.Minute)
	if got := w.days(); !strings.HasPrefix(got, "2026-11-28: 1 incident ") {
		t.Errorf("the day: %q", got)
	}
}

// A day with incidents is told of once, by the first look after midnight, whoever looks. A
// weekend without power, or a clock that jumped, loses nothing; days without incidents are
// left out.
func TestDayEnded(t *testing.T) {
	t.Parallel()
	kolkata := time.FixedZone("IST", 5*3600+1800)
	w := newWorld(t)
	w.now = time.Date(2026, 11, 27, 23, 50, 0, 0, kolkata)
	w.wrong = []explain.Finding{gatewayDown}
	for range 9 {
		w.look(time.Minute)
	}
	if got := w.days(); got != "" {
		t.Errorf("before midnight: %s", got)
	}
	first := w.Watcher
	w.look(time.Minute)
	w.start()
	w.look(time.Minute)
	if err := first.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	friday := "2026-11-27: 1 incident (gateway away: 1); OTM put 0 right by itself; for the first time: gateway away"
	if got := w.days(); got != friday {
		t.Errorf("after midnight: %s", got)
	}
	w.wrong = nil
	for range 4 {
		w.look(4 * time.Minute)
	}
	w.look(24 * time.Hour) // a day without incidents; the clock jumped
	w.look(4 * time.Minute)
	if got := w.days(); got != friday {
		t.Errorf("after a quiet day: %s", got)
	}
	w.wrong = []explain.Finding{refusing, explain.New(explain.ListFull)}
	w.look(time.Minute)
	w.look(time.Minute)
	w.now = w.now.Add(60 * time.Hour)
	w.start()
	w.look(0)
	rest := friday + "\n2026-11-29 to 2026-11-30: 2 incidents (gateway away: 1, list full: 1); OTM put 0 right by itself; for the first time: list full"
	if got := w.days(); got != rest {
		t.Errorf("after days without power: %s", got)
	}
	w.now = w.now.AddDate(0, 0, -3) // the clock was wrong
	for range 9 {
		w.look(time.Minute)
	}
	if got := w.days(); got != rest {
		t.Errorf("with the clock set back: %s", got)
	}
}
