package counter

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

func TestTake(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	for want := pipeline.TaskID(1); want <= 3; want++ {
		if got := mustTake(t, s); got != want {
			t.Errorf("Take = %v, want %v", got, want)
		}
	}
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first, err := c.Take(10); first != 4 || err != nil {
		t.Errorf("Take(10) = %v, %v; want 4", first, err)
	}
	if first, err := c.Take(1); first != 14 || err != nil {
		t.Errorf("Take after a block = %v, %v; want 14", first, err)
	}
	c.Release()
	if got, want := read(t, filepath.Join(s.dir, counterFile)), `{"next":15,"durable":32}`; got != want {
		t.Errorf("the counter holds %s, want %s", got, want)
	}
	if got := read(t, filepath.Join(s.dir, "locks", "next-task-id")); !strings.Contains(got, `{"next":15,"durable":32,"boot":"`) {
		t.Errorf("the lock file holds %q, want a copy of the counter in it", got)
	}
	if len(warned.list) > 0 {
		t.Errorf("warnings: %q", warned.list)
	}
}

func TestCaseB74AfterFiveDigitsComeSix(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":99999}`)
	for _, want := range []string{"T-99999", "T-100000", "T-100001"} {
		if got := mustTake(t, s).String(); got != want {
			t.Errorf("Take = %s, want %s", got, want)
		}
	}
}

func TestIDsUsedUp(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":999999998}`)
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Take(3); !errors.Is(err, ErrIDsUsedUp) {
		t.Errorf("Take(3) of the last two: %v, want ErrIDsUsedUp", err)
	}
	if first, err := c.Take(2); first != 999999998 || err != nil {
		t.Errorf("Take(2) of the last two = %v, %v", first, err)
	}
	c.Release()
	if id, err := takeOne(t.Context(), s); !errors.Is(err, ErrIDsUsedUp) {
		t.Errorf("Take after the last = %v, %v; want ErrIDsUsedUp", id, err)
	}
	if len(warned.list) > 0 {
		t.Errorf("warnings: %q", warned.list)
	}
}

// distinct holds the ids that n creators got against each other.
func distinct(t *testing.T, ids []string, n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			t.Errorf("%s was given out twice", id)
		}
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("%d creators got %d ids", n, len(seen))
	}
}

func TestConcurrentGoroutines(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	const n = 64
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { ids[i] = mustTake(t, s).String() })
	}
	wg.Wait()
	distinct(t, ids, n)
	if got := read(t, filepath.Join(s.dir, counterFile)); got != `{"next":65,"durable":96}` {
		t.Errorf("the counter holds %s after %d", got, n)
	}
	if len(warned.list) > 0 {
		t.Errorf("warnings: %q", warned.list)
	}
}

// TestCaseB68LockFileDeleted has 40 processes take ids, while the lock file is
// deleted every millisecond.
func TestCaseB68LockFileDeleted(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	stop := make(chan struct{})
	var deleter sync.WaitGroup
	deleter.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				os.Remove(s.lockPath())
			}
		}
	})
	const n = 40
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { ids[i] = takeElsewhere(t, s) })
	}
	wg.Wait()
	close(stop)
	deleter.Wait()
	distinct(t, ids, n)
}

// TestProcesses has 64 processes take ids at once: there is no double and no gap.
func TestProcesses(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	const n = 64
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { ids[i] = takeElsewhere(t, s) })
	}
	wg.Wait()
	distinct(t, ids, n)
	if got := mustTake(t, s); got != n+1 {
		t.Errorf("after %d ids: Take = %v", n, got)
	}
}

