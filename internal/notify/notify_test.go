package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/leak"
	"otm/pipeline"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is a notifier with a store, an outlet that may fail, and a clock.
type world struct {
	*testing.T
	store *coretest.Store
	n     *Notifier
	clock atomic.Int64 // in Unix nanoseconds; doubles read it, too
	off   bool
	quiet bool
	err   error // of the outlet
	told  []Message
	drops int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, store: &coretest.Store{}}
	w.clock.Store(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixNano())
	w.start()
	return w
}

// start is a new process.
func (w *world) start() {
	path, outlet := filepath.Join(w.TempDir(), "notified.json"), Outlet(w)
	if w.n != nil {
		path, outlet = w.n.Path, w.n.Outlet
	}
	at := Place{
		Name: "test", Store: w.store, Path: path, Log: slog.New(slog.DiscardHandler),
		Off: func() bool { return w.off }, Now: w.now,
	}
	w.n = &Notifier{Place: at, Outlet: outlet, What: Usual, Quiet: func(time.Time) bool { return w.quiet }, Person: func(name string) bool { return name == "robin" }}
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

func (w *world) pass(d time.Duration) { w.clock.Add(int64(d)) }

// Tell implements Outlet.
func (w *world) Tell(_ context.Context, m Message) error {
	if w.err == nil {
		w.told = append(w.told, m)
	}
	return w.err
}

// once looks after a time, and returns what was told, in lines.
func (w *world) once(after time.Duration) string {
	w.Helper()
	w.pass(after)
	w.told = nil
	if err := w.n.Once(w.Context()); err != nil && w.err == nil {
		w.Fatal(err)
	}
	var all []string
	for _, m := range w.told {
		all = append(all, m.Text)
	}
	return strings.Join(all, "\n--\n")
}

func (w *world) want(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: told %q, want %q", what, got, want)
	}
}

func (w *world) do(c core.Command) {
	w.Helper()
	c.At = w.now()
	outcomes, err := w.store.Do(w.Context(), c)
	if err != nil || outcomes[0].Err != nil {
		w.Fatal(err, outcomes)
	}
}

// reported makes a task on which its agent reports.
func (w *world) reported(id pipeline.TaskID, r core.Report) {
	w.Helper()
	w.do(core.Command{By: core.Actor{Kind: core.Creator}, Task: id, Do: core.Request{CreatedAt: w.now(), Task: pipeline.Task{
		ID: id, Title: "Build\x1b[2J it", Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one"},
	}}})
	w.do(core.Command{By: core.Component("x"), Task: id, Do: core.Written{Row: fmt.Sprint("R", int(id)), Steps: []core.WrittenStep{{Step: 1, Row: fmt.Sprint("S", int(id))}}}})
	w.do(core.Command{By: core.Component("x"), Task: id, Do: core.HandOut{Agent: "devdas", Workspace: "/w"}})
	w.report(id, r)
}

// again hands a task out once more, and has its agent report.
func (w *world) again(id pipeline.TaskID, r core.Report) {
	w.Helper()
	w.do(core.Command{By: core.Component("x"), Task: id, Do: core.HandOut{Agent: "devdas", Workspace: "/w"}})
	w.report(id, r)
}

func (w *world) report(id pipeline.TaskID, r core.Report) {
	w.Helper()
	w.drops++
	r.Drop, r.Dropped = fmt.Sprint("d", w.drops), w.now()
	w.do(core.Command{ID: r.Drop, By: core.ByAgent("devdas"), Task: id, Do: r})
}

