package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/counter"
)

// recordWait is how long to wait for the lock of a record. As nobody holds it over
// a network call, a longer wait means that the machine is in trouble.
const recordWait = 60 * time.Second

// Store is the data directory as this package sees it. It is safe for use by
// several goroutines and processes.
type Store struct {
	*counter.Dir // the ids, which stand in the same directory

	dir  string
	warn func(string)

	mu      sync.Mutex
	records cache
}

// Open returns the store of a data directory. warn gets one sentence for each
// thing that was wrong and was put right; it may be nil. Nothing is read or made
// yet.
func Open(dir string, warn func(string)) *Store {
	if warn == nil {
		warn = func(string) {}
	}
	return &Store{Dir: counter.Open(dir, warn), dir: dir, warn: warn}
}

// CorruptError is a record that cannot be parsed. Change sets it aside.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("record %q: %v", e.Path, e.Err) }

func (e *CorruptError) Unwrap() error { return e.Err }

// read reads the record of a task from its file.
func (s *Store) read(id pipeline.TaskID) (*pipeline.Record, error) {
	path := s.recordPath(id)
	data, err := durable.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r pipeline.Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, &CorruptError{Path: path, Err: err}
	}
	if r.TaskID != id {
		return nil, &CorruptError{Path: path, Err: fmt.Errorf("holds %v", r.TaskID)}
	}
	return &r, nil
}

// Change changes a record under its lock: it reads it again, lets f change it, and
// replaces the file, durably. If there is none, f gets an empty record that has
// only the id. If f returns pipeline.ErrUnchanged, nothing is written and the
// record is returned; any other error is passed on. f must not call Change.
func (s *Store) Change(ctx context.Context, id pipeline.TaskID, f func(r *pipeline.Record) error) (*pipeline.Record, error) {
	l, err := lock.Acquire(ctx, s.lockPath("task-"+id.String()), recordWait)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	r, err := s.read(id)
	var corrupt *CorruptError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r = &pipeline.Record{TaskID: id}
	case errors.As(err, &corrupt):
		if err := s.setAside(corrupt); err != nil {
			return nil, err
		}
		r = &pipeline.Record{TaskID: id}
	case err != nil:
		return nil, err
	}
	if err := f(r); errors.Is(err, pipeline.ErrUnchanged) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	return r, s.write(r)
}

func (s *Store) write(r *pipeline.Record) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	path := s.recordPath(r.TaskID)
	crash.Point("record.before")
	err = durable.Replace(path, append(data, '\n'))
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Mkdir(filepath.Dir(path)); err != nil {
			return err
		}
		err = durable.Replace(path, append(data, '\n'))
	}
	crash.Point("record.after")
	return err
}

func (s *Store) setAside(c *CorruptError) error {
	aside, err := durable.SetAside(c.Path, "1")
	if err == nil {
		s.warn(fmt.Sprintf("%v; set aside as %q, going on with what the board says", c, filepath.Base(aside)))
	}
	return err
}

func (s *Store) recordPath(id pipeline.TaskID) string {
	return filepath.Join(s.dir, "tasks", id.String()+".json")
}

func (s *Store) lockPath(name string) string { return filepath.Join(s.dir, "locks", name) }