// takeElsewhere has a process of its own take one id.
func takeElsewhere(t *testing.T, s *Dir) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), take+"="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// TestCounterRecovers is about a counter that was lost, reset or damaged: the
// highest that anything knows of wins, with one warning.
func TestCounterRecovers(t *testing.T) {
	t.Parallel()
	drop := func(id int) string { return fmt.Sprintf(`{"taskId":"T-%05d","title":"x"}`, id) }
	tests := []struct {
		name    string
		counter string // "-": missing
		files   map[string]string
		want    pipeline.TaskID
		warns   string // "": nothing
	}{
		{name: "fine", counter: `{"next":7}`, want: 7},
		{name: "fine with more in it", counter: `{"next":7,"x":1}`, want: 7},
		{name: "without next", counter: `{"durable":64}`, want: 64},
		{name: "next above durable", counter: `{"next":70,"durable":64}`, want: 64},
		{name: "next is nonsense", counter: `{"next":-1,"durable":64}`, want: 64},
		{name: "durable is nonsense", counter: `{"next":7,"durable":0}`, want: 1, warns: "holds"},
		{name: "of another boot", counter: `{"next":36,"durable":64}`, want: 64},
		{name: "of another boot, and behind a record", counter: `{"next":36,"durable":64}`, files: map[string]string{"tasks/T-00064.json": "{}"}, want: 65, warns: "says 64, but that task exists"},
		{name: "missing, nothing known", counter: "-", want: 1, warns: "is missing; going on with T-00001"},
		{name: "missing", counter: "-", files: map[string]string{"new-tasks/a.json": drop(41)}, want: 42, warns: "is missing; going on with T-00042"},
		{name: "empty", counter: "", files: map[string]string{"processed/a.json": drop(41)}, want: 42, warns: `holds ""`},
		{name: "NUL bytes", counter: strings.Repeat("\x00", 12), files: map[string]string{"failed/a.json": drop(41)}, want: 42, warns: `holds "\x00`},
		{name: "cut", counter: `{"next":3`, files: map[string]string{"tasks/T-00041.json": "{}"}, want: 42, warns: "holds"},
		{name: "text", counter: "forty-two", want: 1, warns: "holds"},
		{name: "negative", counter: `{"next":-5}`, want: 1, warns: "holds"},
		{name: "zero", counter: `{"next":0}`, want: 1, warns: "holds"},
		{name: "no number", counter: `{"next":"7"}`, want: 1, warns: "holds"},
		{name: "fraction", counter: `{"next":7.5}`, want: 1, warns: "holds"},
		{name: "beyond every id", counter: `{"next":99999999999}`, files: map[string]string{"new-tasks/a.json": drop(41)}, want: 42, warns: "holds"},
		{name: "behind a record", counter: `{"next":41}`, files: map[string]string{"tasks/T-00041.json": "{}", "tasks/T-00050.json": "{}"}, want: 51, warns: "says 41, but that task exists"},
		{name: "not behind other records", counter: `{"next":41}`, files: map[string]string{"tasks/T-00040.json": "{}"}, want: 41},
		{name: "files that say nothing", counter: "-", files: map[string]string{
			"new-tasks/ten-digits.json": `{"taskId":"T-1234567890"}`, "new-tasks/number.json": `{"taskId":99}`, "new-tasks/short.json": `{"taskId":"T-99"}`,
			"new-tasks/text.json": "taskId: T-00099", "new-tasks/.hidden.json": drop(99), "new-tasks/x.json.tmp": drop(99), "new-tasks/twice.json": `{"taskId":"T-00099","taskId":"T-00099"}`,
			"new-tasks/large.json": drop(99) + strings.Repeat(" ", inbox.MaxSettled), "task-updates/a.json": drop(99), "tasks/T-99.json": "{}", "tasks/T-000099.json": "{}", "tasks/x.json": drop(99),
		}, want: 1, warns: "is missing"},
		{name: "a key whose drop was not delivered", counter: "-", files: map[string]string{"keys/ab.json": `{"key":"k","taskId":"T-00041","file":"x.json","drop":{"taskId":"T-00041"},"delivered":false}`},
			want: 42, warns: "is missing; going on with T-00042"},
		{name: "mark and CRLF", counter: "-", files: map[string]string{"new-tasks/a.json": "\xef\xbb\xbf{\r\n\"taskId\":\"T-00041\"}\r\n"}, want: 42, warns: "is missing"},
		{name: "explained beside", counter: "-", files: map[string]string{"failed/a.json": "no JSON", "failed/a.json.error.json": `{"_result":{}}`}, want: 1, warns: "is missing"},
		{name: "highest of all", counter: "-", files: map[string]string{
			"tasks/T-00041.json": "{}", "new-tasks/a.json": drop(44), "processed/a.json": drop(43), "failed/a.json": drop(42),
		}, want: 45, warns: "is missing; going on with T-00045"},
		{name: "ids that would use up most of them", counter: "-", files: map[string]string{
			"new-tasks/a.json": `{"taskId":"T-999999998"}`, "tasks/T-999999999.json": "{}", "tasks/T-700000000.json": "{}", "failed/a.json": drop(41),
		}, want: 42, warns: "is missing"},
		{name: "large ids", counter: "-", files: map[string]string{"tasks/T-123456789.json": "{}"}, want: 123456790, warns: "is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, warned := fresh(t)
			write(t, filepath.Join(s.dir, counterFile), tt.counter)
			if tt.counter == "-" {
				os.Remove(filepath.Join(s.dir, counterFile))
			}
			for name, data := range tt.files {
				write(t, filepath.Join(s.dir, name), data)
			}
			// Looking is enough to put it right, and to be told once.
			for range 2 {
				c, err := s.Counter(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c.Release()
			}
			if got := mustTake(t, s); got != tt.want {
				t.Errorf("Take = %v, want %v", got, tt.want)
			}
			switch {
			case tt.warns == "" && len(warned.list) > 0:
				t.Errorf("warnings: %q", warned.list)
			case tt.warns != "" && (len(warned.list) != 1 || !strings.Contains(warned.list[0], tt.warns)):
				t.Errorf("warnings: %q, want one that says %q", warned.list, tt.warns)
			}
		})
	}
}

