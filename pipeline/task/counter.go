package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
)

// CounterWait is how long to wait for the counter.
const CounterWait = 10 * time.Second

const counterFile = "next-task-id.json"

// ErrIDsUsedUp says that the last id, T-999999999, was given out.
var ErrIDsUsedUp = errors.New("all task ids are used up")

// Counter is the counter with its lock held. Release it soon: every create
// waits for it.
type Counter struct {
	store *Store
	lock  *lock.Lock
	next  pipeline.TaskID
}

type counterState struct {
	Next int `json:"next"`
}

// possible reports whether a counter can hold this: the next id, or the number
// after the last one.
func (s counterState) possible() bool {
	return s.Next >= 1 && s.Next <= int(pipeline.MaxTaskID)+1
}

// Counter takes the counter's lock, waiting up to CounterWait, and reads it. The
// error is a *lock.HeldError if another process keeps it longer. The data
// directory is locked as well: no id may be given out twice even if somebody
// removes the lock files.
func (s *Store) Counter(ctx context.Context) (*Counter, error) {
	l, err := lock.AcquireIn(ctx, s.dir, s.lockPath("next-task-id"), CounterWait)
	if err != nil {
		return nil, err
	}
	c := &Counter{store: s, lock: l}
	if err := c.load(); err != nil {
		l.Release()
		return nil, err
	}
	return c, nil
}

// Release gives the lock back.
func (c *Counter) Release() { c.lock.Release() }

// load finds the next id. A good counter costs one read and one stat. A damaged
// one, or one that was set back, is repaired from the ids in use, with a warning.
func (c *Counter) load() error {
	left, err := c.lock.Note()
	if err != nil {
		return err
	}
	var note counterState
	if json.Unmarshal(left, &note) != nil || !note.possible() {
		note = counterState{} // a torn note is no note
	}
	stored, bad := readCounter(c.path())
	if bad != nil && !errors.Is(bad, ErrBadCounter) {
		return bad
	}
	exists, err := c.store.exists(pipeline.TaskID(stored))
	if err != nil {
		return err
	}
	wrong := ""
	switch {
	case bad != nil:
		wrong = bad.Error()
	case stored < note.Next:
		wrong = fmt.Sprintf("%s says %d, but %d was reached before", counterFile, stored, note.Next)
	case exists:
		wrong = fmt.Sprintf("%s says %d, but that task exists", counterFile, stored)
	}
	c.next = pipeline.TaskID(max(stored, note.Next, 1))
	if wrong == "" {
		return nil
	}
	used, err := c.store.usedIDs()
	if err != nil {
		return fmt.Errorf("look for the task ids in use: %w", err)
	}
	if bad != nil && len(used) > 0 {
		c.next = max(c.next, slices.Min(used)) // nothing else tells where the ids begin
	}
	c.next = Above(c.next, used...)
	c.store.warn(fmt.Sprintf("%s; going on with %v", wrong, c.next))
	return c.write(c.next)
}

// ErrBadCounter says that the counter's file is missing or holds no counter. The
// next command that takes an id repairs it.
var ErrBadCounter = errors.New("counter unusable")

// Stored returns the next id from the counter's file, without a lock. The error
// matches ErrBadCounter if the file holds none.
func (s *Store) Stored() (int, error) { return readCounter(filepath.Join(s.dir, counterFile)) }

func readCounter(path string) (int, error) {
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %s is missing", ErrBadCounter, counterFile)
	}
	if errors.Is(err, durable.ErrNoFile) {
		return 0, fmt.Errorf("%w: %s %w", ErrBadCounter, counterFile, durable.ErrNoFile)
	}
	if err != nil {
		return 0, err
	}
	var state counterState
	if err := json.Unmarshal(data, &state); err != nil || !state.possible() {
		return 0, fmt.Errorf("%w: %s holds %.40q", ErrBadCounter, counterFile, data)
	}
	return state.Next, nil
}

// Take gives out n ids in a row and returns the first. They are durable when
// it returns: if we crash before they are used, they stay unused.
func (c *Counter) Take(n int) (pipeline.TaskID, error) {
	first := c.next
	for i := first; n <= int(pipeline.MaxTaskID-first)+1 && i < first+pipeline.TaskID(n); i++ {
		exists, err := c.store.exists(i)
		if err != nil {
			return 0, err
		}
		if exists { // far ahead of us when it came
			first = i + 1
		}
	}
	if n > int(pipeline.MaxTaskID-first)+1 {
		return 0, ErrIDsUsedUp
	}
	if err := c.write(first + pipeline.TaskID(n)); err != nil {
		return 0, err
	}
	return first, nil
}

// Raise makes sure that ids which came from elsewhere are never given out.
func (c *Counter) Raise(ids ...pipeline.TaskID) error {
	next := Above(c.next, ids...)
	if next == c.next {
		return nil
	}
	return c.write(next)
}

// Raise makes sure that ids are never given out. It takes the lock only if the
// counter has to be raised. If an id is too far above the counter, the error is
// a *FarError, and the counter is raised above the others.
func (s *Store) Raise(ctx context.Context, ids ...pipeline.TaskID) error {
	next, err := s.Stored()
	if err != nil || Above(pipeline.TaskID(next), ids...) != pipeline.TaskID(next) {
		c, err := s.Counter(ctx)
		if err != nil {
			return err
		}
		err = c.Raise(ids...)
		next = int(c.next)
		c.Release()
		if err != nil {
			return err
		}
	}
	if len(ids) > 0 && int(slices.Max(ids)) >= next {
		return &FarError{Next: pipeline.TaskID(next)}
	}
	return nil
}

// RaiseAbove makes sure that no id on the board is given out: people type them as
// well. Call it after every walk, also another process's. It looks at the rows of
// each walk once, and again if it failed.
func (s *Store) RaiseAbove(ctx context.Context, b pipeline.Batch) error {
	walk := b.WalkAt()
	s.mu.Lock()
	known := walk.Equal(s.raised)
	s.mu.Unlock()
	if known {
		return nil
	}
	var ids []pipeline.TaskID
	for row := range b.Rows() {
		if id := row.Task(); id != 0 {
			ids = append(ids, id)
		}
	}
	var far *FarError // a person typed it, or another program
	if err := s.Raise(ctx, ids...); err != nil && !errors.As(err, &far) {
		return err
	}
	s.mu.Lock()
	s.raised = walk
	s.mu.Unlock()
	return nil
}

func (c *Counter) write(next pipeline.TaskID) error {
	data, err := json.Marshal(counterState{Next: int(next)})
	if err != nil {
		return err
	}
	crash.Point("counter.before")
	if err := durable.Replace(c.path(), append(data, '\n')); err != nil {
		return err
	}
	crash.Point("counter.after")
	c.next = next
	c.lock.SetNote(data) // only a copy: a note that stays behind says nothing wrong
	return nil
}

func (c *Counter) path() string { return filepath.Join(c.store.dir, counterFile) }

// Issued reports whether an id was given out, or lies below one that was. If the
// counter cannot be read, every id counts as issued.
func (s *Store) Issued(id pipeline.TaskID) (bool, error) {
	next, err := s.Stored()
	if errors.Is(err, ErrBadCounter) {
		return true, nil
	}
	return int(id) < next, err
}
