package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/lock"
	"otm/pipeline"
)

// newExecWorld is a world in which alpha is started by a shell script, and beta looks by
// itself.
func newExecWorld(t *testing.T, script string, args ...string) *world {
	t.Helper()
	w := newWorld(t, "alpha", "beta")
	w.agents[1].Trigger = pipeline.TriggerNone
	path := filepath.Join(t.TempDir(), "agent.sh")
	w.write(path, []byte(script))
	w.agents[0].Trigger = pipeline.TriggerExec
	w.agents[0].Command = append([]string{"sh", path}, args...)
	w.byExec()
	return w
}

// byExec starts agents from now on.
func (w *world) byExec() *Exec {
	x := &Exec{Dir: w.dir, LogDir: filepath.Join(w.dir, "logs"), PathDir: "/opt/otm here", Secrets: []string{"SLACK_BOT_TOKEN", "MY_GATEWAY_TOKEN"}}
	w.d.Wakers[pipeline.TriggerExec] = x
	w.Cleanup(x.helpers.Wait) // they write into the directory until they end
	return x
}

// ended waits until no process of alpha's runs.
func (w *world) ended() {
	w.Helper()
	w.freed(execLock(w.dir, "alpha"))
}

// freed waits until nothing holds a lock.
func (w *world) freed(path string) {
	w.Helper()
	l, err := lock.Acquire(w.Context(), path, time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	l.Release()
}

// fifo makes a pipe in alpha's workspace. What is written into it comes out of
// the channel by the line; the channel is closed when the last writer is gone.
func (w *world) fifo(name string) <-chan string {
	w.Helper()
	path := filepath.Join(w.agent("alpha").Workspace, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		w.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// line is the next line; "" where the writers are gone.
func (w *world) line(lines <-chan string) string {
	w.Helper()
	select {
	case s := <-lines:
		return s
	case <-time.After(time.Minute):
		w.Fatal("nothing was written")
		return ""
	}
}

// release lets a script go on that reads from the pipe.
func (w *world) release(name string) {
	w.Helper()
	w.write(filepath.Join(w.agent("alpha").Workspace, name), []byte("go\n"))
}

func (w *world) found(name string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.agent("alpha").Workspace, name))
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

// The helper retries to note the end, but not once the data directory is deleted: nobody
// else would ever see it, and it would stay for a minute.
func TestEndIsNotedUnlessAllIsDeleted(t *testing.T) {
	t.Parallel()
	away := func(_, _ string) error { return nil }
	for name, tt := range map[string]struct {
		leave func(from, to string) error
		takes time.Duration
	}{
		"the directory is there":  {away, noteFor},
		"it was moved":            {os.Rename, noteFor},
		"only its files are gone": {func(from, _ string) error { return os.Remove(filepath.Join(from, "lock")) }, noteFor},
		"it is deleted":           {func(from, _ string) error { return os.RemoveAll(from) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &spec{Dir: filepath.Join(t.TempDir(), "data")}
			if err := os.Mkdir(s.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := lock.Acquire(t.Context(), filepath.Join(s.Dir, "lock"), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if err := tt.leave(s.Dir, s.Dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				noteEnd(t.Context(), func(context.Context, string, string) (core.Store, func() error, error) {
					tries++
					return nil, nil, fs.ErrNotExist
				}, s, core.EndStart{}, func() bool { return s.removed(l.File()) })
				if took := time.Since(began); took != tt.takes || tries == 0 {
					t.Errorf("the helper gave up after %v and %d tries, want %v", took, tries, tt.takes)
				}
			})
		})
	}
}

// B17, B26: what an agent is given, and what it is not.
func TestExecChild(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `
		for a in "$@"; do printf 'arg %s\n' "$a"; done > found
		{ echo "cwd $(pwd -P)"; echo "stdin $(cat)"; env; } >> found
		echo "to stdout"; echo "to stderr" >&2
		exit 3
	`, "{message}", "$(touch PWNED); `touch PWNED` '\"{agent}\" {task}", "{file}", "{dir}", "", "{nothing}", "*")
	w.d.MessageDir = `/Jo's "data"/$(touch PWNED)`
	id := w.create("$(touch PWNED) `touch PWNED`", "alpha", pipeline.Normal)
	want(t, "report", w.pass().Details(), "Dispatched 1 task, woke 1 agent, 0 failures")
	w.ended()
	workspace, err := filepath.EvalSymlinks(w.agent("alpha").Workspace)
	if err != nil {
		t.Fatal(err)
	}
	message := message("alpha", []pipeline.TaskID{id}, w.d.MessageDir)
	lines := strings.Split(strings.TrimSuffix(w.found("found"), "\n"), "\n")
	want(t, "arguments", strings.Join(lines[:7], "\n"), strings.Join([]string{
		"arg " + message, "arg $(touch PWNED); `touch PWNED` '\"alpha\" T-00001", "arg " + w.path("alpha"), "arg " + w.dir, "arg ", "arg {nothing}", "arg *",
	}, "\n"))
	for _, line := range []string{
		"cwd " + workspace, "stdin " + message, "OTM_DIR=" + w.dir, "OTM_AGENT=alpha", "OTM_TASK_ID=T-00001", "OTM_DISPATCH_FILE=" + w.path("alpha"),
		"PATH=/opt/otm here:" + os.Getenv("PATH"), "HARMLESS=kept",
	} {
		if !slices.Contains(lines, line) {
			t.Errorf("%q is not among\n%s", line, strings.Join(lines, "\n"))
		}
	}
	for _, s := range []string{"secret", "SLACK_BOT_TOKEN", "MY_GATEWAY_TOKEN", "OTM_LOG_DIR", "T-99999", victimEnv} {
		if strings.Contains(w.found("found"), s) {
			t.Errorf("it was given %s", s)
		}
	}
	for _, dir := range []string{".", w.dir, workspace, filepath.Dir(w.agents[0].Command[1])} {
		if _, err := os.Stat(filepath.Join(dir, "PWNED")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a shell was at work in %s", dir)
		}
	}
	wake := w.record(id).Wakes[0]
	want(t, "record", words(wake.Key, wake.Via, wake.Exit, !wake.Ended.IsZero(), !wake.Accepted.IsZero()), "otm-T-00001-alpha-1 exec exit status 3 true true")
	logs, err := filepath.Glob(filepath.Join(w.dir, "logs", "exec", "alpha", "*-otm-T-00001-alpha-1.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	data, err := os.ReadFile(logs[0])
	if err != nil || !strings.HasPrefix(string(data), "to stdout\nto stderr\n\n[") || !strings.HasSuffix(string(data), "] ended: exit status 3\n") {
		t.Errorf("log: %q, %v", data, err)
	}
	info, err := os.Stat(logs[0])
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("log: %v, %v", info, err)
	}
}

func TestExecEnvironWithoutPath(t *testing.T) {
	t.Parallel()
	x := &Exec{Dir: "/d", PathDir: "/otm"}
	for _, kv := range x.environ(Request{Agent: &pipeline.Agent{Name: "a"}}) {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok && slices.Contains(strings.Split(path, ":"), "") {
			t.Errorf("the workspace is in the path: %q", path)
		}
	}
}

// One process an agent: while it runs, nothing else is started, and its end is
// a reason to look again.
func TestExecOneProcess(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `[ -e again ] || { touch again; echo $$ > "$1"; }; read go < go; exit 0`, "up")
	up := w.fifo("up")
	if err := syscall.Mkfifo(filepath.Join(w.agent("alpha").Workspace, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.line(up)
	x := w.byExec()
	w.create("y", "alpha", pipeline.Critical)
	for range 2 {
		w.restart()
		x = w.byExec()
		want(t, "while it runs", w.pass().Woken, 0)
	}
	// Somebody who does not look gets to hear it from the helper.
	err := x.Wake(t.Context(), Request{Agent: w.agent("alpha"), Key: "other", Task: 2, Message: "m", File: w.path("alpha")})
	want(t, "a second wake", errors.Is(err, errBusy), true)
	// Nor is it woken in another way, if the configuration was changed.
	w.agents[0].Trigger = pipeline.TriggerGateway
	w.restart()
	want(t, "over the gateway", w.pass().Woken, 0)
	w.clock.Advance(pipeline.DefaultTimes.RewakeAfter)
	if given := w.pass().Given; len(given) != 1 || !strings.Contains(given[0], "runs and has taken nothing") {
		t.Errorf("a process that takes nothing is told of: %q", given)
	}
	w.agents[0].Trigger = pipeline.TriggerExec
	w.restart()
	w.byExec()
	w.release("go")
	w.ended()
	want(t, "exit", w.record(1).Wakes[0].Exit, "exit status 0")
	w.pass()
	want(t, "the next wake", words(len(w.record(1).Wakes), len(w.record(2).Wakes), w.record(2).Wakes[0].Tasks), "1 1 [T-00002 T-00001]")
	w.release("go")
	w.ended()
}

// B34: the dispatcher is killed while the agent works: the agent goes on, and is not
// started a second time.
func TestExecOutlivesDispatcher(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"wake.before:1", "wake.after:1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, `echo run >> runs; echo $$ > up; read go < go`)
			up := w.fifo("up")
			if err := syscall.Mkfifo(filepath.Join(w.agent("alpha").Workspace, "go"), 0o600); err != nil {
				t.Fatal(err)
			}
			id := w.create("x", "alpha", pipeline.Normal)
			o := w.order("pass")
			if !o.kill(t, at) {
				t.Fatal("the point was not reached")
			}
			if at == "wake.before:1" { // nothing was started yet
				want(t, "then", w.pass().Woken, 1)
			}
			w.line(up)
			want(t, "while it runs", w.pass().Woken, 0)
			want(t, "it takes", w.next("alpha"), id)
			w.release("go")
			w.ended()
			want(t, "after its end", w.pass().Woken, 0)
			want(t, "runs", w.found("runs"), "run\n")
			wakes := w.record(id).Wakes
			want(t, "record", words(len(wakes), wakes[0].Key, wakes[0].Exit), "1 otm-T-00001-alpha-1 exit status 0")
		})
	}
}

// Whoever started the helper died before it answered: the agent is none the
// worse for it.
func TestExecNobodyListens(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `sleep 0.05; echo done > found`)
	r, unheard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	input, err := json.Marshal(spec{
		Dir: w.dir, Agent: "alpha", Key: "k", Command: w.agents[0].Command, Workspace: w.agents[0].Workspace, LogDir: filepath.Join(w.dir, "logs"),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], HelperCommand)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), unheard
	if err := cmd.Run(); err != nil {
		t.Errorf("helper: %v", err)
	}
	unheard.Close()
	want(t, "found", w.found("found"), "done\n")
	if _, err := os.Stat(filepath.Join(w.dir, "helper-ended")); err != nil {
		t.Error("its end was not told")
	}
}

