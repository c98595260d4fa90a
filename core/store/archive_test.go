package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

const (
	testKeep = 90 * 24 * time.Hour
	aDay     = 24 * time.Hour
)

var testProducer = core.Producer{Service: "otm", Version: "test"}

// later is a command at another time.
func later(by time.Duration, c core.Command) core.Command {
	c.At = c.At.Add(by)
	if r, ok := c.Do.(core.Request); ok {
		r.CreatedAt = c.At
		c.Do = r
	}
	return c
}

// someDays has something happen on three days: a task lives through them, and each has one of its
// own.
func someDays(t testing.TB, s *Store) {
	t.Helper()
	handedOut(t, s, 1)
	for day := range 3 {
		by := time.Duration(day) * aDay
		made := request(pipeline.TaskID(10+day), fmt.Sprint("of day ", day))
		made.Trace = pipeline.Trace(fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b%d-01", day))
		do(t, s, later(by, made))
		do(t, s, later(by, retitle(1, fmt.Sprint("of day ", day))))
		do(t, s, core.Command{At: t0.Add(by), By: ada, Agent: "mira", Do: core.PauseAgent{Reason: fmt.Sprint("day ", day)}})
		do(t, s, core.Command{At: t0.Add(by), By: injector, Do: core.Watch{Found: []core.Seen{{Found: core.Found{Key: "x", Severity: day}, Since: t0}}}})
	}
}

// archive archives what is due at a time after t0.
func archiveAt(t testing.TB, s *Store, after time.Duration, want ...string) {
	t.Helper()
	days, err := Archive(context.Background(), s, t0.Add(after), testKeep, testProducer)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(days, want) {
		t.Errorf("archived %v, want %v", days, want)
	}
}

func allEvents(t testing.TB, s *Store, f core.EventFilter) []core.Event {
	t.Helper()
	f.Archived = true
	events, err := s.Events(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// liveEvents counts the events in the table.
func liveEvents(t testing.TB, s *Store) int {
	t.Helper()
	events, err := s.Events(context.Background(), core.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(events)
}

func archiveFiles(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, ArchiveDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

// Days leave the table for archives when they are 90 days old. All events are found as
// before, and the states follow from them, also when snapshots or all of them are missing.
func TestArchive(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		someDays(t, s)
		before := allEvents(t, s, core.EventFilter{})
		other := open() // has the live tasks of today in memory
		checkLive(t, other)
		archiveAt(t, s, testKeep-time.Hour) // the first day is not over by then
		archiveAt(t, s, testKeep+aDay, "2026-11-29")
		archiveAt(t, s, testKeep+aDay)
		if n := liveEvents(t, s); n == 0 || n >= len(before) {
			t.Errorf("%d of %d events are in the table", n, len(before))
		}
		check(t, s)
		archiveAt(t, s, testKeep+7*aDay, "2026-11-30", "2026-12-01")
		if n := liveEvents(t, s); n != 0 {
			t.Errorf("%d events are in the table", n)
		}
		if after := allEvents(t, s, core.EventFilter{}); !reflect.DeepEqual(after, before) {
			t.Errorf("before:\n%+v\nand after:\n%+v", before, after)
		}
		for _, f := range []core.EventFilter{
			{Task: 1}, {Task: 11}, {Task: 99}, {Agent: "MIRA"}, {Types: []string{"TaskRequested"}}, {After: 7}, {After: 7, Limit: 3}, {Since: t0.Add(aDay)},
			{Types: []string{"TaskRequested"}, Last: true}, {Last: true}, {Task: 10, Last: true}, {Limit: 5},
		} {
			var want []core.Event
			for _, e := range before {
				if selects(&f, &e) && (f.Limit == 0 || len(want) < f.Limit) {
					want = append(want, e)
				}
			}
			if f.Last {
				want = want[len(want)-1:]
			}
			if got := allEvents(t, s, f); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
				t.Errorf("%+v:\n%+v\nwant:\n%+v", f, got, want)
			}
		}
		check(t, s)
		do(t, other, later(8*aDay, retitle(10, "goes on")))
		if e := allEvents(t, s, core.EventFilter{Task: 10}); e[0].Trace == "" || e[len(e)-1].Trace != e[0].Trace {
			t.Errorf("the first event is of the trace %q, the last one of %q", e[0].Trace, e[len(e)-1].Trace)
		}
		check(t, other) // reads the table of tasks anew
		want := []string{
			"events-2026-11-29.ndjson.gz", "events-2026-11-30.ndjson.gz", "events-2026-12-01.ndjson.gz", "snapshot-2026-11-30.json.gz", "snapshot-2026-12-01.json.gz",
		}
		if got := archiveFiles(t, s.dir); !slices.Equal(got, want) {
			t.Errorf("the archive has %v", got)
		}
		for _, name := range slices.Backward(want[3:]) {
			if err := os.Remove(archiveDirOf(s).path(name)); err != nil {
				t.Fatal(err)
			}
			check(t, s)
		}
		change(t, s, `DELETE FROM tasks`)
		if _, found, err := Rebuild(t.Context(), s, t0); len(found) == 0 || err != nil {
			t.Errorf("rebuilt %v, %v", found, err)
		}
		check(t, s)
	})
}

// The newest two snapshots stay, and the last one of each month.
func TestSnapshotsKept(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	for day := range 40 {
		do(t, s, later(time.Duration(day)*aDay, request(pipeline.TaskID(1+day), fmt.Sprint(day))))
		archiveAt(t, s, testKeep+time.Duration(day+1)*aDay, t0.AddDate(0, 0, day).Format(dayLayout))
	}
	var snapshots []string
	for _, name := range archiveFiles(t, s.dir) {
		if strings.HasPrefix(name, "snapshot-") {
			snapshots = append(snapshots, strings.TrimSuffix(strings.TrimPrefix(name, "snapshot-"), ".json.gz"))
		}
	}
	if want := []string{"2026-11-30", "2026-12-31", "2027-01-06", "2027-01-07"}; !slices.Equal(snapshots, want) {
		t.Errorf("snapshots of %v stay, want %v", snapshots, want)
	}
	check(t, s)
}

// Many days that are due together write only the snapshots that stay.
func TestArchiveBacklog(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	for day := range 10 {
		do(t, s, later(time.Duration(day)*aDay, request(pipeline.TaskID(1+day), fmt.Sprint(day))))
	}
	if days, err := Archive(t.Context(), s, t0.Add(testKeep+100*aDay), testKeep, testProducer); len(days) != 10 || err != nil {
		t.Errorf("archived %v, %v", days, err)
	}
	if files := archiveFiles(t, s.dir); len(files) != 12 {
		t.Errorf("the archive has %v", files)
	}
	check(t, s)
}

// A clock that jumped, forward or back, holds no day up and loses none.
func TestArchiveOddClocks(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	for i, at := range []time.Duration{0, 3000 * aDay, time.Hour, aDay, -aDay, aDay, -400 * aDay, 2 * aDay} {
		do(t, s, later(at, request(pipeline.TaskID(1+i), fmt.Sprint(i))))
	}
	before := allEvents(t, s, core.EventFilter{})
	archiveAt(t, s, testKeep+aDay, "2026-11-29")
	archiveAt(t, s, testKeep+10*aDay, "2026-11-30", "2026-12-01")
	check(t, s)
	do(t, s, later(-2*aDay, request(20, "late")))
	do(t, s, later(200*aDay, request(21, "another")))
	archiveAt(t, s, testKeep+300*aDay, "2026-12-02", "2027-06-17")
	if got := allEvents(t, s, core.EventFilter{}); len(got) != len(before)+2 {
		t.Errorf("%d events, want %d", len(got), len(before)+2)
	}
	check(t, s)
}

// A table that lost events, as by a person with another program, is archived as it is.
func TestArchiveWithGaps(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	someDays(t, s)
	change(t, s, `DELETE FROM events WHERE task = 10`)
	before := allEvents(t, s, core.EventFilter{})
	archiveAt(t, s, testKeep+9*aDay, "2026-11-29", "2026-11-30", "2026-12-01")
	if got := allEvents(t, s, core.EventFilter{}); !reflect.DeepEqual(got, before) {
		t.Errorf("%d of %d events", len(got), len(before))
	}
}

// The ids of commands are kept for 400 days, and those that have no time for ever.
func TestCommandsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		do(t, s, request(1, "old"))
		do(t, s, later(aDay, request(2, "newer")))
		change(t, s, `INSERT INTO commands (id, task, at, sum, file) VALUES ('imported', 1, 0, '', '')`)
		archiveAt(t, s, 4000*aDay, "2026-11-29", "2026-11-30") // the clock is wrong: nothing is forgotten
		if _, known, err := s.Did(t.Context(), "old"); !known || err != nil {
			t.Errorf("a jump of the clock made the store forget a command: %v", err)
		}
		do(t, s, later(311*aDay, request(3, "latest")))
		archiveAt(t, s, 4000*aDay, "2027-10-06")
		for id, want := range map[string]bool{"old": false, "newer": true, "imported": true} {
			if _, got, err := s.Did(t.Context(), id); got != want || err != nil {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		}
	})
}

