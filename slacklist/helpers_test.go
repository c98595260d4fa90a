package slacklist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// clock is a clock that only moves when it is told to, or slept on.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now().Round(0).Truncate(time.Second)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *clock) Sleep(_ context.Context, d time.Duration) error {
	c.Advance(d)
	return nil
}

// world is a board, a clock for it and for its clients, and a data directory.
type world struct {
	*boardtest.Board
	t     *testing.T
	clock *clock
	dir   string
}

// due is when a method may be called.
func (w *world) due(method string, budget float64) time.Time {
	w.t.Helper()
	s, err := readSnapshot(filepath.Join(w.dir, "board", "snapshot.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return s.due(method, budget, w.clock.Now())
}

func newWorld(t *testing.T, options ...boardtest.Option) *world {
	t.Helper()
	w := &world{t: t, clock: newClock(), dir: t.TempDir()}
	options = append(options, func(o *boardtest.Options) { o.Now = w.clock.Now })
	w.Board = boardtest.Start(t, options...)
	return w
}

// client returns a new client on the world's directory, as another process
// would have it.
func (w *world) client(edits ...func(*Options)) *Client {
	o := Options{
		Dir: w.dir, URL: w.URL, ListID: w.ListID, Token: w.Token, Now: w.clock.Now,
		OpenAssignees: w.ListID == w.Server.ListID(),
	}
	for _, edit := range edits {
		edit(&o)
	}
	c := New(o)
	c.sleep = w.clock.Sleep
	return c
}

// batch runs f in a batch, which must end well.
func (w *world) batch(c *Client, f func(s *Session)) {
	w.t.Helper()
	s, err := c.begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	f(s)
	if err := s.End(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) walk(s *Session) {
	w.t.Helper()
	if err := s.Refresh(w.t.Context(), 0); err != nil {
		w.t.Fatal(err)
	}
}

// add makes a task's row by the client and returns its id.
func (w *world) add(s *Session, id pipeline.TaskID, cells ...pipeline.Cell) string {
	w.t.Helper()
	row, err := s.Create(w.t.Context(), "", append(taskCells(id), cells...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

func (w *world) set(s *Session, changes ...pipeline.Change) {
	w.t.Helper()
	if err := s.Update(w.t.Context(), changes...); err != nil {
		w.t.Fatal(err)
	}
}

// person edits a row on the board's page.
func (w *world) person(row string, cells ...boardtest.Cell) {
	w.t.Helper()
	if err := w.Server.EditRow("U0PERSON", w.ListID, row, cells...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) status(s pipeline.Status) boardtest.Cell {
	w.t.Helper()
	return boardtest.SelectCell(w.Column(w.t, "Status", "select"), string(s))
}

// layerOf puts another layer of faults in front of a board and returns it with
// its address.
func layerOf(t testing.TB, s *boardtest.Server) (*boardtest.Layer, string) {
	l := boardtest.NewLayer(s.Handler())
	web := httptest.NewServer(l)
	t.Cleanup(func() {
		l.Close()
		web.Close()
	})
	return l, web.URL + "/api/"
}

// taskCells are the cells of a new task.
func taskCells(id pipeline.TaskID) []pipeline.Cell {
	return []pipeline.Cell{
		{Field: pipeline.FieldTitle, Text: fmt.Sprint("Task ", int(id))},
		{Field: pipeline.FieldTaskID, Text: id.String()},
		{Field: pipeline.FieldType, Text: "action"},
		{Field: pipeline.FieldAssignee, Text: "devdas", User: "U0DEVDAS"},
		{Field: pipeline.FieldPriority, Text: "normal"},
		{Field: pipeline.FieldStatus, Text: "new"},
	}
}

func status(row string, s pipeline.Status) pipeline.Change {
	return pipeline.Change{Row: row, Cells: []pipeline.Cell{{Field: pipeline.FieldStatus, Text: string(s)}}}
}

// boardError is the *pipeline.BoardError in err; the test ends if there is none.
func boardError(t *testing.T, err error) *pipeline.BoardError {
	t.Helper()
	var e *pipeline.BoardError
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want a *pipeline.BoardError", err, err)
	}
	return e
}

// missing is the *pipeline.MissingError in err.
func missing(t *testing.T, err error) *pipeline.MissingError {
	t.Helper()
	var e *pipeline.MissingError
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want a *pipeline.MissingError", err, err)
	}
	return e
}

func ids(s *Session) []string {
	var ids []string
	for r := range s.Rows() {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// filesWith returns the files below dir that contain the text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.Contains(readFile(t, path), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
