package app

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"otm/heartbeat"
	"otm/pipeline"
	"otm/pipeline/task"
)

// reason is why a task is where it is.
type reason struct {
	Sentence string     `json:"why"`
	Next     string     `json:"next,omitempty"`  // what to do or to run; "" where nothing is to be done
	Stage    stage      `json:"stage"`           // where it is
	Since    *time.Time `json:"since,omitempty"` // since when it is there

	late bool // something that belongs to it waits for too long, or failed
}

// stage is where a task is on its way.
type stage string

// The stages, with how long each usually takes at most: what stands longer is
// told of by otm why --all. Zero: as long as it likes.
const (
	inInbox   stage = "inbox"
	inFailed  stage = "failed"
	toBoard   stage = "to the board"
	toAgent   stage = "to be dispatched"
	toTake    stage = "to be taken"
	isIgnored stage = "not taken" // whoever has to take it was told often enough
	atWork    stage = "at work"
	isBlocked stage = "blocked"
	toReview  stage = "to be reviewed"
	withHuman stage = "a person's turn"
	isOver    stage = "over"
	isLost    stage = "not on the board"
	isUnknown stage = "unknown"
)

// usual is how long a stage usually takes at most; isOver has no limit.
func (h *Home) usual(s stage) (time.Duration, bool) {
	switch s {
	case inInbox, toBoard, toAgent:
		return 5 * time.Minute, true
	case inFailed, isLost, isIgnored, isBlocked:
		return 0, true
	case toTake:
		return h.Config.Times.RewakeAfter, true
	case atWork:
		return h.Config.Times.SilentAfter, true
	case toReview, withHuman:
		return 24 * time.Hour, true
	}
	return 0, false
}

// why finds the reason for one task.
func (s *situation) why(id pipeline.TaskID) (reason, error) {
	rec, err := s.home.Store.Load(id)
	var corrupt *task.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return s.unreadable(id, corrupt), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return reason{}, err
	}
	r, err := s.cause(id, rec, s.ownRow(id, rec))
	if err != nil {
		return reason{}, err
	}
	return s.withUpdates(r, id, rec), nil
}

// cause is why without what is to be said of updates. rec and row are nil where
// there is none.
func (s *situation) cause(id pipeline.TaskID, rec *pipeline.Record, row *pipeline.Row) (reason, error) {
	_, waits := s.waiting[id]
	switch {
	case rec == nil && (row == nil || waits):
		return s.recordless(id)
	case row != nil && isTyped(rec):
		return s.whyTyped(row, rec), nil
	case !rec.OnBoard() && rec.GoneAt == nil:
		return s.comingOnBoard(rec), nil
	case row == nil || s.isGone(rec):
		return s.withoutRow(rec), nil
	}
	return s.withOddRow(s.byStatus(rec, row), rec, row), nil
}

// isTyped tells whether a row is one that a person typed, and no task yet: it
// has no record, or that of an adoption which was begun.
func isTyped(rec *pipeline.Record) bool {
	return rec == nil || rec.DropID == "" && rec.Dispatch == nil && (!rec.OnBoard() || len(rec.Steps) == 0)
}

// isGone tells whether the row of a task was seen to be gone after the board was
// last read.
func (s *situation) isGone(rec *pipeline.Record) bool {
	return rec.GoneAt != nil && !s.snap.WalkAt.After(*rec.GoneAt)
}

// unreadable is for a task whose record is broken.
func (s *situation) unreadable(id pipeline.TaskID, err error) reason {
	sentence := fmt.Sprintf("its record cannot be read: %v", err)
	if s.rows[id] == nil {
		return at(isLost, time.Time{}, sentence+"; no row on the board bears its id, from which it could be made anew", "otm fsck")
	}
	return at(toAgent, time.Time{}, sentence+"; the dispatcher's next pass sets it aside and makes it anew from the board"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
}

// line is the reason with what to do, as one line of text.
func (r *reason) line() string {
	if r.Next == "" {
		return r.Sentence
	}
	return r.Sentence + " → " + r.Next
}

func at(where stage, since time.Time, sentence, next string) reason {
	r := reason{Stage: where, Sentence: sentence, Next: next}
	if !since.IsZero() {
		since = since.UTC()
		r.Since = &since
	}
	return r
}