// An event that cannot be read stays where it is, and that is told.
func TestArchiveOfADamagedEvent(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	someDays(t, s)
	change(t, s, `UPDATE events SET payload = '{"x' WHERE seq = (SELECT min(seq) FROM events)`)
	if days, err := Archive(t.Context(), s, t0.Add(testKeep+9*aDay), testKeep, testProducer); len(days) > 0 || err == nil {
		t.Errorf("archived %v, %v", days, err)
	}
}

// An archive that somebody changed, replaced or removed is refused, and named with the next
// step. Work goes on.
func TestArchiveChanged(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	someDays(t, s)
	archiveAt(t, s, testKeep+aDay, "2026-11-29")
	archiveAt(t, s, testKeep+2*aDay, "2026-11-30")
	path := archiveDirOf(s).path("events-2026-11-29.ndjson.gz")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines, is, err := archiveDirOf(s).read(filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := unseal(whole, int64(len(lines))/2); err == nil || !strings.Contains(err.Error(), "it holds more than") {
		t.Errorf("an archive that is too large: %v", err)
	}
	edited := []byte(strings.Replace(string(lines), "of day 0", "of day 9", 1))
	for name, spoil := range map[string]func(){
		"edited, with its checksum": func() {
			if _, err := archiveDirOf(s).write(filepath.Base(path), edited, is); err != nil {
				t.Fatal(err)
			}
		},
		"cut":     func() { write(whole[:len(whole)/2]) },
		"flipped": func() { b := slices.Clone(whole); b[len(b)/2] ^= 1; write(b) },
		"empty":   func() { write(nil) },
		"removed": func() { os.Remove(path) },
	} {
		spoil()
		_, err := s.Events(t.Context(), core.EventFilter{Task: 1, Archived: true})
		if !errors.Is(err, core.ErrArchive) || !strings.Contains(err.Error(), path) || !strings.Contains(Hint(err), path) {
			t.Errorf("%s: %v, hint %q", name, err, Hint(err))
		}
		if events, damage, err := core.EventsAtHand(t.Context(), s, core.EventFilter{Task: 1}); len(events) != 1 || !errors.Is(damage, core.ErrArchive) || err != nil {
			t.Errorf("%s: at hand %v, %v, %v", name, events, damage, err)
		}
		if events, err := s.Events(t.Context(), core.EventFilter{Task: 12, Archived: true}); len(events) == 0 || err != nil {
			t.Errorf("%s: of another task %v, %v", name, events, err)
		}
		check(t, s) // the snapshots suffice
		if bad, err := BadArchives(t.Context(), s); len(bad) != 1 || !strings.Contains(bad[0].Why, path) || !strings.Contains(bad[0].Do, path) || err != nil {
			t.Errorf("%s: bad archives %v, %v", name, bad, err)
		}
	}
	write(whole)
	if bad, err := BadArchives(t.Context(), s); len(bad) > 0 || err != nil {
		t.Errorf("bad archives %v, %v", bad, err)
	}
	snapshot := archiveDirOf(s).path("snapshot-2026-11-30.json.gz")
	if err := os.WriteFile(snapshot, whole[:40], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), s); err == nil || !strings.Contains(Hint(err), "remove") || !strings.Contains(Hint(err), snapshot) {
		t.Errorf("a damaged snapshot: %v, hint %q", err, Hint(err))
	}
	if bad, err := BadArchives(t.Context(), s); len(bad) != 1 || !strings.Contains(bad[0].Do, "remove") || !strings.Contains(bad[0].Do, snapshot) || err != nil {
		t.Errorf("bad archives %v, %v", bad, err)
	}
	os.Remove(snapshot)
	check(t, s)
	change(t, s, `DELETE FROM events WHERE seq = (SELECT min(seq) FROM events)`)
	if _, err := Check(t.Context(), s); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("an event is missing: %v", err)
	}
}

