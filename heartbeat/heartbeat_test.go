package heartbeat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"otm/internal/explain"
)

var morning = time.Date(2026, 3, 14, 10, 15, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		age  time.Duration
		want State
	}{
		{"now", 0, Green},
		{"a second ahead, as whole seconds are written", -time.Second, Green},
		{"ahead", -10 * time.Second, ClockError},
		{"a year ahead", -365 * 24 * time.Hour, ClockError},
		{"just under 5 minutes", 5*time.Minute - time.Second, Green},
		{"5 minutes", 5 * time.Minute, Yellow},
		{"15 minutes", 15 * time.Minute, Yellow},
		{"above 15 minutes", 15*time.Minute + time.Second, Red},
		{"an age", 1000 * 24 * time.Hour, Red},
	}
	for _, tt := range tests {
		if got := Judge(&Beat{LastRun: morning.Add(-tt.age)}, morning); got != tt.want {
			t.Errorf("%s: Judge = %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := Judge(nil, morning); got != NotInstalled {
		t.Errorf("Judge of no beat = %q, want %q", got, NotInstalled)
	}
	if got := Judge(&Beat{}, morning); got != Red {
		t.Errorf("Judge of a beat without a time = %q, want %q", got, Red)
	}
	if got := Judge(&Beat{LastRun: morning.In(time.FixedZone("", 7200))}, morning); got != Green {
		t.Errorf("Judge across zones = %q, want %q", got, Green)
	}
}

func TestComponents(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector", "otm-watcher"} {
		if !slices.Contains(Components, want) {
			t.Errorf("Components %q lack %q", Components, want)
		}
	}
	if got := Path("/data", Injector); got != filepath.Join("/data", "otm-injector-state.json") {
		t.Errorf("Path = %q", got)
	}
}

// TestForm is the contract's section 5: other programs read these files.
func TestForm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := morning.Add(300 * time.Millisecond).In(time.FixedZone("", 3600))
	w := NewWriter(dir, Injector, "v1.2.3", func() time.Time { return now })
	if err := w.Beat(Partial, "Processed 2 tasks, 1 failure"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "otm-injector-state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	want := map[string]any{
		"id": "otm-injector", "status": "alive", "lastRun": "2026-03-14T10:15:00Z", "result": "partial", "details": "Processed 2 tasks, 1 failure",
		"pid": float64(os.Getpid()), "version": "v1.2.3", "sequence": 1.0, "lastProgress": "2026-03-14T10:15:00Z", "host": host,
	}
	c := got["component"]
	for key, value := range want {
		if c[key] != value {
			t.Errorf("%s is %v, want %v", key, c[key], value)
		}
	}
	if len(c) != len(want) || len(got) != 1 {
		t.Errorf("the file holds %s", data)
	}
	if info, err := os.Stat(Path(dir, Injector)); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	b, err := Read(dir, Injector)
	if err != nil || b.Result != Partial || !b.LastRun.Equal(morning) {
		t.Errorf("Read = %+v, %v", b, err)
	}
}

// TestC52Damaged: a file that holds no heartbeat is damaged, which is not the same
// as a component that never ran. Its count begins anew.
func TestC52Damaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, content := range []string{
		"", "\x00\x00", `{"component":{"id":"otm-inj`, "[]", "{}", "null", `{"component":null}`, `{"component":5}`,
		`{"component":{"lastRun":"yesterday","sequence":17}}`, `{"component":{"sequence": 41,"det`,
	} {
		if err := os.WriteFile(Path(dir, Injector), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := Read(dir, Injector); !errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) || b != nil {
			t.Errorf("Read of %q = %+v, %v; want ErrDamaged", content, b, err)
		}
		if err := NewWriter(dir, Injector, "v", time.Now).Beat(Success, ""); err != nil {
			t.Fatal(err)
		}
		if b, err := Read(dir, Injector); err != nil || b.Sequence != 1 {
			t.Errorf("after %q: Read = %+v, %v, want sequence 1", content, b, err)
		}
	}
	if _, err := Read(dir, Dispatcher); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of no file: %v, want fs.ErrNotExist", err)
	}
}

// TestSequenceGoesOn over restarts, and past the beats of another process.
func TestSequenceGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	beat := func(w *Writer, want int) {
		t.Helper()
		if err := w.Beat(Success, ""); err != nil {
			t.Fatal(err)
		}
		if b, err := Read(dir, Injector); err != nil || b.Sequence != want {
			t.Errorf("Read = %+v, %v; want sequence %d", b, err, want)
		}
	}
	resident := NewWriter(dir, Injector, "v", time.Now)
	beat(resident, 1)
	beat(resident, 2)
	single := NewWriter(dir, Injector, "v", time.Now)
	beat(single, 3)
	beat(resident, 4)
	beat(single, 5)
	if err := os.Remove(Path(dir, Injector)); err != nil {
		t.Fatal(err)
	}
	beat(resident, 5) // its own count is 4
}

