package inject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Whatever stands in an inbox finds its place, with a reason, and what is good
// goes on.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.create(9, "Good")
	task := func(edit func(string) string) string {
		return edit(string(w.drop("devdas", 1, "A").Encode()))
	}
	files := map[string]struct {
		content string
		reason  string
		result  string // beside or inside
	}{
		"empty.json":    {"", "file is empty", "empty.error.json"},
		"half.json":     {`{"taskId":"T-00001","ti`, "cut off", "beside"},
		"array.json":    {`[{"taskId":"T-00001"}]`, "JSON that is no object", "beside"},
		"utf16.json":    {"\xff\xfe{\x00", "UTF-16", "beside"},
		"nul.json":      {"\x00\x00\x00\x00", "not JSON", "beside"},
		"fence.json":    {"```json\n{}\n```", "not JSON", "beside"},
		"deep.json":     {`{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "not JSON", "beside"},
		"large.json":    {`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "larger than", "beside"},
		"twice.json":    {`{"taskId":"T-00001","title":"a","title":"b","agent":"devdas"}`, `key "title" stands twice`, "beside"}, // B23
		"cases.json":    {`{"taskId":"T-00001","title":"a","Title":"b","agent":"devdas"}`, "differ only in case", "beside"},
		"notask.json":   {`{"title":"a","agent":"devdas"}`, "taskId is missing", "inside"},
		"badid.json":    {`{"taskId":"35","title":"a","agent":"devdas"}`, "taskId", "inside"},
		"agent.json":    {`{"taskId":"T-00001","title":"a","agent":"../x"}`, "no name for an agent", "inside"},
		"types.json":    {`{"taskId":"T-00001","title":7,"agent":"devdas"}`, "title must be a string", "inside"},
		"type.json":     {`{"taskId":"T-00001","title":"a","agent":"devdas","type":"bugfix"}`, "a table [types.bugfix] of otm.toml makes one", "inside"},
		"a;touch.json":  {`{"taskId":"T-00001"}`, "title is missing", "inside"}, // B17
		"$(id) 'x.json": {`{"taskId":"T-00001"}`, "title is missing", "inside"},
		"new\nline.json": {task(func(s string) string { return strings.Replace(s, "review", "nonsense", 1) }),
			"type is \"nonsense\"", "inside"},
	}
	for name, f := range files {
		w.put(inbox.NewTasks, name, []byte(f.content))
		w.age(inbox.NewTasks, name, time.Minute)
	}
	ignored := []string{".x.json.swp", "x.json~", ".#x.json", "4913", ".DS_Store", "x.json.tmp", "x.json.part", "._x.json"} // B11
	for _, name := range ignored {
		if err := os.WriteFile(filepath.Join(w.box.Dir(inbox.NewTasks), name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := w.box.Dir(inbox.NewTasks)
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "dir.json"), 0o700),
		os.WriteFile(filepath.Join(dir, "dir.json", "in it.json"), []byte("{"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link.json")),
	); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, len(files)+3, 0)
	w.checkTask(9, "Good", pipeline.DefaultStep)
	if r := w.processed(good); r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
	for name, f := range files {
		w.failed(name, inbox.Invalid, f.reason)
		if f.result != "inside" {
			if got, err := os.ReadFile(filepath.Join(w.dir, "failed", name)); err != nil || string(got) != f.content {
				t.Errorf("%q did not settle byte for byte: %v", name, err)
			}
		}
	}
	for name, reason := range map[string]string{"dir.json": "a directory", "fifo.json": "a named pipe", "link.json": "a symbolic link"} {
		w.failed(name, inbox.Invalid, reason)
	}
	if !exists(t, filepath.Join(w.dir, "failed", "dir.json", "in it.json")) {
		t.Error("the directory lost what was in it")
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	slices.Sort(ignored)
	if !slices.Equal(names, ignored) {
		t.Errorf("inbox holds %q, want %q", names, ignored)
	}
	if n := len(w.rows()); n != 2 {
		t.Errorf("%d rows", n)
	}
	w.failed("notask.json", inbox.Invalid, "otm-create --from -")
}

// TestCaseB4HalfWritten leaves a foreign file alone while it is being written,
// and a BOM is no reason to refuse it (B22).
func TestCaseB4HalfWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := append([]byte("\xef\xbb\xbf"), w.drop("devdas", 1, "A").Encode()...)
	path := filepath.Join(w.box.Dir(inbox.NewTasks), "slow.json")
	w.put(inbox.NewTasks, "slow.json", whole[:10])
	w.age(inbox.NewTasks, "slow.json", 0)
	r := w.sweepTo(0, 0, 1)
	if r.Due.Before(w.clock.Now()) || r.Due.After(w.clock.Now().Add(w.times.ParseableAge+time.Second)) {
		t.Errorf("due %v", r.Due)
	}
	if err := os.WriteFile(path, whole[:50], 0o600); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(3 * time.Second)
	w.age(inbox.NewTasks, "slow.json", time.Second)
	w.sweepTo(0, 0, 1)
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	w.sweepTo(1, 0, 0)
	w.checkTask(1, "A", pipeline.DefaultStep)
	if got := w.processed("slow.json").Attempts; got != 3 {
		t.Errorf("%d attempts", got)
	}
	// One that stays so is judged, and one that says it is from the future is not waited for.
	w.put(inbox.NewTasks, "never.json", whole[:10])
	w.put(inbox.NewTasks, "future.json", whole[:10])
	w.age(inbox.NewTasks, "never.json", 0)
	w.age(inbox.NewTasks, "future.json", -time.Hour)
	w.sweepTo(0, 1, 1)
	w.clock.Advance(w.times.ParseableAge)
	w.sweepTo(0, 1, 0)
	w.failed("never.json", inbox.Invalid, "cut off")
}

