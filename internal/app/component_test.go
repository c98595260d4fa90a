package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/internal/logx"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/inbox/watch"
)

// A resident goes on after what may pass, and says each trouble once; it ends where
// only somebody can help, and where its directory is not there any more.
func TestResidentJudges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	later := now.Add(7 * time.Second)
	for name, c := range map[string]struct {
		err, trouble error
		ends         bool
		says         string // in the log, once for two runs
		retry        time.Time
	}{
		"nothing":               {retry: time.Time{}},
		"another's run":         {err: &lock.HeldError{Path: "locks/x", PID: 7}, says: "run not begun"},
		"no directory":          {err: config.ErrNotInitialised, ends: true},
		"not our directory":     {err: &config.DirError{Reason: "others can write to it"}, ends: true},
		"the disk is full":      {err: syscall.ENOSPC, says: "run failed", retry: now.Add(troubleRetry)},
		"the board is away":     {trouble: &pipeline.BoardError{Method: "list", Message: "away"}, says: "run failed", retry: now.Add(troubleRetry)},
		"the limit":             {trouble: &pipeline.BoardError{Method: "list", Code: "ratelimited", Until: later}, retry: later},
		"the list is not there": {trouble: &pipeline.BoardError{Method: "list", Code: "list_not_found", Class: pipeline.Fatal}, says: "run failed"},
		"the token is refused":  {trouble: &pipeline.BoardError{Method: "list", Code: "invalid_auth", Class: pipeline.Fatal, Credentials: true}, ends: true, says: "run failed"},
	} {
		var said bytes.Buffer
		comp := &component{log: logx.New(&said, slog.LevelInfo)}
		for range 2 {
			r := &heartbeat.Report{Trouble: c.trouble}
			if err := comp.judge(r, c.err); (err != nil) != c.ends {
				t.Errorf("%s: it ends with %v", name, err)
			}
			if got := retryAt(r.Trouble, now); !got.Equal(c.retry) {
				t.Errorf("%s: again at %v, want %v", name, got, c.retry)
			}
		}
		if n := strings.Count(said.String(), "level="); c.says == "" && n != 0 || c.says == "run failed" && n != 1 || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: it says\n%s", name, &said)
		}
		said.Reset()
		if comp.sayTrouble(nil); strings.Contains(said.String(), "trouble is over") != (c.says == "run failed") {
			t.Errorf("%s: afterwards it says %q", name, &said)
		}
	}
}

// A trouble that becomes another one is not said again, and what it was last is said
// to be over.
func TestTroubleChanges(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level][]string{
		slog.LevelInfo:  {"run failed", "trouble is over"},
		slog.LevelDebug: {"run failed", "run failed again", "trouble is over"},
	} {
		var said bytes.Buffer
		c := &component{log: logx.New(&said, level)}
		for _, trouble := range []error{errors.New("one"), errors.New("two"), errors.New("two"), nil, nil} {
			c.sayTrouble(trouble)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != len(want) || !strings.Contains(lines[len(lines)-1], "was=two") {
			t.Fatalf("it says\n%s", &said)
		}
		for i, line := range lines {
			if !strings.Contains(line, `msg="`+want[i]+`"`) {
				t.Errorf("it says %q, want %q", line, want[i])
			}
		}
	}
}

// deaf is a watcher that sees nothing by itself.
type deaf struct {
	stands chan struct{}
	probes chan struct{}
	probed chan string
	stats  watch.Stats
}

func (d *deaf) Stands() <-chan struct{} { return d.stands }
func (d *deaf) Probe() int              { d.probes <- struct{}{}; return 0 }
func (d *deaf) Probed() <-chan string   { return d.probed }
func (d *deaf) Stats() watch.Stats      { return d.stats }