// What an agent leaves running, with its output open, does not keep its lock.
func TestExecGrandchild(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `sleep 1000 & echo $! > pid; echo bye`)
	w.create("x", "alpha", pipeline.Normal)
	want(t, "woken", w.pass().Woken, 1)
	w.ended()
	pid, err := strconv.Atoi(strings.TrimSpace(w.found("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("what it left running: %v", err)
	}
	want(t, "exit", w.record(1).Wakes[0].Exit, "exit status 0")
}

// What cannot be started is told of in words that help, and tried again under
// the same key. The history of its task does not grow with each pass: each refusal makes
// the pause longer. What is known to fail is not even tried.
func TestExecRefused(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		command []string
		change  func(w *world)
		tries   int // in 20 passes within 15 seconds
		want    string
	}{
		{"not found", []string{"no-such-program", "{message}"}, nil, 0,
			`the command of alpha cannot be started: "no-such-program" is not on PATH`},
		{"not there", []string{"/no/such/program"}, nil, 0,
			`the command of alpha cannot be started: there is no file /no/such/program`},
		{"not executable", []string{plain}, nil, 0,
			fmt.Sprintf(`the command of alpha cannot be started: %s is not executable`, plain)},
		{"in the workspace, not there", []string{"./run"}, nil, 0,
			`the command of alpha cannot be started: there is no file /`},
		{"no place for the log", []string{"true"}, func(w *world) { w.write(filepath.Join(w.dir, "logs"), nil) }, 2, `agent alpha: wake refused: no log: `},
		{"no helper", []string{"true"}, func(w *world) { w.byExec().helper = []string{"/no/such/helper"} }, 1, `agent alpha: fork/exec /no/such/helper: no such file or directory`},
		{"a helper without an answer", []string{"true"}, func(w *world) { w.byExec().helper = []string{"true"} }, 2, `agent alpha: wake refused: the helper ended without an answer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newExecWorld(t, "")
			w.agents[0].Command = c.command
			if c.change != nil {
				c.change(w)
			}
			id := w.create("x", "alpha", pipeline.Normal)
			for i := range 20 {
				r := w.pass()
				if len(r.Failed) != 1 || !strings.HasPrefix(r.Failed[0], c.want) {
					t.Errorf("failed: %q, want %q", r.Failed, c.want)
				}
				if i == 10 {
					w.clock.Advance(10 * time.Second)
				}
			}
			want(t, "tries", words(w.count(id, "WakeBegun"), w.count(id, "WakeFailed")), words(c.tries, c.tries))
			if logs, err := os.ReadDir(filepath.Join(w.dir, "logs", "exec", "alpha")); err == nil && len(logs) > 0 {
				t.Errorf("logs of nothing: %v", logs)
			}
			os.Remove(filepath.Join(w.dir, "logs"))
			w.byExec()
			w.agents[0].Command = []string{"true"}
			if slices.Equal(c.command, w.agents[0].Command) { // nothing that OTM sees has changed
				w.clock.Advance(retryWake)
				w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
			}
			want(t, "mended", w.pass().Woken, 1)
			w.ended()
			want(t, "wakes", words(len(w.record(id).Wakes), w.record(id).Wakes[0].Key), "1 otm-T-00001-alpha-1")
		})
	}
	for next, program := range map[string]string{"chmod +x " + plain: plain, "install it, then: otm resume a": "no-such-program"} {
		f := CommandProblem(&pipeline.Agent{Name: "a", Trigger: pipeline.TriggerExec, Command: []string{program}})
		want(t, "next step", f.Next(time.Time{}), next)
	}
	t.Run("workspace goes", func(t *testing.T) {
		t.Parallel()
		w := newExecWorld(t, "")
		x := w.byExec()
		a := *w.agent("alpha")
		a.Workspace = filepath.Join(t.TempDir(), "gone")
		err := x.Wake(t.Context(), Request{Agent: &a, Key: "k", Task: 1})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "stat "+a.Workspace+": no such file or directory") {
			t.Errorf("error: %v", err)
		}
	})
}

// An agent that ends at once and takes nothing is not started for ever. B106:
// that its process ended says nothing of its task.
func TestExecEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `echo run >> runs; kill -9 $$`)
	id := w.create("x", "alpha", pipeline.Normal)
	for _, want := range []struct {
		after time.Duration
		woken int
	}{{0, 1}, {time.Second, 0}, {10 * time.Second, 1}, {10 * time.Second, 0}, {time.Minute, 1}, {time.Minute, 0}, {25 * time.Minute, 0}, {5 * time.Minute, 1}, {29 * time.Minute, 0}, {time.Minute, 1}} {
		w.clock.Advance(want.after)
		if got := w.pass().Woken; got != want.woken {
			t.Errorf("%v later: woken %d, want %d", want.after, got, want.woken)
		}
		w.ended()
	}
	given := w.pass().Given
	if len(given) != 1 || !strings.HasPrefix(given[0], "alpha is left alone: 5 starts in a row ended without progress") || !strings.Contains(given[0], "killed by signal 9") {
		t.Errorf("given: %q", given)
	}
	wake := w.record(id).Wakes[0]
	want(t, "exit", words(wake.Exit, *wake.Code), "killed by signal 9 137")
	want(t, "status until it is started again", words(w.boardStatus(id), w.record(id).Queued()), "pending true")
	health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
	want(t, "health", words(health.Finding(w.clock.Now()).Code, health.Failures, *health.LastStart.Code, err), words(explain.AgentLeftAlone, 5, 137, nil))
	if _, err := os.Stat(health.LastStart.Log); err != nil {
		t.Errorf("log: %v", err)
	}
	// The pause belongs to the agent: another task changes nothing.
	w.create("y", "alpha", pipeline.Normal)
	want(t, "for another task", w.pass().Woken, 0)
	// A person says so, or mends the configuration: it is started at once.
	w.do(core.Command{By: core.ByPerson("robin"), Agent: "alpha", Do: core.ResumeAgent{}})
	want(t, "resumed", w.pass().Woken, 1)
	w.ended()
	want(t, "then", w.pass().Woken, 0)
	w.agents[0].Command = []string{"true"}
	want(t, "mended", w.pass().Woken, 1)
	w.ended()
}

// C3: a command that exits with 75 asks to be tried later. That counts as no
// failure, and the pauses grow to half an hour.
func TestC3TryLater(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `echo run >> runs; exit 75`)
	w.create("x", "alpha", pipeline.Normal)
	for n, pause := range []time.Duration{0, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		w.clock.Advance(pause - pause/4)
		if n > 0 {
			want(t, "before the pause is over", w.pass().Woken, 0)
		}
		w.clock.Advance(pause / 2)
		want(t, fmt.Sprint("start ", n+1), w.pass().Woken, 1)
		w.ended()
		w.pass()
		health, err := AgentHealth(context.Background(), w.store, w.dir, w.agent("alpha"))
		told := health.Finding(w.clock.Now())
		want(t, "health", words(told.Code, told.Condition().Kind == "rate limit", health.Failures, *health.LastStart.Code, err),
			words(map[bool]explain.Code{false: explain.AgentLater, true: explain.AgentLimited}[n >= 2], n >= 2, 0, 75, nil))
	}
}

// An agent that takes one task a run is started for each, without a pause.
func TestExecOneTaskARun(t *testing.T) {
	t.Parallel()
	w := newExecWorld(t, `exit 0`)
	for range 3 {
		w.create("x", "alpha", pipeline.Normal)
	}
	for n := range pipeline.TaskID(3) {
		want(t, "woken", w.pass().Woken, 1)
		want(t, "takes", w.next("alpha"), n+1) // as its process would
		w.ended()
		w.report(n+1, pipeline.AgentDone)
	}
	want(t, "woken for nothing", w.pass().Woken, 0)
}

func TestExecLogBounds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "exec", "a")
	for i := range maxExecLogs + 5 {
		l, err := openExecLog(dir, "k", minute(float64(i)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openExecLog(dir, "last", minute(1000))
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte("x"), maxExecLog/4-1)
	for range 10 {
		if n, err := l.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.End("the end")
	l.Close()
	if n, err := l.Write(chunk); n != len(chunk) || err != nil {
		t.Errorf("a log that cannot be written ends its agent: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "logs", len(entries), maxExecLogs+1)
	want(t, "the oldest", entries[0].Name(), "20260314T150600.000Z-k.log")
	data, err := os.ReadFile(filepath.Join(dir, entries[maxExecLogs-1].Name()))
	if err != nil || !strings.HasSuffix(string(data), "x\n[the rest is not kept: more than 1048576 bytes]\n\nthe end\n") || len(data) > maxExecLog+200 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestHelperWithoutOrder(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", "nonsense"} {
		cmd := exec.Command(os.Args[0], HelperCommand)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.Output()
		if err == nil || !strings.HasPrefix(string(out), "the helper got no order: ") {
			t.Errorf("%q: %q, %v", input, out, err)
		}
	}
}

// A helper that does not answer in time may have started the agent.
func TestExecHelperSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.agents[0].Command = []string{"true"}
	x := &Exec{Dir: w.dir, LogDir: t.TempDir(), helper: []string{"sh", "-c", "read -r order; exec sleep 1"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := x.Wake(ctx, Request{Agent: w.agent("alpha"), Key: "k", Task: 1, Message: "m", File: w.path("alpha")})
	want(t, "lost", errors.Is(err, ErrLost), true)
	x.helpers.Wait()
}

// An agent that turns out to be busy when it is to be woken is no failure: it is
// looked at again.
func TestBusyIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	w.create("x", "alpha", pipeline.Normal)
	w.waker.set(func(Request) error { return errBusy })
	r := w.pass()
	want(t, "failed", words(len(r.Failed), r.Woken), "0 0")
	w.waker.set(nil)
	w.clock.Advance(retryWake)
	want(t, "woken", w.pass().Woken, 1)
	want(t, "under the unused key", w.waker.keys(), "otm-T-00001-alpha-1")
}
