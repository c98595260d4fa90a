package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/notify"
)

// Each condition of the specification that can occur and last is an incident with its code,
// and so are those that only OTM knows. What is no problem yet is one worth noting. All of
// them follow from the one judgement that otm status uses.
func TestIncidentCodes(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	now := time.Now()
	silent := now.Add(-2 * time.Hour)
	found := []explain.Finding{
		explain.New(explain.TaskSilent, "agent", "devdas", "since", silent).On(1),
		explain.New(explain.ProcessHolds, "agent", "devdas", "since", silent, "pid", 7, "n", 2).On(1),
		explain.New(explain.WakeUnheard, "agent", "devdas", "at", silent, "key", "k"),
		explain.New(explain.AgentSeveral, "agent", "devdas", "n", 2, "tasks", "T-00001, T-00002", "last", "T-00002"),
		explain.New(explain.WakeFailed, "agent", "devdas", "error", "x"),
		explain.New(explain.TaskRests, "status", "rejected", "agent", "devdas", "since", silent).On(3),
		explain.New(explain.TaskRests, "status", "blocked", "agent", "devdas", "since", silent).On(4),
		explain.New(explain.TaskNoAgent, "name", "nobody").On(5),
		explain.New(explain.ListFull),
	}
	if err := heartbeat.NewWriter(p.h.Dir, heartbeat.Dispatcher, "test", p.h.Now).Beat(heartbeat.Partial, "", found...); err != nil {
		t.Fatal(err)
	}
	p.beat(now.Add(-time.Hour), heartbeat.Detector)
	trouble := heartbeat.Report{Trouble: errors.New("refused"), NoBoard: true}
	if err := heartbeat.NewWriter(p.h.Dir, heartbeat.Injector, "test", p.h.Now).Beat(heartbeat.Error, "", trouble.Findings()...); err != nil {
		t.Fatal(err)
	}
	store, err := p.h.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(p.h, store, slog.New(slog.DiscardHandler))
	w.Now = func() time.Time { return now }
	for range 2 {
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	stand, err := store.Incidents(t.Context(), core.IncidentFilter{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, i := range stand {
		got[strings.TrimSpace(i.Err+" "+i.Kind)] = i.Severity
	}
	want := map[string]int{
		"ERR-01 silent": 2, "ERR-06 wake not acknowledged": 1, "ERR-07 several tasks at once": 1, "ERR-08 wake fails": 2, "ERR-09 rejected rests": 1,
		"ERR-10 unknown agent": 2, "waits for a person": 1, "list full": 1, "component dead": 2, "board away": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if b, err := heartbeat.Read(p.h.Dir, heartbeat.Monitor); err != nil || b.Result != heartbeat.Success {
		t.Errorf("it beat %+v, %v", b, err)
	}
	rework := explain.New(explain.ReworkQuiet, "agent", "devdas")
	if c := rework.Condition(); c.Err != "ERR-12" {
		t.Errorf("rework that is not begun is %v", c)
	}
}

// An incident is listed with what is found now: the present process, not the one that was found
// first. While it is not found, it has no next step. Who lists it is told that nobody updates it.
func TestIncidentsAsFoundNow(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.runs("true")
	begun := time.Now().Add(-time.Minute).UTC()
	finding := explain.New(explain.AgentWillNotEnd, "agent", "devdas", "task", "T-00001", "since", begun, "pid", 26737, "why", "was taken from it")
	found := incident.Of(&finding)
	watch := func(w core.Watch) { do(t, p.h, core.Command{At: begun, By: core.Component("otm"), Do: w}) }
	shows := func(holds bool, texts ...string) {
		t.Helper()
		_, line := p.main("otm", "incidents")
		_, data := p.main("otm", "incidents", "--json")
		v, err := loadView(t.Context(), p.h, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := IncidentsOf(t.Context(), v, false, time.Time{})
		if err != nil || len(shown) != 1 || shown[0].Holds != holds || (shown[0].Next != "") != holds {
			t.Errorf("the API shows %+v, %v", shown, err)
		}
		for _, text := range append(texts, "nobody updates this list: no dispatcher stays running here; start it with: otm up") {
			if !strings.Contains(line, text) {
				t.Errorf("%q is missing in %s", text, line)
			}
		}
		for _, out := range []string{line, data} {
			if strings.Contains(out, "kill -KILL") != holds || holds && strings.Contains(out, "26737") {
				t.Errorf("it says %s", out)
			}
		}
	}
	seen := []core.Seen{{Found: found, Since: begun}}
	watch(core.Watch{Found: seen})
	shows(false, "came last 1m ago", "not found any more: the process of devdas, pid 26737")
	watch(core.Watch{Gone: []core.Incident{{ID: 1, Count: 1}}})
	watch(core.Watch{Found: seen})
	shows(false, "came last 1m ago", "comes and goes: the process of devdas, pid 26737")
	p.ending(begun)
	pid := strconv.Itoa(os.Getpid())
	shows(true, "since 1m ago", "2 times", "the process of devdas, pid "+pid+", still runs", "kill -KILL -- -"+pid)
}

// taker is an outlet that takes what it is told, or fails.
type taker struct {
	told []string
	err  error
}

func (o *taker) Tell(_ context.Context, m notify.Message) error {
	if o.err == nil {
		o.told = append(o.told, m.Text)
	}
	return o.err
}

// The watchdog tells people once that nobody looks for incidents, with what is wrong, and
// once that somebody does again. A night in which the machine slept is none. What was not
// taken is told at the next look.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	now := time.Now()
	p.h.Now = func() time.Time { return now }
	o := &taker{}
	start := func() *watchdog { return newWatchdog(p.h, []outlet{{"command", o}}, slog.New(slog.DiscardHandler)) }
	w := start()
	look := func(times int, want ...string) {
		t.Helper()
		o.told = nil
		for range times {
			now = now.Add(time.Minute)
			w.look(t.Context())
		}
		if !slices.EqualFunc(o.told, want, strings.Contains) {
			t.Errorf("told %q, want %q", o.told, want)
		}
	}
	p.beat(now, heartbeat.Monitor)
	look(3)
	now = now.Add(9 * time.Hour)
	look(2)
	p.beat(now, heartbeat.Monitor)
	look(6)
	o.err = errors.New("off")
	look(3)
	o.err = nil
	look(1, "nobody has looked for incidents for 1")
	look(9)
	w = start() // it knows what it told
	look(9)
	p.beat(now, heartbeat.Monitor)
	w = start()
	look(3, "over: incidents are looked for again")
	w = start()
	look(1)
	if err := os.WriteFile(heartbeat.Path(p.h.Dir, heartbeat.Monitor), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, offPath(p.h), "")
	look(4)
	if err := os.Remove(offPath(p.h)); err != nil {
		t.Fatal(err)
	}
	look(1, "the heartbeat is damaged")
	if err := os.Remove(heartbeat.Path(p.h.Dir, heartbeat.Monitor)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	for _, damaged := range []string{"{", "null"} { // as far as it is known, nobody was told
		put(t, filepath.Join(p.h.Dir, watchdogTold), damaged)
		w = start()
		look(5, heartbeat.Dispatcher+" has not run for ")
	}
}

// 200 incidents at once are opened by one command, and follow from their events.
func TestManyIncidentsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	store, err := p.h.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w := &incident.Watcher{Store: store, By: core.Component("x"), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	wrong := 200
	w.Find = func(context.Context) (found []explain.Finding, err error) {
		for range wrong {
			found = append(found, explain.New(explain.WorkspaceMissing, "agent", len(found)))
		}
		return found, nil
	}
	for _, wrong = range []int{200, 200, 100, 100} {
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	stand, err := store.Incidents(t.Context(), core.IncidentFilter{Open: true})
	if err != nil || len(stand) != 100 {
		t.Errorf("%d incidents stand, %v", len(stand), err)
	}
}