// What hinders the watching stands in its heartbeat.
func TestWatchingNotes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stats   watch.Stats
		result  heartbeat.Result
		details string
	}{
		"well":     {watch.Stats{}, heartbeat.Success, "watches the inboxes for the injector, overflows: 0"},
		"overflow": {watch.Stats{Overflows: 2}, heartbeat.Success, "watches the inboxes for the injector, overflows: 2"},
		"refused":  {watch.Stats{Overflows: 2, Degraded: "looking instead"}, heartbeat.Partial, "looking instead"},
	} {
		h := newHome(t, "")
		ctx, stop := context.WithCancel(t.Context())
		w := &deaf{stands: make(chan struct{}), probes: make(chan struct{}), probed: make(chan string), stats: c.stats}
		done := make(chan error, 1)
		go func() { done <- beatWatcher(ctx, h, w) }()
		select { // until the watch stands, it sees no probe
		case w.stands <- struct{}{}:
		case <-w.probes:
			t.Errorf("%s: a probe came before the watch stood", name)
		}
		<-w.probes
		for _, dir := range []string{"a", "a", "b", "a"} { // the last is taken once it has beaten
			w.probed <- dir
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := heartbeat.Read(h.Dir, heartbeat.Watcher); err != nil || b.Result != c.result || b.Details != c.details {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}

// What a run comes to stands in its heartbeat, with what else is to be said.
func TestRunBeats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run     error
		board   bool   // there is one
		changed string // the otm.toml that came meanwhile
		stopped bool

		result  heartbeat.Result
		details string
	}{
		"well":         {board: true, result: heartbeat.Success, details: "Did 1 test, 0 failures"},
		"failed":       {board: true, run: errors.New("disk full"), result: heartbeat.Error, details: "disk full"},
		"no board":     {result: heartbeat.Error, details: "board"},
		"changed":      {board: true, changed: "[board]\n", result: heartbeat.Partial, details: "Did 1 test, 0 failures; otm.toml was changed since this process started"},
		"broken":       {board: true, changed: "[board\n", result: heartbeat.Partial, details: "nothing that starts now works, agents among it → edit "},
		"told to stop": {board: true, stopped: true},
	} {
		text := ""
		if c.board {
			text = "[slack]\nlist_id = \"F0123456789\"\ntoken_file = \"secrets/slack\"\n"
		}
		h := newHome(t, text)
		put(t, filepath.Join(h.Dir, "secrets", "slack"), "xoxb-1")
		ctx, stop := context.WithCancel(t.Context())
		comp := bareComponent(h, heartbeat.Detector)
		comp.run = func(context.Context, occasion, func()) (*heartbeat.Report, error) {
			if c.stopped {
				stop()
			}
			return &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Did", Noun: "test", N: 1}}}, c.run
		}
		if c.changed != "" {
			put(t, filepath.Join(h.Dir, config.FileName), c.changed)
		}
		_, err := comp.once(ctx, timely)
		if stop(); c.stopped != errors.Is(err, context.Canceled) || c.run != nil && !errors.Is(err, c.run) {
			t.Errorf("%s: error %v", name, err)
		}
		b, err := heartbeat.Read(h.Dir, heartbeat.Detector)
		if c.stopped {
			if b != nil && b.Result == heartbeat.Error {
				t.Errorf("%s: %+v: a stop is no failure", name, b)
			}
			continue
		}
		if err != nil || b.Result != c.result || !strings.Contains(b.Details, c.details) {
			t.Errorf("%s: %+v, %v, want %s: %s", name, b, err, c.result, c.details)
		}
	}
}

// TestC38OnceIsHarmless: the words of a board in the summary of a single run do not
// reach the terminal as they are.
func TestC38OnceIsHarmless(t *testing.T) {
	t.Parallel()
	h := newHome(t, "[slack]\nlist_id = \"F0123456789\"\ntoken_file = \"secrets/slack\"\n")
	put(t, filepath.Join(h.Dir, "secrets", "slack"), "xoxb-1")
	var out bytes.Buffer
	h.Out = &out
	c := bareComponent(h, heartbeat.Detector)
	c.run = func(context.Context, occasion, func()) (*heartbeat.Report, error) {
		return &heartbeat.Report{NeedsPerson: []explain.Finding{explain.New(explain.RunNote, "note", "column \x1b[2J\u202e is missing")}}, nil
	}
	if err := c.Once(t.Context()); err != nil || out.String() != "column \\x1b[2J\\u202e is missing\n" {
		t.Errorf("printed %q, %v", &out, err)
	}
}

// TestC52RateLimitIsNoSuccess: a run that waits for the rate limit is not done, and
// says so as data.
func TestC52RateLimitIsNoSuccess(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 3, 14, 9, 15, 2, 0, time.UTC)
	err := &pipeline.BoardError{Method: "slackLists.items.list", Code: "ratelimited", Until: until}
	r := heartbeat.Report{Trouble: err}
	found := r.Findings()
	if got := r.Result(); got != heartbeat.Partial || len(found) != 1 || found[0].Text(until) != "the rate limit of slackLists.items.list is reached until 2026-03-14T09:15:02Z" {
		t.Errorf("%s, %+v", got, found)
	}
	if got := (&heartbeat.Report{}).Result(); got != heartbeat.Success {
		t.Errorf("a run that did its work: %s", got)
	}
}

// TestC52InjectorWithoutWork: an injector that has nothing to do notices all the same
// that its token is refused.
func TestC52InjectorWithoutWork(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	put(t, filepath.Join(p.h.Dir, "secrets", "slack"), "xoxb-wrong")
	code, out := p.main("otm-injector", "--once")
	b, err := heartbeat.Read(p.h.Dir, heartbeat.Injector)
	if code != cli.Credentials || err != nil || b.Result != heartbeat.Error || len(b.Findings) != 1 || b.Findings[0].Code != explain.TokenRefused {
		t.Errorf("exit %d: %s\n%+v, %v", code, out, b, err)
	}
}

// Where the store knows what a person can do about the trouble of a run, otm status
// says that, and not to look into a log.
func TestStatusTellsWhatTheStoreKnows(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	comp := bareComponent(h, heartbeat.Detector)
	comp.run = func(context.Context, occasion, func()) (*heartbeat.Report, error) {
		return &heartbeat.Report{}, &store.Error{Err: errors.New("the file was replaced"), Hint: "restart otm up"}
	}
	if _, err := comp.once(t.Context(), hinted); err == nil {
		t.Error("the run did not fail")
	}
	for _, c := range view.Components(view.Sources{Dir: h.Dir, Now: h.Now()}) {
		if c.ID != heartbeat.Detector {
			continue
		}
		if c.Problem == nil || !strings.Contains(c.Problem.Text(h.Now()), "the file was replaced") || c.Problem.Next(h.Now()) != "restart otm up" {
			t.Errorf("the problem is %+v", c.Problem)
		}
	}
}
