package slacklist

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"sync"
	"time"

	"otm/internal/crash"
	"otm/internal/lock"
	"otm/pipeline"
)

// A batch holds the snapshot that the parts of one Session share, and says how far it
// is ahead of the file.
type batch struct {
	opts    *Options
	api     *api
	store   *store
	gate    gate
	snap    *snapshot
	unsaved bool // the board is ahead of snapshot.json
	dirty   bool // snap differs from snapshot.json

	creating sync.Mutex // held by Create, but for the time of its call
}

// createsAtOnce is how many rows are made at a time on a board without limits.
const createsAtOnce = 16

// AtOnce implements pipeline.Batch.
func (b *batch) AtOnce() int {
	if b.opts.Budget > 0 {
		return 1
	}
	return createsAtOnce
}

// aheadOfSnapshot is called before each write.
func (b *batch) aheadOfSnapshot() error {
	if b.unsaved {
		return nil
	}
	err := b.store.markUnsaved()
	b.unsaved = err == nil
	return err
}

// Session is one batch of work on the board, from Begin to End. It is for one
// goroutine, except for Create, see AtOnce. Its parts know one thing each: schemas reads the columns, walker
// the rows, writer writes.
type Session struct {
	*batch
	*schemas
	*walker
	*writer
	client *Client
	lock   *lock.Lock
}

func newSession(c *Client, l *lock.Lock, snap *snapshot, rows *decodedRows) *Session {
	b := &batch{opts: &c.opts, api: c.api, store: &c.store, snap: snap}
	b.gate = gate{
		ledger: &snap.ledger, budget: c.opts.Budget, deadline: c.opts.Now().Add(BatchTime),
		now: c.opts.Now, sleep: c.sleep, log: c.opts.Log,
	}
	schemas := &schemas{batch: b, names: c.columns, marked: &c.marked}
	return &Session{batch: b, schemas: schemas, walker: &walker{b, schemas, rows}, writer: &writer{b, schemas}, client: c, lock: l}
}

// courtesy is how long a process leaves the board to others after a batch that
// lasted its time. They take a moment to wake when the lock comes free, so
// without it, a process with much to do would never let them in.
const courtesy = 20 * time.Millisecond

// End saves the snapshot, tells the others if the board was changed, and gives
// locks/board back. If we crash before, the mark that the board is ahead makes
// the next batch walk.
func (s *Session) End() error {
	defer func() { <-s.client.turn }()
	err := s.save()
	s.lock.Release()
	if s.Over() {
		s.client.sleep(context.Background(), courtesy)
	}
	return err
}

func (s *Session) save() error {
	if !s.dirty && !s.unsaved && !s.gate.dirty {
		return nil
	}
	crash.Point("snapshot.before")
	err := s.store.save(s.snap)
	crash.Point("snapshot.after")
	if s.unsaved {
		err = errors.Join(err, TouchChanged(s.opts.Dir))
	}
	return err
}

// Over reports whether the batch has lasted its time.
func (s *Session) Over() bool { return !s.opts.Now().Before(s.gate.deadline) }

// Rows implements pipeline.Batch.
func (s *Session) Rows() iter.Seq[*pipeline.Row] {
	return func(yield func(*pipeline.Row) bool) {
		for i := range s.snap.Rows {
			if !yield(&s.snap.Rows[i].Row) {
				return
			}
		}
	}
}

// Row implements pipeline.Batch; nil if the snapshot has no row of this id.
func (s *Session) Row(id string) *pipeline.Row {
	if r := s.snap.row(id); r != nil {
		return &r.Row
	}
	return nil
}

// StepRows implements pipeline.Batch; the order says nothing.
func (s *Session) StepRows(parent string) []*pipeline.Row {
	return pipeline.Map(s.snap.indexed().steps[parent], func(i int) *pipeline.Row { return &s.snap.Rows[i].Row })
}

// TaskRow implements pipeline.Batch: nil if there is none, the first by id if
// there are several.
func (s *Session) TaskRow(id pipeline.TaskID) *pipeline.Row {
	if i, ok := s.snap.indexed().byTask[id]; ok {
		return &s.snap.Rows[i].Row
	}
	return nil
}

// Form implements pipeline.Batch.
func (s *Session) Form(field pipeline.Field, text string) (form string, has bool) {
	c := s.snap.Schema.Column(field)
	if c == nil {
		return "", false
	}
	switch d := derived(field); {
	case d != nil:
		text = c.form(d.Kind, text)
	case field == pipeline.FieldStatus && c.isSelect():
		text = c.statusOption(text)
	}
	return text, true
}

// Room implements pipeline.Batch.
func (s *Session) Room() int {
	if s.snap.Schema.Limit == 0 {
		return -1
	}
	return max(0, s.snap.Schema.Limit-len(s.snap.Rows))
}

// WalkAt is the start of the walk that made the snapshot; zero if there was
// none.
func (s *Session) WalkAt() time.Time { return s.snap.WalkStarted.Time() }

// Person implements pipeline.Batch.
func (s *Session) Person(r *pipeline.Row) string {
	if s.snap.Self == "" || r.UpdatedBy == s.snap.Self {
		return ""
	}
	return cmp.Or(s.opts.Called[r.UpdatedBy], r.UpdatedBy)
}

// thisMoment is how old a walk of this moment may be.
const thisMoment = time.Second

// Current implements pipeline.Batch.
func (s *Session) Current(r *pipeline.Row, maxAge time.Duration) bool {
	known := s.snap.row(r.ID)
	if known == nil {
		return false
	}
	if s.Person(r) != "" {
		maxAge = min(maxAge, thisMoment)
	}
	return s.within(known.Known.Time(), maxAge)
}

// Fresh reports whether the whole snapshot is at most maxAge old.
func (s *Session) Fresh(maxAge time.Duration) bool {
	return !s.WalkAt().IsZero() && s.within(s.WalkAt(), maxAge)
}

// within reports whether what was read at that time is at most maxAge old, and
// nobody has edited the embedded board since.
func (s *Session) within(read time.Time, maxAge time.Duration) bool {
	age := s.opts.Now().Sub(read)
	return age >= 0 && age <= maxAge && !s.store.editedSince(read)
}

// Refresh walks the whole list unless the snapshot is at most maxAge old; 0
// walks always. If the walk fails, the old snapshot stays, as old as before: a
// walk that was cut off says nothing about the rows that it lacks.
func (s *Session) Refresh(ctx context.Context, maxAge time.Duration) error {
	if maxAge > 0 && s.Fresh(maxAge) {
		return nil
	}
	return s.walk(ctx)
}

// IsGone implements pipeline.Batch. People see an archived row as little as one that is
// deleted. A row that is gone leaves the snapshot, which may show it as it was written.
func (s *Session) IsGone(ctx context.Context, id string) (gone bool, err error) {
	err = s.gate.do(ctx, infoMethod, func() error {
		r, err := s.api.call(ctx, infoMethod, url.Values{"list_id": {s.api.list}, "id": {id}})
		if err == nil {
			gone = r.Record.Archived
		}
		return err
	})
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && slices.Contains(goneCodes, e.Code) {
		gone, err = true, nil
	}
	if gone && s.snap.row(id) != nil {
		s.snap.remove([]string{id})
		s.dirty = true
	}
	return gone, err
}