// Who dies at any step of a day's end leaves each event in the table or in an archive, and
// the next run goes on.
func TestArchiveKilled(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) string{"sqlite": testing.TB.TempDir, "postgres": postgresDir} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := []string{"archive.written:2", "archive.snapshot:2", "archive.settled:2", ":1"} // and each one, as they come
			for n, ended := 1, false; !ended; {
				step := steps[0]
				if steps = steps[1:]; len(steps) == 0 {
					n++
					steps = append(steps, fmt.Sprint(":", n))
				}
				dir := place(t)
				s := opened(t)(openPlace(t.Context(), dir))
				someDays(t, s)
				before := allEvents(t, s, core.EventFilter{})
				ended = len(process(t, dir, step, archives, 0)) > 0
				if got := allEvents(t, s, core.EventFilter{}); !reflect.DeepEqual(got, before) {
					t.Errorf("killed at %s: %d of %d events", step, len(got), len(before))
				}
				check(t, s)
				if _, err := Archive(t.Context(), s, t0.Add(testKeep+9*aDay), testKeep, testProducer); err != nil || liveEvents(t, s) > 0 {
					t.Errorf("killed at %s, and then: %v", step, err)
				}
				if got := allEvents(t, s, core.EventFilter{}); !reflect.DeepEqual(got, before) {
					t.Errorf("killed at %s, and then: %d of %d events", step, len(got), len(before))
				}
				check(t, s)
				if ended && n < 8 {
					t.Errorf("only %d steps", n)
				}
			}
		})
	}
}

