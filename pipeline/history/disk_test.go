package history

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses, it is told, what
// was there stays, and what is added again by who looks first stands there once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"new": "", "whole": "\n", "torn": "\n{\"taskId\":\"T-000", "without an end": " "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				dir := t.TempDir()
				if end != "" {
					spoilEnd(t, dir, end)
				}
				had, _ := read(t, dir)
				refusal, err := refuse(dir, func() error { return Append(dir, []Entry{entry(2), entry(3)}) })
				refusal.Told(t, err, false)
				have, _ := read(t, dir)
				if !strings.HasPrefix(have, had) {
					t.Fatalf("refused %q: %q is left of %q", refusal, have, had)
				}
				for _, e := range []Entry{entry(2), entry(3)} {
					if !strings.Contains(have, e.TaskID.String()) {
						if err := Append(dir, []Entry{e}); err != nil {
							t.Fatal(err)
						}
					}
				}
				want := strings.TrimSpace(had + " T-00002 T-00003")
				if have, bad := read(t, dir); bad != 0 || have != want {
					t.Fatalf("refused %q: in the end %q, and %d bad lines; want %q", refusal, have, bad, want)
				}
			})
		})
	}
}

// spoilEnd makes a history of one entry whose line ends so.
func spoilEnd(t *testing.T, dir, end string) {
	t.Helper()
	if err := Append(dir, []Entry{entry(1)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, FileName)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.TrimSuffix(string(data), "\n")+end), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadRefused: a history that could not be read is never taken for one that
// ends there.
func TestReadRefused(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := t.TempDir()
		if err := Append(dir, []Entry{entry(1)}); err != nil {
			t.Fatal(err)
		}
		refusal, err := refuse(dir, func() (last error) {
			for _, err := range Read(dir) {
				last = err
			}
			return last
		})
		refusal.Told(t, err, false)
	})
}

// TestReadBack: what the disk did not keep as it was written is no success, and
// harms nothing that comes after it.
func TestReadBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spoiled := false
	crashtest.Below(t, dir, func(step, path string) error {
		if step != "read" || spoiled {
			return nil
		}
		spoiled = true
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[0] = 'X'
		return os.WriteFile(path, data, 0o600)
	})
	if err := Append(dir, []Entry{entry(1)}); err == nil || !strings.Contains(err.Error(), "not what was written") {
		t.Errorf("Append = %v", err)
	}
	if err := Append(dir, []Entry{entry(1)}); err != nil {
		t.Error(err)
	}
	if ids, bad := read(t, dir); ids != "T-00001" || bad != 1 {
		t.Errorf("it holds %q, and %d bad lines", ids, bad)
	}
}

// TestFromRecord: an entry that was lost is made again of what the record knows.
func TestFromRecord(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	rec := &pipeline.Record{
		TaskID: 7, Title: "A", Agent: "devdas", RowID: "Rec7", Status: pipeline.Done, Result: "r", CreatedAt: at, ArchivedAt: &at,
		Steps: []pipeline.StepRecord{{Title: "a", RowID: "Rec8", Done: true}, {Title: "b", RowID: "Rec9"}},
	}
	dir := t.TempDir()
	if err := Append(dir, []Entry{FromRecord(rec)}); err != nil {
		t.Fatal(err)
	}
	for e, err := range Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		row := e.Row
		if e.TaskID != 7 || !e.ArchivedAt.Equal(at) || row.ID != "Rec7" || row.Title != "A" || row.Task() != 7 || row.Assignee != "devdas" || row.Status != pipeline.Done || row.Result != "r" || row.Created != at.Unix() {
			t.Errorf("entry %+v", e)
		}
		if len(e.Steps) != 2 || e.Steps[0].Parent != "Rec7" || !e.Steps[0].StepDone() || e.Steps[1].StepDone() || e.Record == nil {
			t.Errorf("steps %+v, record %+v", e.Steps, e.Record)
		}
	}
}
