package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/dispatch/gateway/gatewaytest"
	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/fsck"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// life is a directory in which a task is led through its whole life, by the
// real components, on a board and with an agent and a disk that may fail, and
// by a clock of its own.
type life struct {
	*testing.T
	root  string
	h     *Home
	b     *boardtest.Board
	g     *gatewaytest.Gateway // nil: the agent is not woken over one
	disk  *disk
	id    pipeline.TaskID
	ahead atomic.Int64 // of the clock, in nanoseconds
	all   []*component
	board pipeline.Board
	fifo  *os.File // what a started agent waits for; nil: none is started

	step    time.Duration // from round to round of the components
	each    func()        // happens before each round of the components; nil: nothing does
	mayFail bool          // our own files may: commands are run again until they do not
	unseen  atomic.Int64  // until when the board does not show what it did, by the clock; 0: it does
	show    atomic.Pointer[func()]
}

// diskTries is how often something of ours is done again, where it may fail.
const diskTries = 12

// unseenFor is for how long what the board did may not be shown, and
// settleAfter how long the components wait for it.
const (
	unseenFor   = 20 * time.Second
	settleAfter = "25s"
)

// newLife begins a life in which devdas is woken in a way.
func newLife(t *testing.T, way pipeline.Trigger) *life {
	t.Helper()
	l := &life{T: t, root: t.TempDir(), step: 5 * time.Second}
	l.b = boardtest.Start(t, func(o *boardtest.Options) { o.Now = l.now })
	assignee := l.b.Column(t, "Assignee", "select")
	if err := l.b.Server.AddOption("", l.b.ListID, assignee, "devdas", "devdas"); err != nil {
		t.Fatal(err)
	}
	dir, ws := filepath.Join(l.root, "data"), filepath.Join(l.root, "devdas")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\nbudget = 0.0\n[times]\nsettle_after = %q\n[agents.devdas]\nworkspace = %q\ntrigger = %q\n",
		l.b.ListID, l.b.URL, settleAfter, ws, way)
	put(t, filepath.Join(dir, "secrets", "slack"), l.b.Token+"\n")
	switch way {
	case pipeline.TriggerGateway:
		l.g = gatewaytest.Start(t, gatewaytest.Profiles()[0], func(o *gatewaytest.Options) {
			o.Agents, o.HandshakeLimit = []gatewaytest.Agent{{ID: "devdas"}}, time.Minute
		})
		put(t, filepath.Join(dir, "secrets", "gateway"), l.g.Token()+"\n")
		config += fmt.Sprintf("[gateway]\nurl = %q\ntoken_file = \"secrets/gateway\"\n", l.g.URL())
	case pipeline.TriggerExec:
		config += "command = [\"sh\", \"-c\", \"echo $OTM_TASK_ID >> ../runs; read x < ../fifo\"]\n"
		l.makeFIFO()
	}
	l.h = reopenHome(t, dir, config)
	l.h.Now, l.h.waitOthers = l.now, time.Millisecond // nobody else runs: leases are of who failed
	l.start()
	l.Cleanup(l.end)
	l.disk = diskAt(t, l.root)
	return l
}

func (l *life) now() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }

// start is a new process of each component. What was opened is closed, as a process
// that ends does.
func (l *life) start() {
	for _, c := range l.all {
		c.stop()
	}
	l.h.Close() // where it fails, its writer has gone with it
	log := slog.New(slog.DiscardHandler)
	l.board = l.h.board(log)
	l.all = nil
	for _, k := range kinds {
		l.retry(func() error {
			c, err := newComponent(l.Context(), l.h, l.board, log, k, DefaultEvery, k.stays)
			if err == nil {
				l.all = append(l.all, c)
			}
			return err
		})
	}
}

// end stops what start has begun.
func (l *life) end() {
	for _, c := range l.all {
		c.stop()
	}
	l.h.Close()
}

// retry does something of ours, again while our own files may fail.
func (l *life) retry(do func() error) {
	l.Helper()
	err := do()
	for tries := 0; err != nil && l.mayFail && tries < diskTries; tries++ {
		err = do() // the step that failed was one of ours
	}
	if err != nil {
		l.Fatal(err)
	}
}

// until runs the components every few seconds until something is so. What they
// fail with is nothing to give up for.
func (l *life) until(what string, ok func() bool) {
	l.Helper()
	for n := range 250 {
		if ok() {
			return
		}
		if l.each != nil {
			l.each()
		}
		for _, c := range l.all {
			if err := l.once(c); err != nil && !l.mayFail && !errors.Is(err, context.Canceled) {
				l.Fatalf("%s: %v", c.id, err)
			}
		}
		l.pass(l.step)
		if n%7 == 6 {
			l.start()
		}
	}
	t, _ := json.MarshalIndent(l.task(), "", " ")
	l.Fatalf("waited in vain until %s: %s\npending: %+v", what, t, l.pending())
}