// What happens is told once, in order, also after a restart; what happened before the first
// start is not. News wait for others. While the outlet takes nothing, messages become one.
func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reported(1, core.Report{Status: pipeline.Blocked, Reason: "long ago"})
	w.want("at first", w.once(0), "")
	w.reported(2, core.Report{Status: pipeline.Blocked, Reason: "Blue or\ngreen?"})
	w.want("too early", w.once(3*time.Second), "")
	w.reported(3, core.Report{Status: pipeline.AgentDone, Result: "#12"})
	w.want("a batch", w.once(2*time.Second), `T-00002 *Build\x1b[2J it*: devdas is blocked: Blue or green? → otm unblock T-00002 --reason '…'`+"\n"+
		`T-00003 *Build\x1b[2J it* completed by devdas, to be reviewed. #12 → otm accept T-00003; or: otm rework T-00003 --reason '…'`)
	w.want("once", w.once(5*time.Second), "")
	w.start()
	w.want("once, after a restart", w.once(5*time.Second), "")

	w.err = errors.New("off")
	w.reported(4, core.Report{Status: pipeline.AgentDone})
	w.once(5 * time.Second)
	w.once(time.Second) // too early
	s, err := Read(w.n.Path)
	if err != nil || s.Failing == nil || s.Failing.Tries != 1 || s.Failing.Error != "off" {
		t.Fatalf("noted %+v, %v", s, err)
	}
	w.once(10 * time.Second)
	w.reported(5, core.Report{Status: pipeline.Failed, Reason: "no GPU", Terminal: true})
	w.err = nil
	w.want("too early", w.once(10*time.Second), "")
	w.start()
	w.want("both", w.once(10*time.Second), `T-00004 *Build\x1b[2J it* completed by devdas, to be reviewed. → otm accept T-00004; or: otm rework T-00004 --reason '…'`+"\n"+
		`T-00005 *Build\x1b[2J it* failed. Reason: no GPU. Retry: no → otm requeue T-00005 --reset; or: otm assign T-00005 --to AGENT`)
	if s, err := Read(w.n.Path); err != nil || s.Failing != nil {
		t.Errorf("noted %+v, %v", s, err)
	}
}

// From an event to the message it takes at most six seconds, and from an incident one,
// whenever the notifier looks.
func TestSoon(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
		w := newWorld(t)
		w.once(0)
		for kind, longest := range map[string]time.Duration{"news": 6 * time.Second, "incident": time.Second} {
			w.once(time.Minute)
			w.pass(ahead)
			began := w.now()
			if kind == "news" {
				w.reported(1, core.Report{Status: pipeline.AgentDone})
			} else {
				w.found("x", 1)
			}
			w.pass(-ahead)
			for text := ""; text == "" && w.now().Sub(began) < time.Minute; {
				text = w.once(lookEvery)
			}
			if took := w.now().Sub(began); took > longest {
				t.Errorf("%s: told after %v, want %v", kind, took, longest)
			}
		}
	}
}

// Retries, the end of all tries, and a silent agent are told in words of their own.
func TestWordsOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.n.What = []Kind{Done, Retry, Failed}
	w.once(0)
	w.reported(1, core.Report{Status: pipeline.Failed, Reason: "no GPU"})
	w.want("a retry", w.once(5*time.Second), `T-00001 Retry 1/3: *Build\x1b[2J it* back in queue. Reason: no GPU → otm why T-00001`)
	w.do(core.Command{By: core.ByPerson("rob"), Agent: "devdas", Also: []pipeline.TaskID{1}, Do: core.ResumeAgent{}})
	w.want("a person ends its wait", w.once(5*time.Second), "")
	for range 3 {
		w.pass(time.Hour)
		w.again(1, core.Report{Status: pipeline.Failed, Reason: "no GPU"})
	}
	if got := w.once(5 * time.Second); !strings.HasSuffix(got, `T-00001 *Build\x1b[2J it* failed after 4 attempts. Needs human attention. Reason: no GPU → otm requeue T-00001 --reset; or: otm assign T-00001 --to AGENT`) {
		t.Errorf("a dead letter: told %q", got)
	}
	w.reported(2, core.Report{Status: pipeline.InProgress})
	at, err := w.store.Task(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	w.do(core.Command{By: core.Component("otm"), Task: 2, Do: core.ReclaimRun{Run: 1, Heard: at.HeardOf("devdas").At}})
	w.want("silence", w.once(5*time.Second), `T-00002 *Build\x1b[2J it* stuck — devdas offline. Returning to queue. → otm why T-00002`)
	w.reported(3, core.Report{Status: pipeline.AgentDone, Result: "#12"})
	done := pipeline.Done
	w.do(core.Command{By: core.ByPerson("rob"), Task: 3, Do: core.Edits{Status: &done}})
	w.want("done", w.once(5*time.Second), `T-00003 *Build\x1b[2J it* completed by devdas. #12`)
}