// A run that somebody asked for waits out what is due within seconds.
func TestSweepUntilQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.times.SettleAfter, w.times.ParseableAge = 50*time.Millisecond, 50*time.Millisecond
	w.restart()
	w.in, w.eng = w.newInjector(time.Now)
	w.create(1, "Lost", "x")
	w.put(inbox.NewTasks, "half.json", []byte("{"))
	waits := w.update(5, report{steps: []string{"x"}})
	w.Faults.Next(createMethod, boardtest.RateLimited("1"), boardtest.ApplyThenReset())
	w.in.Times.UpdateWait = time.Hour
	progress := 0
	w.in.Progress = func() { progress++ }
	r, err := w.in.SweepUntilQuiet(t.Context(), 20*time.Second, time.Minute)
	if err != nil || r.Did[0].N != 1 || len(r.Failed) != 1 || r.Waiting != 1 || r.Trouble != nil {
		t.Errorf("report %+v, %v", r, err)
	}
	w.checkTask(1, "Lost", "x")
	if got := w.waiting(); !slices.Equal(got, []string{waits}) {
		t.Errorf("inbox %v", got)
	}
	if progress < 4 {
		t.Errorf("progress was told %d times", progress)
	}
}

// Whoever waits for what is due may be stopped.
func TestStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(inbox.NewTasks, "half.json", []byte("{"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	swept, looks := false, 0
	w.in.Progress = func() { swept = true }
	w.in.Now = func() time.Time {
		if swept {
			looks++
		}
		if looks == 4 { // how long it took, twice; how long it is until then, whether that is too long; and it waits
			stop()
		}
		return w.clock.Now()
	}
	r, err := w.in.SweepUntilQuiet(ctx, time.Hour, time.Hour)
	if err != nil || r.Waiting != 1 || r.Trouble != nil || looks != 4 {
		t.Errorf("report %+v, %v; it looked %d times at the clock", r, err, looks)
	}
}

// A file that its writer takes back at any moment of a sweep counts as nothing.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"lstat 1", "read 1", "lstat 2"} { // while it is listed, before it is read, judged to wait
		w := newWorld(t)
		name := w.put(inbox.NewTasks, "half.json", []byte("{"))
		times := map[string]int{}
		crashtest.Below(t, w.dir, func(s, path string) error {
			if path != filepath.Join(w.box.Dir(inbox.NewTasks), name) {
				return nil
			}
			if times[s]++; fmt.Sprint(s, " ", times[s]) == step {
				return os.Remove(path)
			}
			return nil
		})
		r := w.sweepTo(0, 0, 0)
		if !r.Due.IsZero() || exists(t, filepath.Join(w.box.Dir(inbox.NewTasks), name)) || len(w.settled(inbox.FailedDir)) != 0 {
			t.Errorf("taken back at %s: report %+v, failed %v", step, r, w.settled(inbox.FailedDir))
		}
	}
}

// A sweep ends with its context: between two files, and while the board is being written.
func TestSweepIsStopped(t *testing.T) {
	t.Parallel()
	for _, writing := range []bool{false, true} {
		w := newWorld(t)
		for _, id := range idsOf(5) {
			w.create(id, titleOf(id))
		}
		ctx, cancel := context.WithCancel(t.Context())
		if writing {
			w.eng.Progress = cancel
		} else {
			w.in.Progress = cancel
		}
		r, err := w.in.Sweep(ctx)
		if err != nil || r.Trouble != nil || r.Did[0].N != 0 {
			t.Errorf("while writing %t: report %+v, %v", writing, r, err)
		}
		if n := w.Faults.Count(createMethod); n > firstBatch || n > 0 && !writing { // those that were asked for at a time
			t.Errorf("while writing %t: %d rows were made", writing, n)
		}
		w.restart()
		w.sweepTo(5, 0, 0)
		for _, id := range idsOf(5) {
			w.checkTask(id, titleOf(id), pipeline.DefaultStep)
		}
	}
}

