package notify

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/notify/notifytest"
	"otm/pipeline"
	"otm/slacklist"
)

// slackChat is a chat with a double of Slack.
func slackChat(t *testing.T, now func() time.Time) (*slacklist.Chat, *notifytest.Slack) {
	double := &notifytest.Slack{Token: "xoxb-secret", Channels: []string{"C1"}}
	server := httptest.NewServer(double)
	t.Cleanup(server.Close)
	token := func() (string, error) { return "xoxb-secret", nil }
	return slacklist.NewChat(server.URL+"/api/", token, now), double
}

// Texts of others come to Slack as they are, mention nobody and link nothing.
func TestSlackTexts(t *testing.T) {
	t.Parallel()
	chat, double := slackChat(t, time.Now)
	o := &Slack{Chat: chat, Channel: "C1", Now: time.Now}
	odd := "<!channel> <@U1> & &amp; <http://evil|x> 👩‍👩‍👧"
	long := strings.Repeat("<🦀>", 5000)
	item := func(title, after string) Item { return Item{words: words{"T-00001 ", title, after}} }
	for want, m := range map[string]Message{
		"T-00001 *" + odd + "*: " + odd: message([]Item{item(odd, ": "+odd)}),
		"":                              message([]Item{item(long, long)}),
	} {
		before := len(double.Messages("C1", ""))
		if err := o.Tell(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		got := double.Messages("C1", "")[before].Text
		if want != "" && got != want || strings.Contains(got, "LINK") || len(got) > slackLimit*4 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What Slack refuses is tried again when it says, or when a person has helped.
func TestSlackRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
		after  bool
		next   string
	}{
		"limit":       {notifytest.SlackLimit(30), "ratelimited", true, ""},
		"revoked":     {notifytest.SlackError("token_revoked"), "token_revoked", false, "chat:write"},
		"not invited": {notifytest.SlackError("not_in_channel"), "not_in_channel", false, "invite the app"},
		"archived":    {notifytest.SlackError("is_archived"), "is_archived", false, "invite the app"},
		"broken":      {notifytest.SlackError("internal_error"), "internal_error", false, ""},
		"page":        {notifytest.HTML(200), "no Slack answer", false, ""},
		"bad page":    {notifytest.HTML(502), "HTTP status 502", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chat, double := slackChat(t, time.Now)
			double.Next(c.answer)
			err := (&Slack{Chat: chat, Channel: "C1", Now: time.Now}).Tell(t.Context(), Test(time.Now()))
			r := &Refused{}
			if !errors.As(err, &r) || !strings.Contains(err.Error(), c.says) || (r.After > 0) != c.after || (r.Next == "") != (c.next == "") || !strings.Contains(r.Next, c.next) {
				t.Errorf("got %v, %+v", err, r)
			}
			if strings.Contains(fmt.Sprint(err, r.Next), "secret") {
				t.Errorf("%v: it shows the token", err)
			}
		})
	}
}

// audited is a world with an audit.
type audited struct {
	*world
	audit  *Audit
	double *notifytest.Slack
}