// What a person does is no news to people, and a question that was answered is none either.
func TestNoNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.reported(1, core.Report{Status: pipeline.Blocked, Reason: "?"})
	again, held := pipeline.InProgress, pipeline.Blocked
	w.do(core.Command{By: core.ByPerson("rob"), Task: 1, Do: core.Edits{Status: &again}})
	w.want("answered", w.once(5*time.Second), "")
	w.do(core.Command{By: core.ByPerson("rob"), Task: 1, Do: core.Edits{Status: &held}})
	w.want("by a person", w.once(5*time.Second), "")
}

// People are told of messages that mention them: they do not run otm next. A message that
// mentions only agents is no news.
func TestMention(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.reported(1, core.Report{Message: pipeline.Message{Text: "which\x07 one?", Mentions: []string{"lead", "robin"}}})
	w.report(1, core.Report{Message: pipeline.Message{Text: "for agents", Mentions: []string{"lead"}}})
	w.do(core.Command{By: core.ByPerson("rob"), Task: 1, Do: core.Say{Message: pipeline.Message{Text: "look", Tag: pipeline.TagNote, Mentions: []string{"robin"}}}})
	w.want("two messages", w.once(5*time.Second), `T-00001 *Build\x1b[2J it*: agent devdas to robin: which\x07 one? → otm show T-00001; or: otm say T-00001 '…'
T-00001 *Build\x1b[2J it*: rob to robin: look → otm show T-00001; or: otm say T-00001 '…'`)
	w.want("once", w.once(time.Minute), "")
}

// found opens, updates and closes incidents of one finding.
func (w *world) found(key string, severity int) {
	w.Helper()
	f := core.Found{Key: key, Kind: key, Severity: severity, Code: string(explain.OpenClawUnread), Args: map[string]string{"error": key}}
	w.do(core.Command{By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: f, Since: w.now()}}}})
}

func (w *world) gone() {
	w.Helper()
	stand, err := w.store.Incidents(w.Context(), core.IncidentFilter{Open: true})
	if err != nil {
		w.Fatal(err)
	}
	var gone core.Watch
	for _, i := range stand {
		gone.Gone = append(gone.Gone, *i)
	}
	w.do(core.Command{By: core.Component("x"), Do: gone})
}

// An incident is told once when it is opened, also after a crash between the opening and
// the telling, once when it becomes worse, and once when it is over. One that came and went
// between two messages is not told, and neither is one that went and came back.
func TestIncidents(t *testing.T) {
	t.Parallel()
	const text = "agents that only openclaw.json names are not known: "
	const next = " → correct that file, or gateway.config of otm.toml"
	w := newWorld(t)
	w.once(0)
	w.found("x", 1)
	w.start()
	w.want("opened", w.once(5*time.Second), text+"x"+next)
	w.found("x", 1)
	w.want("once", w.once(5*time.Second), "")
	w.found("x", 2)
	w.want("worse", w.once(5*time.Second), text+"x"+next)
	w.gone()
	w.found("x", 2)
	w.want("it went and came", w.once(5*time.Second), "")
	w.gone()
	w.found("x", 2)
	w.gone()
	w.want("over", w.once(5*time.Second), "over: "+text+"x")
	w.found("y", 1)
	w.found("y", 2)
	w.gone()
	w.want("it came and went", w.once(5*time.Second), "")
	w.found("z", 0)
	w.want("worth noting", w.once(5*time.Second), "")
	w.found("z", 1)
	w.want("no longer worth noting only", w.once(5*time.Second), text+"z"+next)
	w.found("z", 2)
	w.gone()
	w.want("worse, then over", w.once(5*time.Second), "over: "+text+"z")
	away := explain.New(explain.GatewayDown, "since", w.now(), "error", "refused")
	w.do(core.Command{By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: incident.Of(&away), Since: w.now()}}}})
	w.once(5 * time.Second)
	w.gone()
	w.want("without what follows", w.once(5*time.Second), "over: the gateway has not been reachable since 10s ago: refused")
}