// A disk that refuses a step, as one that is full, leaves each event where it was.
func TestArchiveWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		crashtest.Each(t, errno, func(refuse crashtest.Refuse) {
			dir := t.TempDir()
			s := opened(t)(Open(t.Context(), dir, Options{}))
			someDays(t, s)
			before := allEvents(t, s, core.EventFilter{})
			work := func() error {
				_, err := Archive(context.Background(), s, t0.Add(testKeep+9*aDay), testKeep, testProducer)
				return err
			}
			refused, err := refuse(dir, work)
			refused.Told(t, err, false)
			if got := allEvents(t, s, core.EventFilter{}); !reflect.DeepEqual(got, before) {
				t.Errorf("refused %q: %d of %d events", refused, len(got), len(before))
			}
			check(t, s)
			if err := work(); err != nil || liveEvents(t, s) != 0 {
				t.Errorf("refused %q, and then: %v", refused, err)
			}
			check(t, s)
		})
	}
}

// Two programs that archive at once archive each day once.
func TestArchiveTogether(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		a, b := open(), open()
		someDays(t, a)
		before := allEvents(t, a, core.EventFilter{})
		d, err := dueDay(t.Context(), b, t0.Add(testKeep+aDay), testKeep, testProducer)
		if d == nil || err != nil {
			t.Fatal(d, err)
		}
		archiveAt(t, a, testKeep+aDay, "2026-11-29")
		if err := archiveDay(t.Context(), b, d, new(core.State), t0); err == nil {
			t.Error("a day was archived twice")
		}
		if got := allEvents(t, a, core.EventFilter{}); !reflect.DeepEqual(got, before) {
			t.Errorf("%d of %d events", len(got), len(before))
		}
	})
}

// What an envelope was made of comes back.
func TestEnvelopeOfArchives(t *testing.T) {
	t.Parallel()
	s := opened(t)(Open(t.Context(), t.TempDir(), Options{}))
	someDays(t, s)
	for _, e := range allEvents(t, s, core.EventFilter{}) {
		env, err := e.Envelope(s.ID(), testProducer)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		var read core.Envelope
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if back, err := read.Event(); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%+v came back as %+v, %v", e, back, err)
		}
	}
}
