package board

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// churn makes history: rows that are edited and deleted again and again.
func churn(t *testing.T, s *Server, rounds int) {
	t.Helper()
	row := mustAdd(t, s, "kept")
	column := titleColumn(t, s)
	for i := range rounds {
		if err := s.edit(row, textCell(column, fmt.Sprint("edit ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.remove(mustAdd(t, s, "deleted")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.add(row, textCell(column, "step")); err != nil {
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
	if err := s.store.do("", func(*Tx) error { s.store.journal.puts += 2 * runGarbage; return nil }); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, "one more")
	mustAdd(t, s, "and one in the new file")
	if after := fileSize(t, dir); after >= before*2/3 {
		t.Errorf("%d bytes became %d", before, after)
	}
	want := dump(t, s)
	mustClose(t, s)
	if got := dump(t, mustOpen(t, dir)); got != want {
		t.Errorf("after reopening: got\n%s\nwant\n%s", got, want)
	}
}

// A compaction that did not happen changes nothing; one with an unknown outcome
// stops the store.
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
	if err := s.remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := s.store.do("", func(*Tx) error { return s.store.journal.compact(s.store.state) }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, dir)
	s.store.view(func(st *state) {
		if !st.shelves[s.listID].gone[gone] {
			t.Error("the deleted row is forgotten")
		}
	})
}