func newAudited(t *testing.T) *audited {
	w := &audited{world: newWorld(t)}
	var chat *slacklist.Chat
	chat, w.double = slackChat(t, w.now)
	w.double.Now = w.now
	w.audit = &Audit{Chat: chat, Place: Place{Path: filepath.Join(t.TempDir(), "audit.json")}}
	w.start()
	if err := w.audit.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// start is a new process.
func (w *audited) start() {
	w.audit = &Audit{
		Place: Place{
			Name: "audit", Store: w.store, Path: w.audit.Path, Log: slog.New(slog.DiscardHandler),
			Off: func() bool { return w.off }, Now: w.now,
		},
		Chat: w.audit.Chat, Channel: "C1", StoreID: "s1", Words: func(e *core.Event) string {
			if _, own := e.Data.(core.AuditPosted); own {
				return ""
			}
			return e.Type()
		},
		Sleep: w.pass,
	}
}

// all mirrors everything, with so many tries at most.
func (w *audited) all(tries int) {
	w.Helper()
	for range tries {
		if err := w.audit.Once(w.Context()); err == nil {
			return
		}
		w.pass(time.Hour)
	}
	w.Fatal("the audit does not get on")
}

// lines are those in the thread of a task.
func (w *audited) lines(id pipeline.TaskID) (all []string) {
	w.Helper()
	t, err := w.store.Task(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	if t.Audit == nil {
		return nil
	}
	for _, m := range w.double.Messages("C1", t.Audit.TS) {
		all = append(all, strings.Split(m.Text, "\n")...)
	}
	return all
}

// Each task has a thread, with a line for each event, in the words of the specification.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newAudited(t)
	w.reported(1, core.Report{Status: pipeline.InProgress, Steps: []string{"1"}})
	f := core.Found{Key: "x", Severity: 2, Task: 1, Code: string(explain.TaskRests), Args: map[string]string{"status": "agent_done"}}
	w.do(core.Command{By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: f, Since: w.now()}}}})
	other := f
	other.Key, other.Task = "y", 99 // which the store does not know
	w.do(core.Command{By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: other, Since: w.now()}}}})
	w.all(1)
	done, title := pipeline.Done, "New <title>"
	w.do(core.Command{By: core.ByPerson("rob"), Task: 1, Do: core.Edits{Status: &done, Title: &title}})
	w.reported(2, core.Report{Status: pipeline.AgentDone})
	w.all(1)
	got := strings.Join(w.lines(1), "\n")
	for _, want := range []string{
		"[2026-11-29 12:00:00] OTM: Status changed new → assigned (TT-01)",
		"] Agent(devdas) → OTM: Task acknowledged (IE-03)\n",
		"] Agent(devdas) → OTM: Subtask done — one (IE-02). Remaining: 0\n",
		"] Watchdog: ",
		"] Human(rob) change detected: status = done (IE-01)\n[2026-11-29 12:00:0",
		"] OTM: Status changed in_progress → done",
		"] Human(rob) change detected: title = New <title> (IE-01)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	heads := w.double.Messages("C1", "")
	if len(heads) != 2 || !strings.HasPrefix(heads[0].Text, `T-00001 *Build\x1b[2J it*`) || !strings.HasPrefix(heads[1].Text, "T-00002 ") || len(w.lines(2)) == 0 {
		t.Errorf("threads: %+v", heads)
	}
}

// A damaged archive holds up no line: those after it tell of the task as it is.
func TestAuditWithADamagedArchive(t *testing.T) {
	t.Parallel()
	w := newAudited(t)
	w.reported(1, core.Report{Status: pipeline.InProgress})
	w.audit.Store = badStore{w.store, func(f core.EventFilter) bool { return f.Archived }}
	w.all(1)
	if got := strings.Join(w.lines(1), "\n"); !strings.Contains(got, "] Agent(devdas) → OTM: Task acknowledged (IE-03)") {
		t.Errorf("lines:\n%s", got)
	}
}

// Errors, wakes and what reviewers ask for have words of their own.
func TestAuditErrors(t *testing.T) {
	t.Parallel()
	w := newAudited(t)
	boss, otm := core.ByReviewer("archibald"), core.Component("otm")
	task := &core.Task{Title: "Build it"}
	for want, e := range map[string]core.Event{
		"OTM ERROR: ReportFailed (IE-10)":                                                             {By: otm, Data: core.ReportFailed{}},
		"OTM ERROR: ReconciliationDrift (IE-10)":                                                      {By: otm, Data: core.ReconciliationDrift{}},
		"OTM ERROR: RunFailed (IE-10)":                                                                {By: core.ByAgent("devdas"), Data: core.RunFailed{}},
		"OTM → Agent(devdas): Task assigned — Build it (OE-01)":                                       {By: otm, Data: core.Notified{Agent: "devdas"}},
		"Orchestrator → OTM: done requested (IE-04)|OTM: Status changed agent_done → done (TT-06)":    {By: boss, Data: core.TaskMoved{From: pipeline.AgentDone, To: pipeline.Done, Move: "TT-06"}},
		"Orchestrator → OTM: cancelled requested (IE-06)|OTM: Status changed new → cancelled (TT-11)": {By: boss, Data: core.TaskMoved{From: pipeline.New, To: pipeline.Cancelled, Move: "TT-11"}},
		"Human(board) change detected: status = blocked (IE-01)|OTM: Status changed new → blocked":    {By: core.ByPerson(""), Data: core.TaskMoved{From: pipeline.New, To: pipeline.Blocked}},
		"Human(rob) change detected: StepDone (IE-01)":                                                {By: core.ByPerson("rob"), Data: core.StepDone{Done: true}},
		"": {By: boss, Data: core.Approved{}},
	} {
		if got := strings.Join(w.audit.say(&e, task), "|"); got != want {
			t.Errorf("%T: %q, want %q", e.Data, got, want)
		}
	}
}