// TestCounterBehindItsCopy sets the counter back, as a restore from a backup
// does: the copy in the lock file knows better.
func TestCounterBehindItsCopy(t *testing.T) {
	t.Parallel()
	s, warned := fresh(t)
	for range 9 {
		mustTake(t, s)
	}
	write(t, filepath.Join(s.dir, counterFile), `{"next":3}`)
	write(t, filepath.Join(s.dir, "new-tasks", "a.json"), `{"taskId":"T-00005"}`)
	if got := mustTake(t, s); got != 10 {
		t.Errorf("Take = %v, want T-00010", got)
	}
	if len(warned.list) != 1 || !strings.Contains(warned.list[0], "says 3, but 10 was reached before; going on with T-00010") {
		t.Errorf("warnings: %q", warned.list)
	}
	// The files may know of more than the copy.
	write(t, filepath.Join(s.dir, counterFile), `{"next":3}`)
	write(t, filepath.Join(s.dir, "new-tasks", "b.json"), `{"taskId":"T-00050"}`)
	if got := mustTake(t, s); got != 51 {
		t.Errorf("Take = %v, want T-00051", got)
	}
}

// TestCounterWithATornCopy is about a copy that says nonsense.
func TestCounterWithATornCopy(t *testing.T) {
	t.Parallel()
	for _, note := range []string{"", `{"nex`, `{"next":"x"}`, `{"next":-1}`, `{"next":99999999999}`, strings.Repeat("\x00", 40)} {
		s, warned := fresh(t)
		write(t, s.lockPath(), fmt.Sprintf("%14d\n%s", 1, note))
		write(t, filepath.Join(s.dir, counterFile), `{"next":7}`)
		if got := mustTake(t, s); got != 7 || len(warned.list) > 0 {
			t.Errorf("with the copy %q: Take = %v, warnings %q; want 7 and none", note, got, warned.list)
		}
	}
}

// TestCounterCrashes dies before and after the counter is written, at each of the
// writes around a new block: the id that was being taken may stay unused, and no
// other one, and none is given out twice.
func TestCounterCrashes(t *testing.T) {
	for point, lost := range map[string]pipeline.TaskID{"counter.before": 0, "durable.named": 0, "counter.after": 1} {
		for _, before := range []pipeline.TaskID{0, 1, 30, 31, 32} {
			if inPlace := before != 31; inPlace && point == "durable.named" {
				continue // nothing is renamed
			}
			s, warned := fresh(t)
			c, err := s.Counter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range before {
				if _, err := c.Take(1); err != nil {
					t.Fatal(err)
				}
			}
			crashAt(t, point, func() { c.Take(1) })
			c.Release() // by the kernel
			for n := range pipeline.TaskID(40) {
				if got, want := mustTake(t, s), before+1+lost+n; got != want {
					t.Fatalf("after %d ids and a crash at %s: Take = %v, want %v", before, point, got, want)
				}
			}
			if len(warned.list) > 0 {
				t.Errorf("after a crash at %s: warnings %q", point, warned.list)
			}
		}
	}
}

// TestTakePassesOverWhatExists is for ids that were too far ahead to raise the
// counter when they came.
func TestTakePassesOverWhatExists(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":10}`)
	for _, name := range []string{"T-00012", "T-00013", "T-00020", "T-999999998"} {
		write(t, filepath.Join(s.dir, "tasks", name+".json"), "{}")
	}
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	for _, tt := range []struct {
		n    int
		want pipeline.TaskID
	}{{1, 10}, {1, 11}, {5, 14}, {2, 21}} {
		if got, err := c.Take(tt.n); got != tt.want || err != nil {
			t.Errorf("Take(%d) = %v, %v; want %v", tt.n, got, err, tt.want)
		}
	}
	if _, err := c.Take(int(pipeline.MaxTaskID)); !errors.Is(err, ErrIDsUsedUp) {
		t.Errorf("Take of more than there are: %v", err)
	}
}

