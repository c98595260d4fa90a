package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/fsck"
	"otm/internal/incident"
	"otm/pipeline"
)

// dweller has tasks come and go as in A-213: ten a day with three steps each, five agents, and
// some three hundred events, in virtual time.
type dweller struct {
	*patient
	now   time.Time
	tasks pipeline.TaskID
	keep  *housekeeper
}

func newDweller(t *testing.T, keepEvents time.Duration) *dweller {
	h := newHome(t, "")
	h.Config.Times.KeepEvents = keepEvents // also shorter than otm.toml may say
	d := &dweller{patient: &patient{T: t, h: h}, now: time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)}
	h.Now = func() time.Time { return d.now }
	c := bareComponent(h, heartbeat.Detector)
	c.log = slog.New(slog.DiscardHandler)
	d.keep = &housekeeper{c: c}
	return d
}

// do carries commands out on a task, and writes the board.
func (d *dweller) do(id pipeline.TaskID, commands ...core.Command) {
	d.Helper()
	for i := range commands {
		d.now = d.now.Add(time.Minute)
		commands[i].At, commands[i].Task = d.now, id
		if r, ok := commands[i].Do.(core.Report); ok {
			r.Dropped, r.Drop = d.now, fmt.Sprint(d.now.UnixNano(), ".json")
			commands[i].Do, commands[i].ID = r, r.Drop
		}
	}
	outcomes, err := storeOf(d, d.h).Do(d.Context(), commands...)
	if err != nil {
		d.Fatal(err)
	}
	for i, o := range outcomes {
		if o.Err != nil {
			d.Fatalf("%+v: %v", commands[i], o.Err)
		}
	}
	task := outcomes[len(outcomes)-1].Task
	if task == nil || !task.ArchivedAt.IsZero() {
		return
	}
	shown := core.Written{Shown: task.View()}
	if task.RowID == "" {
		shown.Row = "Rec" + id.String()
	}
	for _, s := range task.Steps {
		shown.Steps = append(shown.Steps, core.WrittenStep{Step: s.ID, Row: fmt.Sprint("Step", id, s.ID), Shown: core.StepShown{Title: s.Title, Done: s.Done}})
	}
	do(d, d.h, core.Command{At: d.now, By: core.Component("otm-injector"), Task: id, Do: shown})
}

// day lives a day: each task is done and approved, and leaves the board. The last one of each
// day ends the next day.
func (d *dweller) day() {
	end := d.now.AddDate(0, 0, 1)
	for n := range 10 {
		if n == 0 && d.tasks > 0 {
			d.end(d.tasks)
		}
		d.tasks++
		d.begin(d.tasks)
		if n < 9 {
			d.end(d.tasks)
		}
	}
	wrong := core.Found{Key: "gateway away", Kind: "gateway away", Severity: 2, Code: "gateway_down"}
	watch := core.Command{At: d.now, By: core.Component("otm-dispatcher"), Do: core.Watch{Found: []core.Seen{{Found: wrong, Since: d.now}}}}
	do(d, d.h, watch)
	stand, err := storeOf(d, d.h).Incidents(d.Context(), core.IncidentFilter{Open: true})
	if err != nil || len(stand) != 1 {
		d.Fatal(stand, err)
	}
	do(d, d.h, core.Command{At: d.now.Add(time.Minute), By: watch.By, Do: core.Watch{Gone: []core.Incident{*stand[0]}}})
	if d.now.After(end) {
		d.Fatal("the day was too short")
	}
	d.now = end
}

func (d *dweller) begin(id pipeline.TaskID) {
	agent := fmt.Sprint("agent", int(id%5))
	injector, dispatcher, by := core.Component("otm-injector"), core.Component("otm-dispatcher"), core.ByAgent(agent)
	d.do(id, core.Command{ID: fmt.Sprint("drop ", id), By: injector, Do: core.Request{
		Task: pipeline.Task{ID: id, Title: fmt.Sprintf("Task %d, whose title is about as long as titles are", id), Agent: agent, Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"look at it", "do it", "check it"}},
		Drop: fmt.Sprint(id, ".json"), CreatedAt: d.now,
	}})
	d.do(id, core.Command{By: dispatcher, Do: core.HandOut{Agent: agent, Workspace: "/srv/agents/" + agent}})
	d.do(id, core.Command{By: by, Agent: agent, Do: core.Report{Status: pipeline.InProgress}})
	for step := range 2 {
		d.do(id, core.Command{By: by, Agent: agent, Do: core.Report{Steps: []string{fmt.Sprint(step + 1)}}},
			core.Command{By: by, Do: core.Say{Message: pipeline.Message{Text: "What I found out so far: the second file has what we need, and the first one is of an older version.", Tag: "progress"}}})
	}
}