// once makes one run of a component. Where its agent was started and the answer
// is lost, the component dies with it.
func (l *life) once(c *component) error {
	ctx, die := context.WithCancel(l.Context())
	defer die()
	if l.fifo != nil && c.id == heartbeat.Dispatcher {
		go l.dieOnceStarted(ctx, die)
	}
	_, err := c.once(ctx, timely)
	if errors.Is(err, context.Canceled) {
		l.start()
	}
	return err
}

// pass lets time go by.
func (l *life) pass(d time.Duration) {
	l.ahead.Add(int64(d))
	if until := l.unseen.Load(); until != 0 && l.ahead.Load() >= until {
		l.unseen.Store(0)
		(*l.show.Load())()
	}
}

// hide keeps from now on for a while what the board did; show ends it.
func (l *life) hide(show func()) {
	l.show.Store(&show)
	l.unseen.Store(l.ahead.Load() + int64(unseenFor))
}

// task is the task as the store has it; an empty one if it has none.
func (l *life) task() *core.Task {
	l.Helper()
	t := &core.Task{}
	l.fromStore(func(s *store.Store) error {
		tasks, err := s.Tasks(l.Context(), core.Filter{IDs: []pipeline.TaskID{l.id}})
		if err == nil && len(tasks) > 0 {
			t = tasks[0]
		}
		return err
	})
	return t
}

// pending are the effects that are not delivered.
func (l *life) pending() (pending []core.Pending) {
	l.Helper()
	l.fromStore(func(s *store.Store) (err error) {
		pending, err = s.Pending(l.Context(), "")
		return err
	})
	return pending
}

// fromStore reads from the store.
func (l *life) fromStore(read func(*store.Store) error) {
	l.Helper()
	l.retry(func() error {
		s, err := l.h.OpenStore(l.Context())
		if err != nil {
			return err
		}
		return read(s)
	})
}

func (l *life) is(s pipeline.Status) func() bool {
	return func() bool { return l.task().Status == s }
}

// run runs one of the small commands, again where it says that it failed, and
// returns what it printed.
func (l *life) run(name string, args ...string) string {
	l.Helper()
	args = append([]string{"--dir", l.h.Dir}, args...)
	for range diskTries {
		var out, errs bytes.Buffer
		s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
		code := cli.Run(l.Context(), commandNamed(name, s, args), args, s, Explain)
		switch {
		case code == cli.OK:
			return strings.TrimSpace(out.String())
		case !l.mayFail || !strings.Contains(errs.String(), "otm: error: "):
			l.Fatalf("%s %q: exit %d: %s", name, args, code, errs.String())
		}
	}
	l.Fatalf("%s %q fails for ever", name, args)
	return ""
}

// take takes the task as its agent does.
func (l *life) take() {
	l.Helper()
	for range diskTries {
		err := takeNext(l.Context(), l.h, l.h.Config.Agents.Named("devdas"), false)
		if err != nil && !l.mayFail {
			l.Fatal(err)
		}
		if err == nil && l.task().Taken() {
			l.renameReports()
			l.endAgent()
			return
		}
	}
	l.Fatal("nothing was taken")
}

// renameReports gives what otm next dropped a name of the real time, as what
// otm-update drops has: they apply in the order of their names.
func (l *life) renameReports() {
	l.Helper()
	dir := l.h.Box.Dir(inbox.TaskUpdates)
	for _, name := range l.names(inbox.TaskUpdates) {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, inbox.NewName(time.Now(), pipeline.DropIDInName(name)))); err != nil {
			l.Fatal(err)
		}
	}
}

// person edits the row, and a step of it.
func (l *life) person(status pipeline.Status, reopen bool) {
	l.Helper()
	rec, column := l.task(), l.b.Column(l, "Status", "select")
	edit := func(row string, cells ...boardtest.Cell) {
		if err := l.b.Server.EditRow("U0ALICE", l.b.ListID, row, cells...); err != nil {
			l.Fatal(err)
		}
	}
	edit(rec.RowID, boardtest.SelectCell(column, string(status)))
	if reopen {
		edit(rec.Steps[2].RowID, boardtest.SelectCell(column, "new"), boardtest.CheckboxCell(l.b.Column(l, "Completed", "todo_completed"), false))
	}
}