func TestRaise(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":10}`)
	for _, tt := range []struct{ id, next pipeline.TaskID }{
		{5, 10}, {9, 10}, {0, 10}, {10, 11}, {100, 101}, {50, 101}, {pipeline.MaxTaskID, 101}, {600_000_000, 101}, {100_102, 101}, {100_101, 100_102},
	} {
		// C37: an id far above the highest known one uses none up.
		var far *FarError
		if err := s.Raise(t.Context(), tt.id); err != nil && !errors.As(err, &far) || (far != nil) != (tt.id > tt.next) {
			t.Fatalf("Raise(%d): %v", tt.id, err)
		}
		if got, want := read(t, filepath.Join(s.dir, counterFile)), fmt.Sprintf(`{"next":%d,`, tt.next); !strings.HasPrefix(got, want) && tt.next != 10 {
			t.Errorf("after Raise(%d) the counter holds %s, want %s", tt.id, got, want)
		}
	}
	if got := mustTake(t, s); got != 100_102 {
		t.Errorf("Take = %v", got)
	}
}

// walked is what RaiseAbove needs of a batch.
type walked struct {
	pipeline.Batch
	cells []string
}

func (w *walked) Rows() iter.Seq[*pipeline.Row] {
	return func(yield func(*pipeline.Row) bool) {
		for _, c := range w.cells {
			if !yield(&pipeline.Row{TaskID: c}) {
				return
			}
		}
	}
}

// TestRaiseAbove: what stands on the board is never given out.
func TestRaiseAbove(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	counter := filepath.Join(s.dir, counterFile)
	w := &walked{cells: []string{"T-00005", "", "x", "7", "T-999999999"}} // of these the last would use all ids up
	for range 2 {
		if err := s.RaiseAbove(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, counter); got != `{"next":8,"durable":32}` {
		t.Errorf("the counter holds %s", got)
	}
	w.cells = append(w.cells, "T-00020")
	if err := errors.Join(os.Remove(counter), os.Mkdir(counter, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := s.RaiseAbove(t.Context(), w); err == nil {
		t.Error("RaiseAbove of a counter that is a directory gave no error")
	}
	if err := os.Remove(counter); err != nil {
		t.Fatal(err)
	}
	if err := s.RaiseAbove(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := read(t, counter); got != `{"next":21,"durable":32}` {
		t.Errorf("once it works again the counter holds %s", got)
	}
}

// TestNoDataDirectory is about one that has gone: it is not made again.
func TestNoDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := Open(dir, nil)
	_, counter := s.Counter(t.Context())
	for _, err := range []error{counter, (&Counter{dir: s}).SaveKey(&Key{Key: "k"})} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the data directory was made")
	}
}

// TestRaiseTakesNoLockForNothing raises while somebody holds the counter.
func TestRaiseTakesNoLockForNothing(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":10}`)
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := s.Raise(t.Context(), 9); err != nil {
		t.Errorf("Raise to what the counter is above of: %v", err)
	}
}

func TestIssued(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	write(t, filepath.Join(s.dir, counterFile), `{"next":10}`)
	for id, want := range map[pipeline.TaskID]bool{1: true, 9: true, 10: false, 11: false} {
		if got, err := s.Issued(id); got != want || err != nil {
			t.Errorf("Issued(%d) = %v, %v; want %v", id, got, err, want)
		}
	}
	write(t, filepath.Join(s.dir, counterFile), "?")
	if got, err := s.Issued(99); !got || err != nil {
		t.Errorf("Issued with an unreadable counter = %v, %v; want true", got, err)
	}
}

func TestInInbox(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	if got, err := s.InInbox(41); got || err != nil {
		t.Errorf("InInbox of a missing inbox = %v, %v", got, err)
	}
	write(t, filepath.Join(s.dir, "new-tasks", "a.json"), `{"taskId":"T-00041"}`)
	write(t, filepath.Join(s.dir, "new-tasks", ".b.json"), `{"taskId":"T-00042"}`)
	for id, want := range map[pipeline.TaskID]bool{41: true, 42: false, 43: false} {
		if got, err := s.InInbox(id); got != want || err != nil {
			t.Errorf("InInbox(%d) = %v, %v; want %v", id, got, err, want)
		}
	}
}

// TestCounterHeld gives up on a counter that somebody keeps. The time that it
// waits is the contract's, so this looks at the lock below it.
func TestCounterHeld(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, err := s.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	_, err = lock.Acquire(t.Context(), s.lockPath(), 0)
	var held *lock.HeldError
	if !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("the counter's lock: %v, want it held by this process", err)
	}
	if lockWait != 10*time.Second {
		t.Errorf("the wait is %v, the contract says 10 s", lockWait)
	}
}