func (d *dweller) end(id pipeline.TaskID) {
	agent, done := fmt.Sprint("agent", int(id%5)), pipeline.Done
	d.do(id, core.Command{By: core.ByAgent(agent), Agent: agent, Do: core.Report{Steps: []string{"3"}, Status: pipeline.AgentDone, Result: strings.Repeat("The result, in some words. ", 10)}})
	d.do(id, core.Command{By: core.ByPerson("Ada"), Do: core.Edits{Status: &done}})
	d.do(id, core.Command{By: core.Component("otm archive"), Do: core.Archive{Row: pipeline.Row{ID: "Rec" + id.String()}}})
}

// TestYear: at the volume of A-213 every job of the store is done, no event is lost, the states
// follow from the archives, and otm.db stays small. OTM_TEST_WHOLE=1 lives a year.
func TestYear(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "lives through twelve days")
	keep, days := 4, 12
	if crashtest.Whole() {
		keep, days = 90, 365
	}
	d := newDweller(t, time.Duration(keep)*24*time.Hour)
	for day := range days {
		d.day()
		if day%7 == 3 {
			continue // the machine is off, or its clock jumps over the night
		}
		if err := d.keep.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.now = d.now.Add(5 * time.Hour)
	if err := d.keep.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := storeOf(t, d.h)
	last, err := s.LastEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := eventsOf(t, d.h, 0)
	live, err := s.Events(t.Context(), core.EventFilter{})
	if int64(len(all)) != last || all[0].Seq != 1 || err != nil {
		t.Errorf("%d of %d events are there, %v", len(all), last, err)
	}
	if perDay := len(all) / days; perDay < 150 || perDay > 400 {
		t.Errorf("%d events a day, want some 300", perDay)
	}
	if oldest := d.now.AddDate(0, 0, -keep-1).Truncate(24 * time.Hour); len(live) == 0 || live[0].At.Before(oldest.Add(-time.Hour)) {
		t.Errorf("the oldest event in the table is of %v, want none before %v", live[0].At, oldest)
	}
	archives, _ := filepath.Glob(filepath.Join(d.h.Dir, store.ArchiveDir, "events-*"))
	snapshots, _ := filepath.Glob(filepath.Join(d.h.Dir, store.ArchiveDir, "snapshot-*"))
	backups, _ := filepath.Glob(filepath.Join(d.h.Dir, backupDir, "*"))
	if len(archives) != days-keep || len(backups) != keptBackups || len(snapshots) < 2 || len(snapshots) > 14 {
		t.Errorf("%d archives, want %d; %d backups, %d snapshots", len(archives), days-keep, len(backups), len(snapshots))
	}
	d.must("otm", "rebuild", "--check")
	for _, path := range snapshots {
		os.Remove(path)
	}
	d.must("otm", "rebuild", "--check") // from all archives
	want := statesOf(t, d.h)
	damage(t, d.h, "DELETE FROM tasks", "DELETE FROM agents", "DELETE FROM wakes", "DELETE FROM incidents")
	d.must("otm", "rebuild")
	if got := statesOf(t, d.h); !reflect.DeepEqual(got, want) {
		t.Errorf("%d tasks were rebuilt otherwise than %d were", len(got), len(want))
	}
	size := func(pattern string) (bytes int64) {
		paths, _ := filepath.Glob(filepath.Join(d.h.Dir, pattern))
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	db, archived := size(store.FileName), size("archive/events-*")
	t.Logf("%d days, %d tasks, %d events, of which %d in the table: otm.db %d KiB, archives %d KiB", days, d.tasks, len(all), len(live), db>>10, archived>>10)
	if db > 64<<20 {
		t.Errorf("otm.db has %d bytes", db)
	}
	code, out := d.main("otm", "stats", "--year", "2026", "--json")
	var stats Stats
	if err := json.Unmarshal([]byte(out), &stats); code != cli.OK || err != nil {
		t.Fatalf("exit %d: %v: %s", code, err, out)
	}
	if stats.Created != days*10 || stats.Done != days*10-1 || stats.TakenToDone.Count != days*10-1 || len(stats.Agents) < 5 {
		t.Errorf("the figures of the year: %+v", stats)
	}
	if i := slices.IndexFunc(stats.Incidents, func(i *incident.Tally) bool { return i.Kind == "gateway away" }); i < 0 || stats.Incidents[i].Period.Opened != days {
		t.Errorf("the incidents of the year: %+v", stats.Incidents)
	}
	if mirrored := strings.Count(content(t, filepath.Join(d.h.LogDir(), eventsLog)), "\n"); !crashtest.Whole() && mirrored != len(all) {
		t.Errorf("the log has %d of %d events", mirrored, len(all))
	}
}

// TestEventLog: each event has one line, also after the last line was cut, and after the log was
// rotated; what is wrong has one in the other log.
func TestEventLog(t *testing.T) {
	t.Parallel()
	d := newDweller(t, 0)
	mirror := func() {
		t.Helper()
		if err := d.keep.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.begin(1)
	mirror()
	path, wrong := filepath.Join(d.h.LogDir(), eventsLog), filepath.Join(d.h.LogDir(), errorsLog)
	lines := strings.Split(strings.TrimSuffix(content(t, path), "\n"), "\n")
	if want := `[2026-01-01T00:30:00.000Z] [-] [otm-create] [T-00001] [agent1] {"sequence":1,"event_type":"TaskRequested","payload":{`; !strings.HasPrefix(lines[0], want) {
		t.Errorf("the first line is %s", lines[0])
	}
	do(t, d.h, core.Command{At: d.now, By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: core.Found{Key: "k", Kind: "silent", Err: "ERR-01", Severity: 1, Task: 1, Code: "task_quiet"}, Since: d.now}}}})
	mirror()
	if said := content(t, wrong); !strings.Contains(said, "] [ERR-01] [warning] [T-00001] [-] ") || !strings.HasSuffix(said, " [correction: none]\n") || strings.Count(said, "\n") != 1 {
		t.Errorf("what is wrong: %s", said)
	}
	whole := content(t, path)
	if err := os.WriteFile(path, []byte(whole[:len(whole)-20]), 0o600); err != nil { // the disk was full
		t.Fatal(err)
	}
	d.keep.mirrored = 0
	mirror()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	d.end(1)
	mirror()
	d.checkLog(path+".1", path)
}

