package slacklist

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// snapshot is board/snapshot.json.
type snapshot struct {
	Board string `json:"board"` // see Client.board
	Self  string `json:"self"`  // the user as whom we write

	WalkStarted stamp  `json:"walkStarted"` // of the last complete walk; 0 is none
	Schema      Schema `json:"schema"`
	Rows        []row  `json:"rows"`

	ledger

	index *index // of Rows; nil: to be made
}

// An index finds rows by id, task and parent.
type index struct {
	byID   map[string]int
	byTask map[pipeline.TaskID]int // of several, the first by row id
	steps  map[string][]int        // by parent
}

func (s *snapshot) indexed() *index {
	if s.index == nil {
		s.index = &index{byID: make(map[string]int, len(s.Rows)), byTask: map[pipeline.TaskID]int{}, steps: map[string][]int{}}
		for i := range s.Rows {
			s.index.add(s.Rows, i)
		}
	}
	return s.index
}

func (x *index) add(rows []row, i int) {
	r := &rows[i]
	x.byID[r.ID] = i
	if r.Parent != "" {
		x.steps[r.Parent] = append(x.steps[r.Parent], i)
		return
	}
	id := r.Task()
	if other, taken := x.byTask[id]; id != 0 && (!taken || r.ID < rows[other].ID) {
		x.byTask[id] = i
	}
}

func (s *snapshot) row(id string) *row {
	i, ok := s.indexed().byID[id]
	if !ok {
		return nil
	}
	return &s.Rows[i]
}

func (s *snapshot) add(r row) {
	x := s.indexed()
	s.Rows = append(s.Rows, r)
	x.add(s.Rows, len(s.Rows)-1)
}

// remove takes rows and their steps out of the snapshot. Who holds a row keeps it as it was.
func (s *snapshot) remove(ids []string) {
	s.Rows = slices.DeleteFunc(slices.Clone(s.Rows), func(r row) bool { return slices.Contains(ids, r.ID) || slices.Contains(ids, r.Parent) })
	s.index = nil
}

// Snapshot is the last known state of the board, for callers that only read.
type Snapshot struct {
	Rows   []pipeline.Row
	WalkAt time.Time // start of the last complete walk; zero if there was none
	Limit  int       // rows the list may hold; 0 if unknown
	Count  int       // rows it holds
	Self   string    // the user as whom OTM writes
}

// ReadSnapshot reads the snapshot of a data directory without a lock and
// without a call. If there is none yet, WalkAt is zero.
func ReadSnapshot(dir string) (*Snapshot, error) {
	s, err := readSnapshot(filepath.Join(dir, "board", "snapshot.json"))
	if err != nil {
		return nil, err
	}
	return s.shown(), nil
}

// shown is the snapshot without what says how stale its rows are.
func (s *snapshot) shown() *Snapshot {
	out := &Snapshot{WalkAt: s.WalkStarted.Time(), Limit: s.Schema.Limit, Count: len(s.Rows), Self: s.Self}
	for i := range s.Rows {
		out.Rows = append(out.Rows, s.Rows[i].Row)
	}
	return out
}

// readSnapshot returns an empty snapshot if there is none, or none that parses:
// it is written without fsync, so a power failure may leave anything.
func readSnapshot(path string) (*snapshot, error) {
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &snapshot{}, nil
	}
	if err != nil {
		return nil, err
	}
	var s snapshot
	if json.Unmarshal(data, &s) != nil {
		return &snapshot{}, nil
	}
	return &s, nil
}

// A store keeps the snapshot on disk, and in memory as long as the file is the
// one that we wrote or read. Use it under locks/board only.
type store struct {
	dir    string // <data directory>/board
	cached *snapshot
	info   fs.FileInfo
}

func (st *store) path(name string) string { return filepath.Join(st.dir, name) }

// load reads the snapshot unless the one in memory is current. If a batch crashed
// between a write to the board and the saving of the snapshot, or may have, load
// marks all rows as stale.
func (st *store) load() (*snapshot, error) {
	info, err := durable.Stat(st.path("snapshot.json"))
	if st.cached == nil || err != nil || !sameVersion(st.info, info) {
		s, err := readSnapshot(st.path("snapshot.json"))
		if err != nil {
			return nil, err
		}
		st.cached, st.info = s, info
	}
	if _, err := durable.Stat(st.path("unsaved")); !errors.Is(err, fs.ErrNotExist) {
		st.cached.WalkStarted = 0
		for i := range st.cached.Rows {
			st.cached.Rows[i].Known = 0
		}
	}
	return st.cached, nil
}

func sameVersion(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// markUnsaved says that the board is about to be ahead of the snapshot.
func (st *store) markUnsaved() error {
	if err := durable.Mkdir(st.dir); err != nil {
		return err
	}
	f, err := durable.OpenFile(st.path("unsaved"), os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// save writes the snapshot and takes the mark away.
func (st *store) save(s *snapshot) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := durable.Mkdir(st.dir); err != nil {
		return err
	}
	if err := durable.ReplaceVolatile(st.path("snapshot.json"), data); err != nil {
		return err
	}
	st.cached = s
	if st.info, err = durable.Stat(st.path("snapshot.json")); err != nil {
		st.info = nil
	}
	err = durable.Remove(st.path("unsaved"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// TouchChanged wakes the components that wait for changes of the board. dir is
// the data directory.
func TouchChanged(dir string) error { return touch(filepath.Join(dir, "board", "changed")) }

// TouchEdited makes every earlier snapshot stale. The embedded board calls it
// when a person edited.
func TouchEdited(dir string) error {
	return errors.Join(touch(filepath.Join(dir, "board", "edited")), TouchChanged(dir))
}

// touch writes something new each time, so that every touch is an event.
func touch(path string) error {
	return os.WriteFile(path, []byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), durable.FileMode)
}

// editedSince reports whether a person edited the embedded board since t; in
// doubt, it does. File times have the grain of the kernel's tick, so an edit just
// before t counts.
func (st *store) editedSince(t time.Time) bool {
	info, err := durable.Stat(st.path("edited"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || info.ModTime().Add(10*time.Millisecond).After(t)
}