// live leads a task through its life: dropped, dispatched, taken, reported on,
// promoted, sent back, done once more and approved.
func (l *life) live() {
	l.Helper()
	l.start() // the first one made the store
	printed := l.run("otm-create", "--key", "k", "--title", "Build it", "--agent", "devdas", "--subtask", "a", "--subtask", "b", "--subtask", "a")
	id, err := pipeline.ParseTaskID(printed)
	if err != nil {
		l.Fatal(err)
	}
	l.id = id
	l.until("it is dispatched", l.handedOut(1))
	l.take()
	l.update("--subtask-done", "1")
	l.update("--status", "blocked", "--reason", "no key")
	l.update("--status", "in_progress")
	l.update("--subtask-done", "2", "--subtask-done", "3", "--result", "made")
	l.until("it is promoted", l.is(pipeline.AgentDone))
	l.settled()
	l.person(pipeline.New, true)
	l.until("it is dispatched again", l.handedOut(2))
	l.take()
	l.update("--subtask-done", "3", "--result", "made well")
	l.until("it is promoted again", l.is(pipeline.AgentDone))
	l.settled()
	l.person(pipeline.Done, false)
	l.until("it is done", l.is(pipeline.Done))
	l.settled()
}

func (l *life) update(args ...string) {
	l.Helper()
	l.run("otm-update", append([]string{"--task-id", l.id.String()}, args...)...)
}

// handedOut reports whether the nth dispatch is made, and its agent woken.
func (l *life) handedOut(nth int) func() bool {
	return func() bool {
		d := l.task().Dispatch
		return d != nil && d.Attempt == nth && !d.FlippedAt.IsZero() && d.TakenAt.IsZero() && l.woken() >= nth
	}
}

// woken is how often the agent was woken; where it is not, that was enough.
func (l *life) woken() int {
	switch {
	case l.g != nil:
		return len(l.g.Runs())
	case l.fifo != nil:
		data, _ := os.ReadFile(filepath.Join(l.root, "runs"))
		return bytes.Count(data, []byte("\n"))
	}
	return 2
}

// settled waits until the inboxes are empty, and nothing is half done.
func (l *life) settled() {
	l.Helper()
	l.until("all is settled", func() bool {
		return len(l.pending()) == 0 && len(l.names(inbox.NewTasks))+len(l.names(inbox.TaskUpdates)) == 0
	})
}

// names are those of the drops in an inbox.
func (l *life) names(kind inbox.Kind) []string {
	l.Helper()
	defer l.disk.rest()()
	files, err := l.h.Box.List(kind)
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// check holds what has come of it against what must be: one row, all steps once
// and in order, each update once, one dispatch and one wake an attempt.
func (l *life) check() {
	l.Helper()
	defer l.disk.rest()()
	rec := l.task()
	var steps []string
	for _, s := range rec.Steps {
		steps = append(steps, s.Title)
	}
	if got := strings.Join(steps, " "); got != "a b a" {
		l.Errorf("steps %q", got)
	}
	if rec.Attempt != 2 || rec.Result != "made well" || l.woken() != 2 {
		l.Errorf("attempt %d, result %q, woken %d times", rec.Attempt, rec.Result, l.woken())
	}
	failed, _ := filepath.Glob(filepath.Join(l.h.Dir, "failed", "*.json"))
	for _, path := range failed {
		data, _ := os.ReadFile(path)
		l.Errorf("a drop failed: %s", data)
	}
	l.checkUpdates()
	l.fsck(4)
}

// checkUpdates holds the updates that were settled against those that were
// applied. Where a command may fail once it has dropped its own, and is run again,
// there may be more.
func (l *life) checkUpdates() {
	l.Helper()
	settled := map[string]bool{}
	names, err := l.h.Box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		l.Fatal(err)
	}
	for _, name := range names {
		if s, err := l.h.Box.ReadSettled(inbox.ProcessedDir, name); err != nil {
			l.Error(err)
		} else if s.Result.Inbox == inbox.TaskUpdates {
			settled[name] = true
		}
	}
	var applied []string
	for _, e := range l.events() {
		if n, is := e.Data.(core.Noted); is {
			applied = append(applied, n.Drop)
		}
	}
	for _, drop := range applied {
		if !settled[drop] {
			l.Errorf("%s was applied twice, or is not settled", drop)
		}
		delete(settled, drop)
	}
	if len(settled) > 0 {
		l.Errorf("settled and not applied: %v", settled)
	}
	if n := len(applied); n < 5 || n != 5 && !l.mayFail {
		l.Errorf("%d updates: %v", n, applied)
	}
}

