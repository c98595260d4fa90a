package dispatch

import (
	"reflect"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// starts returns what was noted of starts.
func (w *world) starts() (noted []core.Started) {
	w.Helper()
	events, err := w.store.Events(w.Context(), core.EventFilter{Types: []string{"Started"}})
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range events {
		if e.Code() != "IE-SYS-01" {
			w.Errorf("code %q", e.Code())
		}
		noted = append(noted, e.Data.(core.Started))
	}
	return noted
}

// TestStarted: the start of a dispatcher is one event, with what was there, who came and who
// left. Passes that follow make none.
func TestStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	w.d.Starts = []Start{{What: core.StartedDispatcher, Version: "1.2"}}
	w.pass()
	w.create("One", "alpha", pipeline.Normal)
	w.create("Two", "beta", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.pass()
	if got, want := w.starts(), []core.Started{{What: "dispatcher", Version: "1.2", Agents: []string{"alpha", "beta"}}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("starts\n%+v, want\n%+v", got, want)
	}
	w.agents = append(w.agents[:1:1], pipeline.Agent{Name: "gamma", Label: "gamma", Person: true, Trigger: pipeline.TriggerNone})
	w.restart()
	w.d.Starts = []Start{{What: core.StartedDispatcher, Version: "1.3"}}
	w.pass()
	w.pass()
	got := w.starts()
	want := core.Started{
		What: "dispatcher", Version: "1.3", Agents: []string{"alpha", "gamma"}, Added: []string{"gamma"}, Removed: []string{"beta"},
		Tasks: map[pipeline.Status]int{pipeline.InProgress: 1, pipeline.Assigned: 1}, Runs: []string{"T-00001.1"},
		Wakes: []string{"otm-T-00001-alpha-1", "otm-T-00002-beta-1"},
	}
	if len(got) != 2 || !reflect.DeepEqual(got[1], want) {
		t.Errorf("starts\n%+v, want the last to be\n%+v", got, want)
	}
}

// TestGatewayCameBack: a gateway that forgets its runs came back as another process. The
// runs that it had accepted are over at once. One that it accepted since goes on, and so do
// all where it keeps them.
func TestGatewayCameBack(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{true, false} {
		w := newWorld(t, "alpha", "beta")
		w.create("One", "alpha", pipeline.Normal)
		w.pass()
		w.next("alpha")
		w.clock.Advance(time.Minute)
		start := Start{What: core.StartedGateway, Version: "2026.3.13"}
		if forgets {
			start.Lost = w.clock.Now()
		}
		w.clock.Advance(time.Second)
		w.create("Two", "beta", pipeline.Normal)
		w.pass()
		w.d.Starts = []Start{start}
		w.pass()
		var lost []string
		if forgets {
			lost = []string{"otm-T-00001-alpha-1"}
		}
		if got := w.starts(); len(got) != 1 || got[0].What != "gateway" || !reflect.DeepEqual(got[0].Lost, lost) {
			t.Errorf("forgets %t: starts %+v", forgets, got)
		}
		failed := w.record(1).Runs.Last().Ending == core.EndFailed
		if failed != forgets || !w.record(2).Wakes[0].Ended.IsZero() {
			t.Errorf("forgets %t: run %+v, other wake %+v", forgets, w.record(1).Runs.Last(), w.record(2).Wakes[0])
		}
	}
}