// The end of a day with incidents is told once.
func TestDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.found("x", 1)
	w.once(time.Second)
	midnight := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for range 2 {
		w.do(core.Command{ID: "end", By: core.Component("x"), Do: core.EndDay{DayEnded: core.DayEnded{From: midnight.AddDate(0, 0, -1), To: midnight}}})
		w.start()
	}
	w.want("the day", w.once(12*time.Hour), "2026-11-29: 1 incident (x: 1); OTM put 0 right by itself; for the first time: x → otm daily")
	w.want("once", w.once(time.Second), "")
}

// badStore is a store that fails to read some events.
type badStore struct {
	core.Store
	bad func(core.EventFilter) bool
}

func (s badStore) Events(ctx context.Context, f core.EventFilter) ([]core.Event, error) {
	if s.bad(f) {
		return nil, core.ErrArchive
	}
	return s.Store.Events(ctx, f)
}

// Damaged archives hold up no news. The day of an incident that is known is told as ever;
// a day that cannot be counted is told without counts.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.found("x", 1)
	w.once(time.Second)
	w.gone()
	w.once(5 * time.Second)
	midnight := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	end := func() {
		w.Helper()
		day := core.DayEnded{From: midnight.AddDate(0, 0, -1), To: midnight}
		w.do(core.Command{ID: "end of " + midnight.String(), By: core.Component("x"), Do: core.EndDay{DayEnded: day}})
		midnight = midnight.AddDate(0, 0, 1)
	}
	w.n.Store = badStore{w.store, func(f core.EventFilter) bool { return f.Archived && f.Since.Before(w.now().AddDate(0, 0, -60)) }}
	w.pass(12 * time.Hour)
	end()
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	got := w.once(5 * time.Second)
	day, rest, _ := strings.Cut(got, "\n")
	w.want("a day that cannot be counted", day, "2026-11-29: the day's report cannot be made: the archive is damaged → otm daily")
	if !strings.HasPrefix(rest, "T-00001 ") {
		t.Errorf("the news after it: %q", got)
	}
	w.found("x", 1)
	w.once(5 * time.Second)
	w.pass(24 * time.Hour)
	end()
	w.want("a day without new incidents", w.once(5*time.Second), "2026-11-30: 1 incident (x: 1); OTM put 0 right by itself → otm daily")
}

// News that cannot be read show as a failing outlet does, until they can be read.
func TestUnreadNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	failing := func() string {
		s, err := Read(w.n.Path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Failing == nil {
			return ""
		}
		return s.Failing.Error
	}
	w.n.Store = badStore{w.store, func(core.EventFilter) bool { return true }}
	for _, w.quiet = range []bool{false, true} {
		w.pass(time.Hour)
		if err := w.n.Once(t.Context()); err == nil || failing() != "the news cannot be read: the archive is damaged" {
			t.Errorf("quiet hours %v: %v, noted %q", w.quiet, err, failing())
		}
	}
	w.quiet, w.n.Store = false, w.store
	if got := w.once(time.Hour); got != "" || failing() != "" {
		t.Errorf("told %q, noted %q", got, failing())
	}
	w.err = errors.New("off")
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	w.once(5 * time.Second)
	w.once(time.Hour)
	if failing() != "off" {
		t.Errorf("noted %q", failing())
	}
}

// 200 incidents at once are one message.
func TestManyIncidents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	for i := range 200 {
		w.found(fmt.Sprint(i), 1)
	}
	if w.once(0); len(w.told) != 1 || len(w.told[0].Items) != maxItems || w.told[0].More != 200-maxItems {
		t.Errorf("told %d messages: %v", len(w.told), w.told)
	}
	w.found("more", 1)
	w.want("too soon after the last message", w.once(4*time.Second), "")
	w.want("soon enough", w.once(time.Second), "agents that only openclaw.json names are not known: more → correct that file, or gateway.config of otm.toml")
}