// events is what happened to the task.
func (l *life) events() (events []core.Event) {
	l.Helper()
	l.fromStore(func(s *store.Store) (err error) {
		events, err = s.Events(l.Context(), core.EventFilter{Task: l.id, Archived: true})
		return err
	})
	return events
}

// fsck holds everything against what must always be true, with so many rows on
// the board.
func (l *life) fsck(rows int) {
	l.Helper()
	for range 10 { // a fault may be left, and what was done last may not be seen yet
		err := walk(l.Context(), l.h)
		if snap, unread := l.h.snapshot(); err == nil && unread == nil && len(snap.Rows) == rows {
			break
		}
		l.pass(5 * time.Second)
	}
	snap, err := l.h.snapshot()
	if err != nil || len(snap.Rows) != rows {
		l.Fatalf("%d rows on the board, want %d; %v", len(snap.Rows), rows, err)
	}
	l.fromStore(func(s *store.Store) error {
		findings, err := fsck.Check(l.Context(), fsck.Options{Dir: l.h.Dir, Store: s, Agents: l.h.Config.Agents, Rows: snap.Rows, Now: l.h.Now(), Quiet: true})
		if len(findings) > 0 {
			l.Errorf("fsck: %+v", findings)
		}
		return err
	})
}

// archive takes it off the board.
func (l *life) archive() {
	l.Helper()
	var a *archiver
	l.retry(func() error {
		e, err := newEngine(l.Context(), l.h, "otm", l.board, slog.New(slog.DiscardHandler))
		a = &archiver{home: l.h, engine: e, age: -time.Hour}
		return err
	})
	for range 10 {
		if report, err := a.run(l.Context(), true); err == nil && report.Left == 0 && report.Room.Rows == 0 {
			break
		}
		l.pass(5 * time.Second)
	}
	defer l.disk.rest()()
	entries := 0
	for _, e := range l.events() {
		if a, is := e.Data.(core.Archived); is {
			if entries++; len(a.Steps) != 3 || e.Task != l.id {
				l.Errorf("archived: %+v", e)
			}
		}
	}
	if entries != 1 {
		l.Errorf("%d entries in the history", entries)
	}
	l.fsck(0)
}

// makeFIFO makes what a started agent waits for, and sees to it that none is
// left at the end.
func (l *life) makeFIFO() {
	l.Helper()
	path := filepath.Join(l.root, "fifo")
	err := syscall.Mkfifo(path, 0o600)
	if err == nil {
		l.fifo, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		io.WriteString(l.fifo, "\n\n\n\n")
		held, err := lock.Acquire(context.Background(), l.h.lockPath("exec-devdas"), time.Minute)
		if err != nil {
			l.Errorf("an agent is left: %v", err)
		} else {
			held.Release()
		}
		l.fifo.Close()
	})
}

// endAgent lets a started agent end.
func (l *life) endAgent() {
	if l.fifo != nil {
		io.WriteString(l.fifo, "\n")
	}
}

// dieOnceStarted calls die when the agent has been started by a helper that does
// not say so.
func (l *life) dieOnceStarted(ctx context.Context, die func()) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	before := l.woken()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := os.Stat(filepath.Join(l.root, muteFile)); err == nil && l.woken() > before {
			os.Remove(filepath.Join(l.root, muteFile))
			die()
			return
		}
	}
}

// TestLostAnswersThroughALife lets each call to the outside fail in each way, at
// each of its places in a task's life: not applied; applied and its answer lost;
// applied, lost, and not visible for 20 s; then it heals, or fails again in
// another way. OTM_TEST_WHOLE=1 takes all of them, each in a life of its own; else
// there is one of each call and way to fail, and one part of these is taken.
func TestLostAnswersThroughALife(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	plain := map[pipeline.Trigger]*life{}
	for _, way := range []pipeline.Trigger{pipeline.TriggerNone, pipeline.TriggerExec, pipeline.TriggerGateway} {
		l := newLife(t, way)
		l.live()
		l.check()
		l.archive()
		plain[way] = l
	}
	lives, all := lostCases(t, plain, crashtest.Whole())
	lives = crashtest.Part(t, lives)
	for _, cases := range lives {
		t.Run(fmt.Sprint(cases[0]), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, cases[0].call.trigger())
			for _, c := range cases {
				t.Log(c)
				c.fault.set(l, c.nth, c.again)
			}
			l.live()
			l.check()
			l.archive()
			for _, c := range cases {
				if made := c.call.made(l); made <= c.nth {
					t.Errorf("%d calls were made: the one that was to fail did not come: %s", made, c)
				}
			}
		})
	}
	t.Logf("%d lives; %d cases in all", len(lives), all)
}
