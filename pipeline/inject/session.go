package inject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// session is the work of one sweep on the board and on the records.
type session struct {
	*Injector
	batch     pipeline.Batch // nil while the board is not held
	refreshed bool           // the board was walked in this sweep
}

// load returns the record of a task. It is nil if there is none or if it is
// damaged: then the board decides, and Change sets the record aside.
func (s *session) load(id pipeline.TaskID) (*pipeline.Record, error) {
	rec, err := s.Store.Load(id)
	var corrupt *task.CorruptError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) {
		return nil, nil
	}
	return rec, err
}

// open returns the batch to work in. It begins a new one when the last has
// lasted its time.
func (s *session) open(ctx context.Context) (pipeline.Batch, error) {
	if s.batch != nil && s.batch.Over() {
		if err := s.end(); err != nil {
			return nil, err
		}
	}
	if s.batch == nil {
		batch, err := s.Board.Begin(ctx)
		if err != nil {
			return nil, err
		}
		s.batch = batch
		// Other components only warn (app.raising). Here no id may be given out
		// that stands on the board.
		if err := s.Store.RaiseAbove(ctx, batch); err != nil {
			return nil, err
		}
	}
	return s.batch, nil
}

func (s *session) end() error {
	if s.batch == nil {
		return nil
	}
	err := s.batch.End()
	s.batch = nil
	return err
}

// look walks the board if the snapshot is too old for a create.
func (s *session) look(ctx context.Context, b pipeline.Batch) error {
	maxAge := createAge
	if s.Fresh && !s.refreshed {
		maxAge = 0
	}
	if maxAge > 0 && b.Fresh(maxAge) {
		return nil
	}
	return s.walk(ctx, b)
}

func (s *session) walk(ctx context.Context, b pipeline.Batch) error {
	if err := b.Refresh(ctx, 0); err != nil {
		return err
	}
	s.refreshed = true
	if err := s.Store.RaiseAbove(ctx, b); err != nil {
		return &counterError{err}
	}
	return nil
}

// counterError says that the counter of ids could not be raised: it is held or
// damaged. Each file after a walk would meet the same.
type counterError struct{ err error }

func (e *counterError) Error() string { return e.err.Error() }
func (e *counterError) Unwrap() error { return e.err }

// certain walks the board if a walk can show the effect of a request that was
// made at the given time. If due is zero, what the snapshot lacks was not made;
// else look again at due.
func (s *session) certain(ctx context.Context, b pipeline.Batch, asked time.Time) (due time.Time, err error) {
	certain := asked.Add(s.Times.SettleAfter).Truncate(time.Millisecond) // the grain of WalkAt
	if b.WalkAt().Before(certain) && (!s.Now().Before(certain) || b.WalkAt().Before(asked)) {
		if err := s.walk(ctx, b); err != nil {
			return time.Time{}, err
		}
	}
	if b.WalkAt().Before(certain) {
		return certain, nil
	}
	return time.Time{}, nil
}

// change changes the record that we work by. If another process removed or
// rebuilt it meanwhile, the error is a *changedError.
func (s *session) change(ctx context.Context, rec *pipeline.Record, f func(*pipeline.Record)) (*pipeline.Record, error) {
	return s.Store.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if r.RowID != rec.RowID || r.DropID != rec.DropID || !slices.EqualFunc(r.Steps, rec.Steps, sameStep) {
			s.Log.Warn("record changed meanwhile", "task", rec.TaskID)
			return &changedError{rec.TaskID, s.Now().Add(s.Times.ParseableAge)}
		}
		f(r)
		return nil
	})
}

func sameStep(a, b pipeline.StepRecord) bool { return a.RowID == b.RowID && a.Title == b.Title }

// changedError says that a record changed while we worked by it. The file waits,
// and is judged again by board, record and drop.
type changedError struct {
	task  pipeline.TaskID
	again time.Time // when to look
}

func (e *changedError) Error() string {
	return fmt.Sprintf("the record of %v changed while the injector worked by it", e.task)
}

// rowGone is the verdict on a drop whose task had a row that the snapshot lacks.
// A row that a person deleted or archived is never made again. One walk may be
// wrong, so the drop waits until a second one lacks the row and the board
// confirms it. gone is false if the row is there after all. A row that is
// restored later is observed as any other (Record.Observe).
func (s *session) rowGone(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (v verdict, gone bool) {
	if rec.ArchivedAt != nil {
		return fail(inbox.Conflict, "otm history "+rec.TaskID.String(), "%v is %s, and was archived at %s", rec.TaskID, rec.Status, rec.ArchivedAt.UTC().Format(time.RFC3339)), true
	}
	if rec.GoneAt == nil {
		if missing(b, rec.RowID).Walks == 1 {
			if due := b.WalkAt().Add(s.Times.SettleAfter); due.After(s.Now()) {
				return wait(due), true
			}
			if err := s.walk(ctx, b); err != nil {
				return boardTrouble(err), true
			}
			if b.Row(rec.RowID) != nil {
				return verdict{}, false
			}
		}
		if v, sure := s.askForRow(ctx, b, rec); !sure {
			return v, true
		}
	}
	return fail(inbox.Conflict, "otm show "+rec.TaskID.String(), "the row of %v is no longer on the board: somebody deleted or archived it", rec.TaskID), true
}

// askForRow asks the board for a row that the walks lack, and records the
// answer. If none comes, only this drop waits: the board allows few such calls a
// minute.
func (s *session) askForRow(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (v verdict, gone bool) {
	if !missing(b, rec.RowID).Gone {
		gone, err := b.LookFor(ctx, rec.RowID)
		var e *pipeline.BoardError
		switch {
		case errors.As(err, &e) && e.Class != pipeline.Fatal && e.Until.After(s.Now()):
			return wait(e.Until), false
		case errors.As(err, &e) && e.Class != pipeline.Fatal, err == nil && !gone:
			return wait(s.Now().Add(retryBoard)), false
		case err != nil:
			return boardTrouble(err), false
		}
	}
	_, err := s.change(ctx, rec, func(r *pipeline.Record) {
		now := s.Now()
		r.GoneAt = &now
		r.Note(now, pipeline.WhoBoard, pipeline.EventRowGone, r.RowID)
	})
	if err != nil {
		return ownTrouble(err), false
	}
	return verdict{}, true
}

// missing returns what the batch knows of a row that walks lack. It is zero if
// the snapshot was lost.
func missing(b pipeline.Batch, row string) pipeline.Missing {
	for _, m := range b.Missing() {
		if m.Row.ID == row {
			return m
		}
	}
	return pipeline.Missing{}
}