// In the quiet hours only problems are told. News of tasks come afterwards, or with them.
// While people are told nothing, all of it waits.
func TestQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.quiet = true
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	w.want("quiet", w.once(time.Hour), "")
	w.found("x", 1)
	if got := w.once(5 * time.Second); !strings.HasPrefix(got, "T-00001") || !strings.Contains(got, "openclaw.json") {
		t.Errorf("a problem in the quiet hours: told %q", got)
	}
	w.quiet, w.off = false, true
	w.reported(2, core.Report{Status: pipeline.AgentDone})
	w.want("off", w.once(time.Hour), "")
	w.start()
	w.want("off, after a restart", w.once(time.Hour), "")
	w.off = false
	if got := w.once(time.Second); !strings.HasPrefix(got, "T-00002") {
		t.Errorf("on again: told %q", got)
	}
}

// A month of an outlet that takes nothing costs one message with the newest items.
func TestMonthOfSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.err = errors.New("off")
	for id := range pipeline.TaskID(maxItems + 5) {
		w.reported(id+1, core.Report{Status: pipeline.AgentDone})
		w.once(14 * time.Hour)
	}
	w.err = nil
	text := w.once(time.Hour)
	if len(w.told) != 1 || w.told[0].More != 5 || len(w.told[0].Items) != maxItems || !strings.HasPrefix(text, "5 earlier ones are left out: otm why --all\nT-00006 ") {
		t.Errorf("told %d messages: %s", len(w.told), text)
	}
}

// An outlet says when it is to be tried again. Where a person has to help, it is tried once
// an hour, and after a start.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	tried := 0
	w.n.Outlet = outletFunc(func() error { tried++; return w.err })
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	want := func(what string, after time.Duration, n int) {
		t.Helper()
		if w.once(after); tried != n {
			t.Errorf("%s: tried %d times, want %d", what, tried, n)
		}
	}
	w.err = &Refused{Err: errors.New("later"), After: 90 * time.Second}
	want("at first", 5*time.Second, 1)
	want("it asks for a pause", 89*time.Second, 1)
	w.err = &Refused{Err: errors.New("no"), Next: "call somebody"}
	want("it is over", time.Second, 2)
	want("a person is needed", 59*time.Minute, 2)
	if s, err := Read(w.n.Path); err != nil || s.Failing.Next != "call somebody" {
		t.Errorf("noted %+v, %v", s, err)
	}
	want("an hour later", time.Minute, 3)
	w.start()
	want("after a start", time.Second, 4)
	mend := func() {
		t.Helper()
		if err := EndPause(w.n.Path); err != nil {
			t.Error(err)
		}
	}
	mend()
	want("somebody mended it, and was wrong", time.Second, 5)
	want("it is tried once", 59*time.Minute, 5)
	w.err = &Refused{Err: errors.New("later"), After: 1000 * time.Hour}
	w.start()
	want("it asks for too much", time.Second, 6)
	want("it asks for too much, after a day", 24*time.Hour, 7)
	w.err = nil
	mend()
	want("somebody mended it", time.Second, 8)
	mend() // nothing to mend
	w.err = &Refused{Err: errors.New("no"), Next: "call somebody"}
	w.reported(2, core.Report{Status: pipeline.AgentDone})
	want("it is refused again", 5*time.Second, 9)
	want("an old word ends no pause", time.Second, 9)
}

// Where the news that an outlet refused are none any more, it has nothing to take: it fails no
// more, unless a person has to mend it. So otm notify test, which finds it mended, ends that.
func TestNothingIsLeftToTell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	failing := func(what string, want bool) {
		t.Helper()
		if s, err := Read(w.n.Path); err != nil || (s.Failing != nil) != want {
			t.Errorf("%s: noted %+v, %v", what, s, err)
		}
	}
	for i, refusal := range []error{errors.New("off"), &Refused{Err: errors.New("no"), Next: "call somebody"}} {
		id := pipeline.TaskID(i + 1)
		w.err = refusal
		w.reported(id, core.Report{Status: pipeline.AgentDone})
		w.once(gather)
		failing("refused", true)
		w.do(core.Command{By: core.ByPerson("rob"), Task: id, Do: core.Edits{Status: new(pipeline.Done)}})
		w.err = nil
		w.want("accepted", w.once(2*personPause), "")
		failing("nothing waits", id == 2)
	}
	if err := EndPause(w.n.Path); err != nil {
		t.Fatal(err)
	}
	w.want("mended", w.once(time.Second), "")
	failing("mended", false)

	w.err = &Refused{Err: errors.New("no"), Next: "call somebody"}
	w.reported(3, core.Report{Status: pipeline.AgentDone})
	w.once(gather)
	failing("refused", true)
	w.err, w.n.Quiet = nil, func(time.Time) bool { return true }
	if err := EndPause(w.n.Path); err != nil {
		t.Fatal(err)
	}
	w.want("mended in quiet hours", w.once(time.Second), "")
	failing("mended in quiet hours", false)
}