// checkLog checks that each event has one line in a log, in order.
func (d *dweller) checkLog(paths ...string) {
	d.Helper()
	var got, want []int64
	for _, name := range paths {
		for line := range strings.Lines(content(d.T, name)) {
			var e mirroredEvent
			_, doc, _ := strings.Cut(line, "] {")
			if json.Unmarshal([]byte("{"+doc), &e) == nil {
				got = append(got, e.Sequence)
			}
		}
	}
	for _, e := range eventsOf(d, d.h, 0) {
		want = append(want, e.Seq)
	}
	if !slices.Equal(got, want) {
		d.Errorf("the log has %v, want %v", got, want)
	}
}

// TestHousekeepingWhereTheDiskFails: what a disk refuses, or a full one, is done by the next run:
// each event is in one place and has its line, and the backup is made.
func TestHousekeepingWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	crashtest.EachInPart(t, syscall.ENOSPC, func(refuse crashtest.Refuse) {
		d := newDweller(t, time.Hour)
		d.begin(1)
		d.end(1)
		storeOf(t, d.h)
		d.now = d.now.Add(30 * time.Hour)
		work := func() error { return d.keep.keep(t.Context()) }
		refused, err := refuse(d.h.Dir, work)
		refused.Told(t, err, false)
		if err := work(); err != nil {
			t.Errorf("refused %q, and then: %v", refused, err)
		}
		for _, path := range []string{"archive/events-2026-01-01.ndjson.gz", "archive/snapshot-2026-01-01.json.gz", "backup/otm.db-2026-01-02"} {
			if !exists(filepath.Join(d.h.Dir, path)) {
				t.Errorf("refused %q: %s is missing", refused, path)
			}
		}
		if live, err := storeOf(t, d.h).Events(t.Context(), core.EventFilter{}); len(live) > 0 || err != nil {
			t.Errorf("refused %q: %d events stay, %v", refused, len(live), err)
		}
		d.checkLog(filepath.Join(d.h.LogDir(), eventsLog))
		d.must("otm", "rebuild", "--check")
	})
}