func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := NewWriter(dir, Injector, "v", time.Now)
	for n := maxDetails - 3; n <= maxDetails+3; n++ {
		details := strings.Repeat("x", n-2) + "ä" + strings.Repeat("ö", 20)
		if err := w.Beat(Error, details); err != nil {
			t.Fatal(err)
		}
		b, err := Read(dir, Injector)
		if err != nil || len(b.Details) > maxDetails+len("…") || !utf8.ValidString(b.Details) || strings.ContainsRune(b.Details, utf8.RuneError) {
			t.Errorf("details of %d bytes became %d, %v: …%q", len(details), len(b.Details), err, b.Details[len(b.Details)-12:])
		}
	}
}

// TestC38DetailsAreHarmless: what a board or a gateway said cannot move the cursor
// of somebody who prints the file.
func TestC38DetailsAreHarmless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := NewWriter(dir, Injector, "v", time.Now).Beat(Success, "short\x1b[2J\x00\u202e"); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(dir, Injector); err != nil || b.Details != `short\x1b[2J\x00\u202e` {
		t.Errorf("Read = %+v, %v", b, err)
	}
}

// TestFindings: what the details say stands in the file as data, too.
func TestFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := NewWriter(dir, Injector, "v", time.Now).Beat(Partial, "no room", explain.New(explain.ListFull, "rows", 3)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(Path(dir, Injector))
	if err != nil || !strings.Contains(string(data), `"findings":[{"code":"list_full","args":{"rows":"3"}}]`) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestDirectoryGone is about a data directory that is taken away: the daemon
// finds out elsewhere.
func TestDirectoryGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	if err := NewWriter(dir, Injector, "v", time.Now).Beat(Success, ""); err != nil {
		t.Errorf("Beat: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("Beat made the data directory")
	}
}

// TestLongRun beats every minute for as long as the run gets on, and no more
// when it hangs. The time is that of the bubble: nobody waits for it.
func TestLongRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(dir, Injector, "v", time.Now)
		if err := w.Beat(Partial, "before"); err != nil {
			t.Fatal(err)
		}
		started := time.Now().Add(time.Second)
		time.Sleep(time.Second) // in virtual time, as all that follow: nobody waits
		end := w.Run()
		expect := func(after time.Duration, sequence int, lastRun, progress time.Duration, details string) {
			t.Helper()
			time.Sleep(time.Until(started.Add(after + time.Second))) // a second past the beat, in virtual time: nobody waits
			synctest.Wait()
			b, err := Read(dir, Injector)
			if err != nil {
				t.Fatal(err)
			}
			if b.Sequence != sequence || !b.LastRun.Equal(started.Add(lastRun)) || !b.LastProgress.Equal(started.Add(progress)) || b.Details != details {
				t.Errorf("after %v: sequence %d, last run %v, progress %v, %q; want %d, %v, %v, %q", after, b.Sequence, b.LastRun.Sub(started),
					b.LastProgress.Sub(started), b.Details, sequence, lastRun, progress, details)
			}
			if b.Result != Partial {
				t.Errorf("after %v: result %q, want the last run's", after, b.Result)
			}
		}
		expect(0, 1, -time.Second, -time.Second, "before")
		time.Sleep(30 * time.Second) // in virtual time: nobody waits
		w.Progress()                 // at 31 s
		expect(time.Minute, 2, time.Minute, 31*time.Second, "running")
		// It hangs: no beat, however long.
		expect(10*time.Minute, 2, time.Minute, 31*time.Second, "running")
		if got := Judge(must(Read(dir, Injector)), time.Now()); got != Yellow {
			t.Errorf("a run that hangs for 9 minutes is %q, want %q", got, Yellow)
		}
		// It gets on again.
		w.Progress() // at 10 m 1 s
		expect(11*time.Minute, 3, 11*time.Minute, 10*time.Minute+time.Second, "running")
		if err := end(&Report{Did: []Did{{"After", "hour", 1}}}); err != nil {
			t.Fatal(err)
		}
		b := must(Read(dir, Injector))
		if b.Sequence != 4 || b.Result != Success || b.Details != "After 1 hour, 0 failures" || !b.LastRun.Equal(time.Now()) || !b.LastProgress.Equal(time.Now()) {
			t.Errorf("after the end: %+v", b)
		}
		// Nothing beats between runs.
		time.Sleep(time.Hour) // in virtual time: nobody waits
		synctest.Wait()
		if again := must(Read(dir, Injector)); again.Sequence != 4 {
			t.Errorf("an hour after the end: %+v", again)
		}
	})
}