// A notifier that is told to stop while it tells notes no failure, and tells it again.
func TestStoppedWhileItTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	w.pass(gather)
	ctx, stop := context.WithCancel(t.Context())
	w.n.Outlet = outletFunc(func() error { stop(); return context.Cause(ctx) })
	if err := w.n.Once(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if s, err := Read(w.n.Path); err != nil || s.Failing != nil {
		t.Errorf("noted %+v, %v", s, err)
	}
	w.n.Outlet = w
	if text := w.once(0); !strings.HasPrefix(text, "T-00001 ") {
		t.Errorf("told %q", text)
	}
}

type outletFunc func() error

func (f outletFunc) Tell(context.Context, Message) error { return f() }

// If it is not known what people were told, they are told so, and the last day again. A
// clock that was set back delays nothing for long.
func TestOddStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	w.pass(25 * time.Hour)
	w.reported(2, core.Report{Status: pipeline.AgentDone})
	if err := os.WriteFile(w.n.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.err = errors.New("off")
	w.once(time.Second)
	w.err = nil
	w.start()
	if got := w.once(time.Minute); !strings.HasPrefix(got, "T-00002 ") || !strings.Contains(got, "\nwhat you were told is not known any more (") {
		t.Errorf("damaged: told %q", got)
	}
	w.want("once", w.once(time.Minute), "")
	w.err = errors.New("off")
	w.reported(3, core.Report{Status: pipeline.AgentDone})
	w.once(5 * time.Second)
	w.err = nil
	if got := w.once(-24 * time.Hour); got == "" {
		t.Error("with the clock set back nothing is told")
	}
}

// The store was lost, or replaced by an older backup: its numbers begin anew, and what
// happens from then on is told.
func TestStoreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.once(0)
	for id := range pipeline.TaskID(3) {
		w.reported(id+1, core.Report{Status: pipeline.AgentDone})
	}
	w.once(5 * time.Second)
	*w.store = coretest.Store{}
	w.reported(1, core.Report{Status: pipeline.AgentDone})
	w.once(5 * time.Second)
	w.reported(2, core.Report{Status: pipeline.AgentDone, Result: "#2"})
	if got := w.once(5 * time.Second); !strings.HasPrefix(got, "T-00002 ") {
		t.Errorf("told %q", got)
	}
}

// The command gets JSON, and may fail in each way.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for script, want := range map[string]string{
		"cat > got":                   "",
		"exit 3":                      "sh: exit status 3",
		"echo why >&2; exit 3":        "sh: exit status 3: why",
		"sleep 60 & sleep 60":         "sh: it did not end within 200ms",
		"sleep 1000 & cat >/dev/null": "",
		"head -c 1000000 /dev/zero | tr '\\0' x >&2": "",
	} {
		o := Command{Line: []string{"sh", "-c", script}, Dir: dir, Env: os.Environ(), Wait: time.Minute}
		if strings.Contains(want, "200ms") {
			o.Wait = 200 * time.Millisecond
		}
		err := o.Tell(t.Context(), Message{Text: "x"})
		if got := fmt.Sprint(err); got != want && !(err == nil && want == "") {
			t.Errorf("%s: %s, want %q", script, got, want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "got")); string(data) != "{\"text\":\"x\",\"items\":null}\n" || err != nil {
		t.Errorf("it got %q, %v", data, err)
	}
}
