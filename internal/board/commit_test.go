package board

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/internal/sqlite"
)

// Readers see a row only once it is durable, and then at once.
func TestInvisibleUntilDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	column := titleColumn(t, s)
	reached, hold := make(chan struct{}), make(chan struct{})
	crashtest.Below(t, dir, func(step, _ string) error {
		if step == "commit" {
			close(reached)
			<-hold
		}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.add("", textCell(column, "new"))
		done <- err
	}()
	<-reached // the row is written and not committed
	if got := titles(t, s); len(got) != 0 {
		t.Errorf("readers see %v before it is durable", got)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := titles(t, s); len(got) != 1 {
		t.Errorf("readers see %v after it is durable", got)
	}
}

// A failed write has no effect and is no reason to stop. The caller of the API
// learns of it, as of a database that others keep locked.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "before")
	want := dump(t, s)
	for _, c := range []struct {
		step   string
		err    error
		answer string
	}{
		{"commit", syscall.ENOSPC, "internal_error"},
		{"commit", syscall.EIO, "internal_error"},
		{"begin", sqlite.ErrBusy, "service_unavailable"},
	} {
		crashtest.Below(t, dir, func(step, _ string) error {
			if step == c.step {
				return c.err
			}
			return nil
		})
		if _, err := s.add(""); !errors.Is(err, c.err) {
			t.Errorf("add: %v, want %v", err, c.err)
		}
		if got, want := create(s), `{"ok":false,"error":"`+c.answer+`"}`; got != want {
			t.Errorf("%v at %s: %s, want %s", c.err, c.step, got, want)
		}
		if got := dump(t, s); got != want {
			t.Errorf("a failed write shows: %s", got)
		}
	}
	crashtest.Below(t, dir, func(string, string) error { return nil }) // there is room again
	mustAdd(t, s, "after")
	mustClose(t, s)
	if got, want := create(s), `{"ok":false,"error":"service_unavailable"}`; got != want {
		t.Errorf("closed: %s, want %s", got, want)
	}
	if got := titles(t, mustOpen(t, dir)); !slices.Equal(got, []string{"after", "before"}) {
		t.Errorf("rows %v", got)
	}
}

// create calls items.create, and returns the answer.
func create(s *Server) string {
	r := httptest.NewRequest("POST", "http://localhost/api/slackLists.items.create", strings.NewReader("list_id="+s.ListID()))
	r.Header.Set("Authorization", "Bearer "+s.Token())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return strings.TrimSpace(w.Body.String())
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
		l := tx.List(s.ListID())
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
		steps := tx.Steps(l.ID, parent.ID)
		if got := tx.count(l.ID); got != 3 || len(tx.Rows(l.ID)) != 3 || len(steps) != 1 || steps[0].ID != step.ID {
			t.Errorf("%d rows are active; rows %v", got, tx.Rows(l.ID))
		}
		tx.Delete(tx.Row(l.ID, before))
		tx.Delete(parent)
		if tx.Row(l.ID, step.ID) != nil || tx.Row(l.ID, before) != nil || tx.count(l.ID) != 0 {
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
	err := s.Edit("", func(*Tx) error { panic("ouch") })
	if err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("got %v", err)
	}
	mustAdd(t, s, "still works")
}
