package board

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// churn makes history: rows that are edited and deleted again and again.
func churn(t *testing.T, s *Server, rounds int) {
	t.Helper()
	row := mustAdd(t, s, "kept")
	column := titleColumn(t, s)
	for i := range rounds {
		if err := s.EditRow("", s.ListID(), row, TextCell(column, fmt.Sprint("edit ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteRow("", s.ListID(), mustAdd(t, s, "deleted")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddStep("", s.ListID(), row, TextCell(column, "step")); err != nil {
		t.Fatal(err)
	}
}

func TestCompactionAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	churn(t, s, openGarbage+20)
	want := dump(t, s)
	mustClose(t, s)
	before := fileSize(t, dir)
	var logged bytes.Buffer
	s = mustOpenLogged(t, dir, &logged)
	if after := fileSize(t, dir); after > before/20 || !strings.Contains(logged.String(), "compacted store") {
		t.Errorf("%d bytes became %d; log %q", before, after, logged.String())
	}
	if got := dump(t, s); got != want {
		t.Errorf("compaction changed the rows: got\n%s\nwant\n%s", got, want)
	}
	mustAdd(t, s, "appended after compaction")
	want = dump(t, s)
	mustClose(t, s)
	if got := dump(t, mustOpen(t, dir)); got != want {
		t.Errorf("after reopening: got\n%s\nwant\n%s", got, want)
	}
}

func TestCompactionAtRunTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	churn(t, s, 20)
	before := fileSize(t, dir)
	// As if all those entries had been written.
	if err := s.store.do("", func(*tx) error { s.store.journal.puts += 2 * runGarbage; return nil }); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, "one more")
	mustAdd(t, s, "and one in the new file") // the committer comes to it after compacting
	if after := fileSize(t, dir); after >= before*2/3 {
		t.Errorf("%d bytes became %d", before, after)
	}
	want := dump(t, s)
	mustClose(t, s)
	if got := dump(t, mustOpen(t, dir)); got != want {
		t.Errorf("after reopening: got\n%s\nwant\n%s", got, want)
	}
}

// A compaction that did not happen changes nothing; one of which we cannot
// know what happened stops the store.
func TestFailedCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "kept")
	j := s.store.journal
	if err := j.judgeReplace(errors.New("disk full")); err == nil || errors.Is(err, errUnknownState) {
		t.Errorf("our file has the name: %v", err)
	}
	path := filepath.Join(dir, rowsFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := j.judgeReplace(errors.New("sync failed")); !errors.Is(err, errUnknownState) {
		t.Errorf("no file has the name: %v", err)
	}
	write(t, path, raw)
	if err := j.judgeReplace(errors.New("sync failed")); !errors.Is(err, errUnknownState) {
		t.Errorf("another file has the name: %v", err)
	}
}

// Deleted rows are remembered across compaction.
func TestTombstonesSurviveCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	gone := mustAdd(t, s, "gone")
	if err := s.DeleteRow("", s.ListID(), gone); err != nil {
		t.Fatal(err)
	}
	if err := s.store.do("", func(*tx) error { return s.store.journal.compact(s.store.state) }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, dir)
	s.store.view(func(st *state) {
		if _, ok := st.shelves[s.listID].gone[gone]; !ok {
			t.Error("the deleted row is forgotten")
		}
	})
	var e *Error
	if err := s.RestoreRow("", s.ListID(), gone); !errors.As(err, &e) || e.Code != "record_deleted" {
		t.Errorf("restore: %v, want record_deleted", err)
	}
}

// TestStoreTakenAway: what somebody does to the store while the board runs loses no
// row that was answered for, and what they put there is kept.
func TestStoreTakenAway(t *testing.T) {
	t.Parallel()
	replace := func(path string) error {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+".new", data, 0o600)
		}
		return errors.Join(err, os.Rename(path+".new", path))
	}
	for name, c := range map[string]struct {
		do   func(path string) error
		kept int // files beside it
	}{
		"removed":             {os.Remove, 0},
		"replaced by a copy":  {replace, 1},
		"emptied":             {func(path string) error { return os.Truncate(path, 0) }, 1},
		"cut":                 {func(path string) error { return os.Truncate(path, 100) }, 1},
		"written into":        {func(path string) error { return appendTo(path, "mine\n") }, 1},
		"a directory instead": {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, -1},
	} {
		for _, then := range []string{"a write", "the end"} {
			t.Run(name+", "+then, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				var logged bytes.Buffer
				s := mustOpenLogged(t, dir, &logged)
				row := mustAdd(t, s, "answered for")
				path := filepath.Join(dir, rowsFile)
				if err := c.do(path); err != nil {
					t.Fatal(err)
				}
				var err error
				if then == "a write" {
					err = s.EditRow("", s.ListID(), row, TextCell(titleColumn(t, s), "answered for, too"))
				}
				want := dump(t, s)
				err = errors.Join(err, s.Close())
				if c.kept < 0 { // a person has to take it away
					if err == nil || !strings.Contains(err.Error(), rowsFile) {
						t.Errorf("told: %v", err)
					}
					return
				}
				if err != nil || !strings.Contains(logged.String(), "it is written anew") {
					t.Errorf("%v; log %s", err, &logged)
				}
				if aside, _ := filepath.Glob(path + ".torn-*"); len(aside) != c.kept {
					t.Errorf("kept beside it are %q", aside)
				}
				if got := dump(t, mustOpen(t, dir)); got != want {
					t.Errorf("after reopening: got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestStoreTakenAwayFromAFullDisk: while it cannot be written anew, nothing is answered
// for, and then all is there.
func TestStoreTakenAwayFromAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	row := mustAdd(t, s, "answered for")
	path := filepath.Join(dir, rowsFile)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	full := true
	crashtest.Below(t, path, func(step, _ string) error {
		if full && step == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	edit := func() error { return s.EditRow("", s.ListID(), row, TextCell(titleColumn(t, s), "edited")) }
	for range 2 {
		if err := edit(); !errors.Is(err, errNotWritten) || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	full = false
	if err := edit(); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	mustClose(t, s)
	if aside, _ := filepath.Glob(path + ".torn-*"); len(aside) != 1 {
		t.Errorf("kept beside it are %q", aside)
	}
	if got := dump(t, mustOpen(t, dir)); got != want {
		t.Errorf("after reopening: got\n%s\nwant\n%s", got, want)
	}
}
