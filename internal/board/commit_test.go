package board

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		_, err := s.AddRow("", s.ListID(), TextCell(column, "new"))
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

// All that wait share one fsync.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	file := &failingFile{logFile: s.store.journal.file, reached: make(chan struct{}), hold: make(chan struct{})}
	s.store.journal.file = file
	column := titleColumn(t, s)
	const writers = 50
	var wg sync.WaitGroup
	add := func() {
		defer wg.Done()
		if _, err := s.AddRow("", s.ListID(), TextCell(column, "x")); err != nil {
			t.Error(err)
		}
	}
	wg.Add(1)
	go add()
	<-file.reached
	wg.Add(writers)
	for range writers {
		go add()
	}
	for len(s.store.requests) < writers { // all but the first stand in line
		runtime.Gosched()
	}
	close(file.hold)
	wg.Wait()
	if got := len(titles(t, s)); got != writers+1 {
		t.Errorf("%d rows, want %d", got, writers+1)
	}
	if file.syncs != 2 {
		t.Errorf("%d fsyncs for %d rows, want 2", file.syncs, writers+1)
	}
}

// held is a board whose committer waits in a transaction until release is called,
// so that what comes meanwhile stands in line. It is for a bubble of synctest.
func held(t *testing.T) (s *Server, release func()) {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	go s.store.do("", func(*tx) error { <-hold; return nil })
	synctest.Wait()
	return s, func() { close(hold) }
}

// More than one fsync answers for are written in several, and all are answered.
// Who cannot even stand in line when the board closes, is told.
func TestFullLine(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, release := held(t)
			file := &failingFile{logFile: s.store.journal.file}
			s.store.journal.file = file
			column := titleColumn(t, s)
			const outside = 10
			var added, closed atomic.Int64
			var writers sync.WaitGroup
			for range maxBatch + outside {
				writers.Go(func() {
					switch _, err := s.AddRow("", s.ListID(), TextCell(column, "x")); {
					case err == nil:
						added.Add(1)
					case errors.Is(err, ErrClosed):
						closed.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			synctest.Wait() // all stand in line, or before it
			var wantClosed int64
			if closes {
				wantClosed = outside
				writers.Go(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			release()
			writers.Wait()
			if added.Load() != maxBatch+outside-wantClosed || closed.Load() != wantClosed {
				t.Errorf("closing %t: %d added, %d told that it is closed", closes, added.Load(), closed.Load())
			}
			if got := len(titles(t, s)); int64(got) != added.Load() {
				t.Errorf("closing %t: %d rows, %d were answered for", closes, got, added.Load())
			}
			if want := map[bool]int{false: 2, true: 1}[closes]; file.syncs != want {
				t.Errorf("closing %t: %d fsyncs, want %d", closes, file.syncs, want)
			}
			s.Close()
		})
	}
}

// Whoever is the last that the committer takes, is told what came of it; whom it
// does not take, that the board is closed.
func TestLastInLine(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for range 100 { // which of two channels is looked at first is drawn
		for _, taken := range []bool{true, false} {
			s := &store{requests: make(chan *commit), closing: make(chan struct{}), stopped: make(chan struct{})}
			want := ErrClosed
			if taken {
				want = refused
			}
			go func() {
				if c := <-s.requests; taken {
					c.err = refused
					close(c.done)
				}
				close(s.stopped)
			}()
			if err := s.do("", nil); !errors.Is(err, want) {
				t.Fatalf("taken %t: %v, want %v", taken, err, want)
			}
		}
	}
}

// Transactions that are made durable together see each other's changes, as if each
// had been alone.
func TestBatchSeesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, release := held(t)
		code := func(err error) string {
			var e *Error
			if errors.As(err, &e) {
				return e.Code
			}
			return fmt.Sprint(err)
		}
		var ids [2]string // of the lists
		var parent, step *row
		add := func(t *tx, list int, under string) (*row, error) {
			l := t.findList(ids[list])
			if l == nil {
				return nil, refuse("list_not_found")
			}
			return s.createRow(t, l, rowInput{parent: under}, Quirks{})
		}
		wantLists := func(tx *tx, want int) {
			if got := tx.countLists(); got != want {
				t.Errorf("a transaction sees %d lists, want %d", got, want)
			}
		}
		var writers sync.WaitGroup
		for i, c := range []struct {
			fn   func(*tx) error
			code string
		}{
			{func(t *tx) error {
				for i := range ids {
					l := t.newList(listInput{name: "X", columns: []column{{ID: "Col1", Name: "X", Key: "x", Type: "text", Primary: true}, {ID: "Col2", Name: "Y", Key: "y", Type: "text"}}})
					t.putList(l)
					ids[i] = l.ID
				}
				return nil
			}, "<nil>"},
			{func(t *tx) (err error) { parent, err = add(t, 0, ""); return err }, "<nil>"},
			{func(t *tx) (err error) { step, err = add(t, 0, parent.ID); return err }, "<nil>"},
			{func(t *tx) (err error) { _, err = add(t, 0, step.ID); return err }, "invalid_args"},
			{func(t *tx) (err error) { _, err = add(t, 1, ""); return err }, "<nil>"},
			{func(tx *tx) error {
				wantLists(tx, 3)
				if got := tx.countActive(ids[0]); got != 2 {
					t.Errorf("a transaction sees %d rows, want 2", got)
				}
				return nil
			}, "<nil>"},
			{func(*tx) error { return errors.New("refused, and leaves nothing") }, "refused, and leaves nothing"},
			{func(tx *tx) error {
				if got := tx.allRows(ids[0]); len(got) != 2 || !slices.Contains(got, parent) || !slices.Contains(got, step) {
					t.Errorf("a transaction sees the rows %v", got)
				}
				deleteRow(tx, tx.findRow(ids[0], parent.ID))
				return nil
			}, "<nil>"},
			{func(tx *tx) error {
				if !tx.isGone(ids[0], step.ID) || tx.isGone(ids[0], "Rec0NOTHING") {
					t.Error("the step is not deleted with its row")
				}
				return tx.checkParent(ids[0], parent.ID)
			}, "invalid_args"},
			{func(t *tx) error { t.dropList(ids[1]); return nil }, "<nil>"},
			{func(t *tx) (err error) { _, err = add(t, 1, ""); return err }, "list_not_found"},
			{func(t *tx) error {
				t.dropList(s.listID)
				wantLists(t, 1)
				return errors.New("changed its mind")
			}, "changed its mind"},
		} {
			writers.Go(func() {
				if got := code(s.store.do("", c.fn)); got != c.code {
					t.Errorf("transaction %d: %s, want %s", i, got, c.code)
				}
			})
			synctest.Wait() // in this order
		}
		release()
		writers.Wait()
		want := dump(t, s)
		mustClose(t, s)
		again, err := Open(s.opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(t, again); got != want || strings.Contains(got, ids[1]) || !strings.Contains(got, "gone "+parent.ID) && !strings.Contains(got, "gone "+step.ID) {
			t.Errorf("opened again:\n%s\nwant\n%s", got, want)
		}
		mustClose(t, again)
	})
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
		if _, err := s.AddRow("", s.ListID()); !errors.Is(err, errNotWritten) {
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
		if _, err := s.AddRow("", s.ListID()); !errors.Is(err, errUnknownState) {
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
			strings.NewReader("list_id="+s.ListID()+"&token="+s.Token()))
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
				_, err := s.AddRow("", s.ListID(), TextCell(column, "x"))
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

func TestPanickingTransaction(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	err := s.store.do("", func(*tx) error { panic("ouch") })
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