// TestCalm: of the runs of a resident process that succeed within a second, the first is
// told at once and the last within that second, with the time when it ended. A run that ends
// otherwise, and the first one after it, are told at once, and so is every run of a process
// that does not stay.
func TestCalm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(dir, Injector, "v", time.Now)
		w.Resident = true
		begun := time.Now()
		run := func(r *Report) {
			t.Helper()
			if err := w.Run()(r); err != nil {
				t.Fatal(err)
			}
		}
		did := func(n int) *Report { return &Report{Did: []Did{{"Did", "thing", n}}} }
		expect := func(sequence int, lastRun time.Duration, result Result, details string) {
			t.Helper()
			synctest.Wait()
			b, err := Read(dir, Injector)
			if err != nil {
				t.Fatal(err)
			}
			if b.Sequence != sequence || b.LastRun.Sub(begun) != lastRun || b.Result != result || b.Details != details {
				t.Errorf("after %v: beat %d of a run after %v, %s, %q; want %d, %v, %s, %q", time.Since(begun), b.Sequence, b.LastRun.Sub(begun), b.Result, b.Details,
					sequence, lastRun, result, details)
			}
		}
		pass := func(d time.Duration) { time.Sleep(d) } // in virtual time: nobody waits
		run(did(1))
		expect(1, 0, Success, "Did 1 thing, 0 failures")
		pass(300 * time.Millisecond)
		run(did(2))
		pass(300 * time.Millisecond)
		run(did(3))
		expect(1, 0, Success, "Did 1 thing, 0 failures")
		pass(400 * time.Millisecond)
		expect(2, 0, Success, "Did 3 things, 0 failures")
		pass(500 * time.Millisecond) // 1.5 s
		run(did(4))
		failed := &Report{Trouble: errors.New("failed")}
		run(failed)
		expect(3, time.Second, Error, "failed")
		run(failed)
		expect(4, time.Second, Error, "failed")
		run(did(5))
		expect(5, time.Second, Success, "Did 5 things, 0 failures")
		pass(time.Hour)
		expect(5, time.Second, Success, "Did 5 things, 0 failures")
		run(did(6))
		run(did(7))
		expect(6, time.Hour+time.Second, Success, "Did 6 things, 0 failures")
		w.Flush() // as when the process ends
		expect(7, time.Hour+time.Second, Success, "Did 7 things, 0 failures")
		w.Flush()
		w.Resident = false
		run(did(8))
		expect(8, time.Hour+time.Second, Success, "Did 8 things, 0 failures")

		// Another process ran meanwhile: what it said stands.
		w.Resident = true
		pass(time.Hour)
		run(did(9))
		run(did(10))
		path := Path(dir, Injector)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(data, fmt.Appendf(nil, `"pid":%d`, os.Getpid()), []byte(`"pid":1`), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		expect(9, 2*time.Hour+time.Second, Success, "Did 9 things, 0 failures")
	})
}

// TestFirstLongRun has nothing to go by: a run that gets on is a success so far.
func TestFirstLongRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(dir, Injector, "v", time.Now)
		end := w.Run()
		time.Sleep(61 * time.Second) // in virtual time: nobody waits
		synctest.Wait()
		if b, err := Read(dir, Injector); err != nil || b.Result != Success || b.Details != "running" {
			t.Errorf("Read = %+v, %v", b, err)
		}
		if err := end(&Report{Trouble: errors.New("failed")}); err != nil {
			t.Fatal(err)
		}
		if b := must(Read(dir, Injector)); b.Result != Error {
			t.Errorf("after a run that failed: %+v", b)
		}
	})
}

// TestBeatAndProgressAtOnce is for the race detector.
func TestBeatAndProgressAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := NewWriter(dir, Injector, "v", time.Now)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				w.Progress()
				if err := w.Beat(Success, ""); err != nil {
					t.Error(err)
				}
				w.during()
				w.Flush()
			}
		})
	}
	wg.Wait()
	if b := must(Read(dir, Injector)); b.Sequence < 20 {
		t.Errorf("after 20 beats the sequence is %d", b.Sequence)
	}
}

func must(b *Beat, err error) *Beat {
	if err != nil {
		panic(err)
	}
	return b
}