// TestBackup: a backup is made each day after four o'clock, by the clock of the machine, and on
// demand; it can be used.
func TestBackup(t *testing.T) {
	t.Parallel()
	d := newDweller(t, 0)
	backups := func() (names []string) {
		t.Helper()
		if err := d.keep.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		paths, _ := filepath.Glob(filepath.Join(d.h.Dir, backupDir, "*"))
		for _, path := range paths {
			names = append(names, strings.TrimPrefix(filepath.Base(path), store.FileName+"-"))
		}
		return names
	}
	d.begin(1)
	if got := backups(); len(got) > 0 {
		t.Errorf("a new store has backups %v", got)
	}
	d.now = time.Date(2026, 1, 1, 4, 0, 0, 0, time.UTC)
	if got := backups(); !slices.Equal(got, []string{"2026-01-01"}) {
		t.Errorf("at four there are %v", got)
	}
	d.now = d.now.AddDate(0, 0, 3).Add(-time.Minute) // the machine slept; it is not yet four
	if got := backups(); !slices.Equal(got, []string{"2026-01-01", "2026-01-03"}) {
		t.Errorf("after two nights there are %v", got)
	}
	damage(t, d.h, `INSERT INTO archives (day, first, last, until_at, sum) VALUES ('2025-12-31', 1, 1, 0, 'its file is missing')`)
	d.now = d.now.AddDate(0, 0, 1)
	if got := backups(); len(got) != 3 {
		t.Errorf("with a damaged archive there are %v", got)
	}
	damage(t, d.h, `DELETE FROM archives`)
	d.now = d.now.Add(-72 * time.Hour) // the clock is set back
	if got := backups(); len(got) != 3 {
		t.Errorf("after the clock was set back there are %v", got)
	}
	path := filepath.Join(t.TempDir(), "copy")
	if code, out := d.main("otm", "backup", path); code != cli.OK || out != path+"\n" || !exists(path) {
		t.Errorf("on demand: exit %d: %s", code, out)
	}
	if code, out := d.main("otm", "backup", path); code == cli.OK {
		t.Errorf("over a file: exit %d: %s", code, out)
	}
	for range 2 { // within a second
		if code, out := d.main("otm", "backup"); code != cli.OK {
			t.Errorf("into the usual place: exit %d: %s", code, out)
		}
		d.now = d.now.Add(time.Millisecond)
	}
	want := stateOf(t, d.h, 1)
	emptyStore(t, d.h)
	if err := os.Rename(path, filepath.Join(d.h.Dir, store.FileName)); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, d.h, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("the backup has %+v, want %+v", got, want)
	}
	if !slices.Contains(fsck.TempFolders, backupDir) || !slices.Contains(fsck.TempFolders, store.ArchiveDir) {
		t.Error("nobody removes what a crash leaves in archive and backup")
	}
}

// TestStats: the figures are those of the period.
func TestStats(t *testing.T) {
	t.Parallel()
	d := newDweller(t, 0)
	d.now = time.Now().Add(-48 * time.Hour)
	d.begin(1)
	d.now = d.now.Add(time.Hour)
	d.end(1)
	d.begin(2)
	d.now = time.Now()
	stats := func(args ...string) (s Stats) {
		t.Helper()
		code, out := d.main(append([]string{"otm", "stats", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &s); code != cli.OK || err != nil {
			t.Fatalf("exit %d: %v: %s", code, err, out)
		}
		return s
	}
	s := stats()
	if s.Created != 2 || s.Done != 1 || s.TakenToDone.Count != 1 || s.TakenToDone.Average < 3600 || s.TakenToDone.Longest > 4200 || s.Review.Count != 1 || s.Status[pipeline.InProgress] != 1 {
		t.Errorf("of 30 days: %+v", s)
	}
	if len(s.Agents) != 2 || s.Agents[0].Done != 1 || s.Agents[0].Runs.Count != 1 || s.Agents[1].Open != 1 || len(s.Incidents) < 12 {
		t.Errorf("by agent: %+v", s.Agents)
	}
	if s := stats("--since", "1h"); s.Created != 0 || s.Done != 0 || s.TakenToDone.Count != 0 || s.Status[pipeline.InProgress] != 1 {
		t.Errorf("of an hour: %+v", s)
	}
	if code, out := d.main("otm", "stats", "--year", "1999"); code != cli.OK || !strings.Contains(out, "1999-12") || !strings.Contains(out, "0 created, 0 done") {
		t.Errorf("of another year: exit %d: %s", code, out)
	}
	if code, out := d.main("otm", "stats", "--year", "1999", "--since", "1h"); code != cli.Usage {
		t.Errorf("both: exit %d: %s", code, out)
	}
}
