package board

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Readers see a row only once it is durable, and then at once.
func TestInvisibleUntilDurable(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	file := &failingFile{logFile: s.store.journal.file, reached: make(chan struct{}), hold: make(chan struct{})}
	s.store.journal.file = file
	done := make(chan error, 1)
	column := titleColumn(t, s)
	go func() {
		_, err := s.add("", textCell(column, "new"))
		done <- err
	}()
	<-file.reached // the line is written and not synced
	if got := titles(t, s); len(got) != 0 {
		t.Errorf("readers see %v before it is durable", got)
	}
	close(file.hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := titles(t, s); len(got) != 1 {
		t.Errorf("readers see %v after it is durable", got)
	}
}

// A failed write has no effect and is no reason to stop.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "before")
	want, size := dump(t, s), fileSize(t, dir)
	file := &failingFile{logFile: s.store.journal.file, writeErr: errors.New("no space left on device")}
	s.store.journal.file = file
	for range 2 {
		if _, err := s.add(""); !errors.Is(err, errNotWritten) {
			t.Errorf("add: %v, want errNotWritten", err)
		}
	}
	if got := dump(t, s); got != want {
		t.Errorf("a failed write shows: %s", got)
	}
	if got := fileSize(t, dir); got != size {
		t.Errorf("file has %d bytes, want %d", got, size)
	}
	s.store.journal.file = file.logFile // there is room again
	mustAdd(t, s, "after")
	mustClose(t, s)
	if got := titles(t, mustOpen(t, dir)); !slices.Equal(got, []string{"after", "before"}) {
		t.Errorf("rows %v", got)
	}
}

// After a failed fsync nothing is known: the store stops, and says so.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "before")
	s.store.journal.file = &failingFile{logFile: s.store.journal.file, syncErr: errors.New("input/output error")}
	for range 2 {
		if _, err := s.add(""); !errors.Is(err, errUnknownState) {
			t.Errorf("add: %v, want errUnknownState", err)
		}
	}
	if got := titles(t, s); len(got) != 1 {
		t.Errorf("rows %v", got)
	}
	if err := s.Serve(t.Context()); !errors.Is(err, errUnknownState) {
		t.Errorf("serve: %v", err)
	}
	mustClose(t, s)
	mustOpen(t, dir)
}

// What a caller of the API is told of all this.
func TestFailureAnswers(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	create := func() string {
		r := httptest.NewRequest("POST", "http://localhost/api/slackLists.items.create",
			strings.NewReader("list_id="+s.ListID()))
		r.Header.Set("Authorization", "Bearer "+s.Token())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return strings.TrimSpace(w.Body.String())
	}
	file := s.store.journal.file
	s.store.journal.file = &failingFile{logFile: file, writeErr: errors.New("no space left on device")}
	if got, want := create(), `{"ok":false,"error":"internal_error"}`; got != want {
		t.Errorf("full disk: %s, want %s", got, want)
	}
	s.store.journal.file = &failingFile{logFile: file, syncErr: errors.New("input/output error")}
	for range 2 {
		if got, want := create(), `{"ok":false,"error":"fatal_error"}`; got != want {
			t.Errorf("failed sync: %s, want %s", got, want)
		}
	}
	mustClose(t, s)
	if got, want := create(), `{"ok":false,"error":"service_unavailable"}`; got != want {
		t.Errorf("closed: %s, want %s", got, want)
	}
}

// Writers that race with Close are told the truth.
func TestCloseWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	column := titleColumn(t, s)
	var wg sync.WaitGroup
	var written atomic.Int64
	some := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				_, err := s.add("", textCell(column, "x"))
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if written.Add(1) == 20 {
					close(some)
				}
			}
		})
	}
	<-some
	mustClose(t, s)
	wg.Wait()
	if got := len(titles(t, mustOpen(t, dir))); int64(got) != written.Load() {
		t.Errorf("%d rows, %d were answered for", got, written.Load())
	}
}

// A transaction reads its own changes, and one that fails leaves none.
func TestTransactionSeesItself(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	before := mustAdd(t, s, "before")
	want := dump(t, s)
	changedItsMind := errors.New("changed its mind")
	err := s.Edit("", func(tx *Tx) error {
		l := tx.List(s.listID)
		parent, err := tx.Create(l, "", nil)
		if err != nil {
			return err
		}
		step, err := tx.Create(l, parent.ID, nil)
		if err != nil {
			return err
		}
		if _, err := tx.Create(l, step.ID, nil); err == nil {
			t.Error("a step of a step was made")
		}
		if got := tx.countActive(l.ID); got != 3 || len(tx.Rows(l.ID)) != 3 || !slices.Equal(tx.Steps(l.ID, parent.ID), []*Row{step}) {
			t.Errorf("%d rows are active; rows %v", got, tx.Rows(l.ID))
		}
		tx.Delete(tx.Row(l.ID, before))
		tx.Delete(parent)
		if !tx.isGone(l.ID, step.ID) || !tx.isGone(l.ID, before) || tx.isGone(l.ID, "Rec0NOTHING") || tx.countActive(l.ID) != 0 {
			t.Error("the step is not deleted with its row")
		}
		if err := tx.checkParent(l.ID, parent.ID); err == nil {
			t.Error("a deleted row is a parent")
		}
		return changedItsMind
	})
	if !errors.Is(err, changedItsMind) {
		t.Error(err)
	}
	if got := dump(t, s); got != want {
		t.Errorf("rows now\n%s\nwant\n%s", got, want)
	}
}

func TestPanickingTransaction(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	err := s.store.do("", func(*Tx) error { panic("ouch") })
	if err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("got %v", err)
	}
	mustAdd(t, s, "still works")
}

// A failingFile fails, counts and waits at will.
type failingFile struct {
	logFile
	writeErr, syncErr error
	reached, hold     chan struct{} // if not nil: the first Sync closes the one and waits for the other
	syncs             int
}

func (f *failingFile) Write(p []byte) (int, error) {
	if f.writeErr != nil {
		n, _ := f.logFile.Write(p[:len(p)/2])
		return n, f.writeErr
	}
	return f.logFile.Write(p)
}

func (f *failingFile) Sync() error {
	f.syncs++
	if f.reached != nil {
		if f.syncs == 1 {
			close(f.reached)
		}
		<-f.hold
	}
	if f.syncErr != nil {
		return f.syncErr
	}
	return f.logFile.Sync()
}
