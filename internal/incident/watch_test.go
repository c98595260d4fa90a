package incident

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/explain"
	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is a watcher with a store, a clock, and what is wrong.
type world struct {
	*testing.T
	*Watcher
	store *coretest.Store
	now   time.Time
	wrong []explain.Finding
	err   error
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, store: &coretest.Store{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	w.start()
	return w
}

// start is a new process.
func (w *world) start() {
	w.Watcher = &Watcher{
		Store: w.store, By: core.Component("x"), Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
		Find: func(context.Context) ([]explain.Finding, error) { return w.wrong, w.err },
	}
}

// look looks after a time.
func (w *world) look(after time.Duration) {
	w.Helper()
	w.now = w.now.Add(after)
	if err := w.Look(w.Context()); err != nil && !errors.Is(err, w.err) {
		w.Fatal(err)
	}
}

// events are the types of the events about incidents, in short.
func (w *world) events() string {
	w.Helper()
	events, err := w.store.Events(w.Context(), core.EventFilter{})
	if err != nil {
		w.Fatal(err)
	}
	var all string
	for _, e := range events {
		switch data := e.Data.(type) {
		case core.IncidentOpened:
			all += fmt.Sprintf(" open%d", data.Incident)
		case core.IncidentCorrected:
			all += fmt.Sprintf(" more%d", data.Incident)
		case core.IncidentClosed:
			all += fmt.Sprintf(" close%d", data.Incident)
		}
	}
	return all
}

func (w *world) want(what, events string) {
	w.Helper()
	if got := w.events(); got != events {
		w.Errorf("%s: the events are%s, want%s", what, got, events)
	}
}

var (
	gatewayDown = explain.New(explain.GatewayDown, "since", "", "error", "x")
	refusing    = explain.New(explain.GatewayRefusing, "since", "", "error", "y")
	quiet       = explain.New(explain.TaskQuiet, "agent", "devdas").On(3)
	silentLong  = explain.New(explain.TaskSilentLong, "agent", "devdas").On(3)
)

// A finding that holds opens one incident, whatever its words are; one that is away closes
// it. What came and went between two looks is none, and an error closes nothing.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Every = LookEvery
	pauses := func(want time.Duration) {
		t.Helper()
		if got := w.pause(); got != want {
			t.Errorf("the next look comes after %v, not %v", got, want)
		}
	}
	w.wrong = []explain.Finding{gatewayDown}
	pauses(LookEvery)
	w.look(time.Minute)
	pauses(settled)
	w.wrong = nil
	w.look(time.Minute)
	pauses(LookEvery)
	w.want("it came and went", "")
	w.wrong = []explain.Finding{gatewayDown, quiet}
	w.look(time.Minute)
	w.look(time.Second)
	w.want("too early", "")
	w.look(time.Minute)
	w.look(time.Minute)
	w.wrong = []explain.Finding{refusing, quiet}
	w.look(time.Minute)
	w.want("in other words", " open1 open2")
	w.wrong = []explain.Finding{silentLong, refusing, quiet}
	w.look(time.Minute)
	w.look(time.Minute)
	w.want("it became worse", " open1 open2 more2")
	w.wrong, w.err = nil, errors.New("unread")
	w.look(time.Minute)
	w.look(time.Minute)
	w.start()
	w.err = nil
	w.look(time.Minute)
	w.want("away for a moment", " open1 open2 more2")
	w.look(time.Minute)
	w.want("over", " open1 open2 more2 close2 close1")
	all, err := w.store.Incidents(t.Context(), core.IncidentFilter{Since: w.now})
	if err != nil || len(all) != 2 || all[0].Err != "ERR-01" || all[0].Task != 3 || all[0].Severity != 2 || all[0].Code != string(explain.TaskSilentLong) {
		t.Errorf("kept %+v, %v", all, err)
	}
}

// What comes and goes at each look costs a few events, and stands as one incident until it
// is away for long. After a quiet hour the next one is another incident.
func TestFlapping(t *testing.T) {
	t.Parallel()
	for _, beat := range []time.Duration{time.Minute, 20 * time.Minute} {
		w := newWorld(t)
		step := max(beat/4, settled)
		flap := func() {
			for i := range 4000 {
				w.wrong = nil
				if time.Duration(i)*step%(2*beat) < beat {
					w.wrong = []explain.Finding{gatewayDown}
				}
				if step > jump {
					t.Fatal("the looks are too far apart")
				}
				w.look(step)
			}
		}
		flap()
		events := w.events()
		if n := len(events); n > 120 {
			t.Errorf("every %v: %d events: %s", beat, n, events)
		}
		flap()
		if w.events() != events {
			t.Errorf("every %v: it does not settle: %s", beat, w.events())
		}
		w.wrong = nil
		for range 30 {
			w.look(5 * time.Minute)
		}
		w.wrong = []explain.Finding{gatewayDown}
		w.look(time.Minute)
		w.look(time.Minute)
		w.want(fmt.Sprint("every ", beat, ", after quiet hours"), events+" close1 open2")
	}
}

// Two processes that watch one store open and close each incident once.
func TestTwoWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Watcher
	w.start()
	w.wrong = []explain.Finding{gatewayDown}
	for range 4 {
		w.look(time.Minute)
		if err := first.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.wrong = nil
	for range 4 {
		w.look(time.Minute)
		if err := first.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.want("both", " open1 close1")
}

// A jump shows between two times of the wall clock alone: a time with the reading of the monotonic
// one is compared by that, which knows none.
func TestLooksByTheWallClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Now = time.Now
	if err := w.Look(t.Context()); err != nil || w.looked.IsZero() || w.looked != w.looked.Round(0) {
		t.Errorf("looked at %v, %v", w.looked, err)
	}
}

// After a night in which the machine slept all looks late for a while: that is none. A clock
// that was set back delays nothing for long.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.look(time.Minute)
	w.wrong = []explain.Finding{explain.New(explain.ComponentLate, "component", "otm-injector")}
	w.look(9 * time.Hour)
	w.look(time.Minute)
	w.look(time.Minute)
	w.wrong = nil
	w.look(time.Minute)
	w.want("after the night", "")
	w.wrong = []explain.Finding{gatewayDown}
	w.look(-9 * time.Hour)
	for range 6 {
		w.look(time.Minute)
	}
	w.want("set back", " open1")
}