// Lost answers, refusals and starts at any moment repeat no line and leave none out. Where
// the app may not read the channel, a line may come twice.
func TestAuditOnce(t *testing.T) {
	t.Parallel()
	want := newAudited(t)
	story := func(w *audited, between func()) {
		for id := range pipeline.TaskID(3) {
			w.reported(id+1, core.Report{Status: pipeline.Blocked, Reason: "?"})
			between()
		}
		again := pipeline.InProgress
		w.do(core.Command{By: core.ByPerson("rob"), Task: 2, Do: core.Edits{Status: &again}})
		between()
	}
	story(want, func() { want.all(1) })
	for trouble, make := range map[string]func(w *audited){
		"lost":    func(w *audited) { w.double.Lose(1) },
		"limit":   func(w *audited) { w.double.Next(notifytest.SlackLimit(5)) },
		"revoked": func(w *audited) { w.double.Next(notifytest.SlackError("token_revoked")) },
		"gone":    func(w *audited) { w.double.Next(notifytest.HTML(502), notifytest.HTML(502), notifytest.HTML(502)) },
		"killed": func(w *audited) {
			w.double.Lose(1)
			_ = w.audit.Once(t.Context()) // it is killed after the post
			w.start()
			w.pass(time.Minute)
		},
		"damaged": func(w *audited) {
			w.all(1)
			if err := os.WriteFile(w.audit.Path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.start()
		},
	} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			w := newAudited(t)
			story(w, func() { make(w); w.all(10) })
			w.all(10)
			for id := range pipeline.TaskID(3) {
				if got, want := w.lines(id+1), want.lines(id+1); texts(got) != texts(want) {
					t.Errorf("%v has\n%s\nwant\n%s", id+1, texts(got), texts(want))
				}
			}
			if n := len(w.double.Messages("C1", "")); n != 3 {
				t.Errorf("%d threads of 3 tasks", n)
			}
		})
	}
	w := newAudited(t)
	w.double.NoRead = true
	story(w, func() { w.double.Lose(1); w.all(10) })
	if len(w.lines(2)) < len(want.lines(2)) {
		t.Errorf("without the right to read, lines are missing: %q", w.lines(2))
	}
}

// texts are lines without their times.
func texts(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		_, text, _ := strings.Cut(l, "] ")
		b.WriteString(text + "\n")
	}
	return b.String()
}

// A channel that is away for a day costs no line, and few messages: those of one task that
// wait together are one.
func TestAuditDay(t *testing.T) {
	t.Parallel()
	w := newAudited(t)
	for range 30 {
		w.double.Next(notifytest.SlackError("channel_not_found"))
	}
	for id := range pipeline.TaskID(20) {
		w.reported(id+1, core.Report{Status: pipeline.AgentDone})
		_ = w.audit.Once(t.Context()) // it fails
		w.pass(72 * time.Minute)
	}
	if s, err := Read(w.audit.Path); err != nil || s.Failing == nil || !strings.Contains(s.Failing.Next, "invite") {
		t.Errorf("noted %+v, %v", s, err)
	}
	w.all(100)
	for range 10 { // as many batches as there may be
		w.all(1)
	}
	for id := range pipeline.TaskID(20) {
		last, _ := w.store.Task(t.Context(), id+1)
		posts := w.double.Messages("C1", last.Audit.TS)
		if len(posts) == 0 || len(posts) > 3 || !strings.Contains(posts[len(posts)-1].Text, "→ agent_done") {
			t.Errorf("%v: %d messages, %+v", id+1, len(posts), posts)
		}
	}
}

// A thread that somebody deleted is begun anew.
func TestAuditThreadGone(t *testing.T) {
	t.Parallel()
	w := newAudited(t)
	w.reported(1, core.Report{Status: pipeline.Blocked, Reason: "?"})
	w.all(1)
	w.double.Next(notifytest.SlackError("thread_not_found"))
	again := pipeline.InProgress
	w.do(core.Command{By: core.ByPerson("rob"), Task: 1, Do: core.Edits{Status: &again}})
	w.all(1)
	if n, lines := len(w.double.Messages("C1", "")), w.lines(1); n != 2 || len(lines) == 0 {
		t.Errorf("%d threads, %q", n, lines)
	}
}
