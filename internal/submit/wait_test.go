package submit

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/config"
	"otm/internal/lock"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// settling has somebody settle everything that comes into an inbox, until the
// test ends.
func settling(t *testing.T, p *place, kind inbox.Kind, result inbox.Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		box := inbox.Open(p.dir)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			files, err := box.List(kind)
			if err != nil {
				t.Error(err)
			}
			for _, f := range files {
				data, f, err := box.Read(f)
				if err != nil {
					t.Error(err)
				}
				d := &inbox.Settling{File: f, Data: data, Result: result}
				if box.Settle(d); d.Err != nil {
					t.Error(d.Err)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

const long = "--wait-for=60s" // bounds how late a failure is told

func TestWaitHandled(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	settling(t, p, inbox.NewTasks, inbox.Result{At: time.Now()})
	if got := p.create("--title", "x <&> \u2028", "--agent", "devdas", "--wait", long).ok(t); got != "T-00001\n" {
		t.Errorf("stdout %q", got)
	}
	p.in = "{\"title\":\"a\"}\n{\"title\":\"b\"}\n"
	if got := p.create("--from", "-", "--agent", "devdas", long).ok(t); got != "T-00002\nT-00003\n" {
		t.Errorf("stdout %q", got)
	}
	settling(t, p, inbox.TaskUpdates, inbox.Result{At: time.Now(), SkippedDuplicate: true})
	if got := p.update("--task-id", "1", "--status", "in_progress", long).ok(t); got != "T-00001\n" {
		t.Errorf("stdout %q", got)
	}
}

func TestWaitFailed(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	settling(t, p, inbox.NewTasks, inbox.Result{At: time.Now(), Class: inbox.Conflict, Error: "T-00001 is another task: \x1b[2J", Hint: "otm retry --new-id"})
	a := p.create("--title", "x", "--agent", "devdas", long)
	if a.code != 1 || a.stdout != "T-00001\n" || a.stderr != "otm: error: T-00001: T-00001 is another task: \\x1b[2J\notm: hint: otm retry --new-id\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
}

func TestWaitQueued(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	for _, wait := range []string{"--wait-for=0s", "--wait-for=20ms", "--wait-for=-1s"} {
		a := p.create("--title", "x", "--agent", "devdas", wait)
		id := strings.TrimSpace(a.stdout)
		if a.code != 75 || a.stderr != "otm: note: "+id+" is queued; do not create it again\notm: note: that is no failure (exit 75): the injector brings it in as soon as it runs\notm: hint: otm why "+id+"\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", wait, a.code, a.stdout, a.stderr)
		}
	}
	p.in = "{\"title\":\"a\"}\n{\"title\":\"b\"}\n"
	if a := p.create("--from", "-", "--agent", "devdas", "--wait-for=0s"); a.code != 75 || strings.Count(a.stderr, "is queued") != 2 || !strings.HasSuffix(a.stderr, "otm: hint: otm why --all\n") {
		t.Errorf("several: exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
	a := p.update("--task-id", "1", "--status", "in_progress", "--wait-for", "0s")
	if a.code != 75 || a.stdout != "T-00001\n" || a.stderr != "otm: note: the update of T-00001 is queued; do not send it again\notm: note: that is no failure (exit 75): the injector brings it in as soon as it runs\notm: hint: otm why T-00001\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
}

// TestWaitInterrupted ends the waiting from outside: the drop stands, and
// whoever called must not make it once more.
func TestWaitInterrupted(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.ctx = ctx
	p.out = writer(func(data []byte) {
		if string(data) != "T-00001\n" {
			t.Errorf("stdout %q", data)
		}
		cancel() // it waits from here on
	})
	a := p.create("--title", "x", "--agent", "devdas", long)
	if a.code != 75 || a.stderr != "otm: note: T-00001 is queued; do not create it again\notm: note: that is no failure (exit 75): the injector brings it in as soon as it runs\notm: hint: otm why T-00001\n" {
		t.Errorf("exit code %d, stderr %q", a.code, a.stderr)
	}
}

// TestWaitInterruptedBySignal is TestWaitInterrupted for a process.
func TestWaitInterruptedBySignal(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.Command(os.Args[0], "--title", "x", "--agent", "devdas", long)
		cmd.Env = append(os.Environ(), as+"=create", "OTM_DIR="+p.dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			t.Error(err)
		}
		cmd.Process.Signal(signal) // it waits, or is about to
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 75 || !strings.Contains(stderr.String(), "do not create it again") {
			t.Errorf("%v: exit code %d, stderr %q", signal, code, stderr.String())
		}
	}
}

type writer func([]byte)

func (w writer) Write(data []byte) (int, error) {
	w(data)
	return len(data), nil
}

// TestWaitWithAKey waits for what an earlier call dropped.
func TestWaitWithAKey(t *testing.T) {
	t.Parallel()
	p := initialised(t)
	args := []string{"--title", "x", "--agent", "devdas", "--key", "k"}
	p.create(args...).ok(t)
	a := p.create(append(args, "--wait-for", "0s")...)
	if a.code != 75 || a.stdout != "T-00001\n" || !strings.Contains(a.stderr, "is queued") {
		t.Errorf("still queued: exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
	box := inbox.Open(p.dir)
	files, err := box.List(inbox.NewTasks)
	if err != nil {
		t.Fatal(err)
	}
	data, f, err := box.Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	d := &inbox.Settling{File: f, Data: data, Result: inbox.Result{Class: inbox.Rejected, Error: "full"}}
	if box.Settle(d); d.Err != nil {
		t.Fatal(d.Err)
	}
	if a := p.create(append(args, "--wait-for", "0s")...); a.code != 1 || !strings.Contains(a.stderr, "T-00001: full") {
		t.Errorf("failed: exit code %d, stderr %q", a.code, a.stderr)
	}
	if err := os.Remove(p.dir + "/failed/" + f.Name); err != nil {
		t.Fatal(err)
	}
	if got := p.create(append(args, "--wait-for", "0s")...).ok(t); got != "T-00001\n" {
		t.Errorf("cleared away since: stdout %q", got)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		code int
		hint string
	}{
		{config.ErrNotInitialised, 10, "otm init"},
		{&config.DirError{Dir: "/d", Reason: "r", Hint: "do it"}, 78, "do it"},
		{&config.Error{Path: "/a b/otm.toml", Problems: []string{"p"}}, 78, "edit '/a b/otm.toml'"},
		{&lock.HeldError{Path: "/l", PID: 4242}, 75, "ps -p 4242"},
		{&lock.UnsupportedError{Path: "/l", Err: syscall.ENOLCK}, 1, "put the data directory on a local disk"},
		{&lock.HeldError{Path: "/l"}, 75, "otm doctor"},
		{&lock.HeldError{Path: "/l", PID: 4242, Holders: 37, Waited: 10 * time.Second}, 75, "run it again in a moment"}, // C17
		{counter.ErrIDsUsedUp, 1, "otm init --dir"},
		{&fs.PathError{Op: "open", Path: "/usr/a b/c", Err: syscall.EACCES}, 1, "ls -ld /usr "},
		{&os.LinkError{Op: "rename", Old: "/x", New: "/usr", Err: syscall.EPERM}, 1, "ls -ld /usr "},
		{&fs.PathError{Op: "open", Path: "/usr", Err: syscall.EROFS}, 1, "df /usr "},
		{&fs.PathError{Op: "write", Path: "/usr", Err: syscall.ENOSPC}, 1, "df -h /usr;"},
		{&fs.PathError{Op: "open", Path: "/usr", Err: syscall.EMFILE}, 1, "ulimit -n"},
		{&counter.DamagedKeyError{Path: "/a b/keys/x.json"}, 1, "rm '/a b/keys/x.json'"},
	} {
		e := Explain(tt.err)
		if e == nil || e.Code != tt.code || !errors.Is(e, tt.err) {
			t.Errorf("Explain(%v) = %+v, want code %d", tt.err, e, tt.code)
			continue
		}
		if hints := strings.Join(e.Hints, " "); !strings.Contains(hints, tt.hint) {
			t.Errorf("Explain(%v) hints %q, want %q", tt.err, hints, tt.hint)
		}
	}
	if e := Explain(fs.ErrPermission); e != nil {
		t.Errorf("Explain of any error = %+v, want nil", e)
	}
}