// The board may be held by others; what waits, waits.
func TestBoardHeldByOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A")
	w.eng.Board = boardOf(func(context.Context) (pipeline.Batch, error) {
		return nil, &lock.HeldError{Path: "board", PID: 42}
	})
	r := w.sweepTo(0, 0, 1)
	var held *lock.HeldError
	if !errors.As(r.Trouble, &held) || !r.Due.Equal(w.clock.Now().Add(retryBoard)) || !strings.Contains(r.Details(), "process 42") {
		t.Errorf("report %+v", r)
	}
}

// Batches end after their time and begin again, so that others have their turn.
func TestLongSweepLetsOthersIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range idsOf(6) {
		w.create(id, titleOf(id))
	}
	board, begun := w.eng.Board, 0
	w.eng.Board = boardOf(func(ctx context.Context) (pipeline.Batch, error) {
		begun++
		return board.Begin(ctx)
	})
	w.in.Progress = func() { w.clock.Advance(6 * time.Second) }
	w.sweepTo(6, 0, 0)
	if begun < 3 {
		t.Errorf("%d batches of 10 s for 6 files of 6 s", begun)
	}
}

type boardOf func(context.Context) (pipeline.Batch, error)

func (f boardOf) Begin(ctx context.Context) (pipeline.Batch, error) { return f(ctx) }

// The inbox directories may be missing or vanish.
func TestMissingInboxes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sweepTo(0, 0, 0)
	for _, kind := range inbox.Kinds {
		if err := os.Remove(w.box.Dir(kind)); err != nil {
			t.Fatal(err)
		}
	}
	w.sweepTo(0, 0, 0)
	w.create(1, "A")
	w.sweepTo(1, 0, 0)
}

// TestC24UnreadableForAMoment: a writer with umask 077 delivers a drop and gives
// it to us a moment later. Until it has been left alone for two seconds, an
// unreadable file waits as one does that is half written.
func TestC24UnreadableForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.create(1, "A", "x")
	unreadable := true
	crashtest.Below(t, w.dir, func(step, path string) error {
		if unreadable && step == "read" && filepath.Base(path) == name {
			return syscall.EACCES
		}
		return nil
	})
	if r := w.sweepTo(0, 0, 1); r.Due.IsZero() {
		t.Errorf("report %+v: nobody looks again", r)
	}
	unreadable = false
	w.sweepTo(1, 0, 0)
	unreadable = true
	name = w.create(2, "B", "x")
	w.clock.Advance(time.Minute)
	w.sweepTo(0, 1, 0)
	unreadable = false
	w.failed(name, inbox.Invalid, "cannot be read: ")
}

// TestC29TwoFilesStopNobody: a drop over 1 MiB with a _result of its own fails,
// and the same bytes come as a file that a crash seems to have left. Both
// concern themselves: every other drop goes on, now and after a restart.
func TestC29TwoFilesStopNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evil := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `","_result":"x"}`)
	w.put(inbox.NewTasks, "zz.json", evil)
	w.age(inbox.NewTasks, "zz.json", time.Minute)
	w.sweepTo(0, 1, 0)
	w.put(inbox.NewTasks, "zz-otm-taken-0000000000000000.json", evil)
	w.age(inbox.NewTasks, "zz-otm-taken-0000000000000000.json", time.Minute)
	w.create(1, "A", "x")
	w.sweepTo(1, 1, 0)
	w.restart()
	w.create(2, "B", "x")
	w.update(1, report{status: pipeline.Blocked, reason: "why"})
	w.dispatch(1)
	w.sweepTo(2, 0, 0)
	w.failed("zz.json", inbox.Invalid, "larger than")
}

// What cannot be read for a reason that is not its own waits.
func TestUnread(t *testing.T) {
	t.Parallel()
	f := inbox.File{Kind: inbox.NewTasks, Name: "x.json"}
	path := filepath.Join(t.TempDir(), f.Name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.Info, err = os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return time.Now().Add(time.Minute) }
	sw := &sweep{Injector: &Injector{Now: later, Times: pipeline.DefaultTimes}}
	for _, c := range []struct {
		err     error
		settled bool
		ends    bool // the sweep
	}{
		{syscall.EACCES, true, false},
		{syscall.EIO, false, false},
		{syscall.ELOOP, false, false}, // replaced by a link since it was listed
		{syscall.EMFILE, false, true},
		{syscall.ENFILE, false, true},
		{syscall.ENOMEM, false, true},
	} {
		err := &fs.PathError{Op: "open", Path: "x.json", Err: c.err}
		v := sw.unread(f, err)
		if settled, ends := v.result != nil, v.stop != nil; settled != c.settled || ends != c.ends {
			t.Errorf("%v: settled %t, ends the sweep %t", c.err, settled, ends)
		}
		if !c.settled && !c.ends && !strings.Contains(v.kept, c.err.Error()) {
			t.Errorf("%v: kept for %q", c.err, v.kept)
		}
	}
}
