package slacklist

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"otm/internal/crash"
	"otm/internal/lock"
	"otm/pipeline"
)

// Session is one batch of work on the board, from Begin to End. It is for one
// goroutine.
type Session struct {
	c        *Client
	lock     *lock.Lock
	deadline time.Time
	snap     *snapshot
	unsaved  bool // the board is ahead of snapshot.json
	dirty    bool // snap differs from snapshot.json
	schemaOK bool // the schema was read in this batch
}

// End saves the snapshot, tells the others if the board was changed, and gives
// locks/board back. If we crash before, the mark that the board is ahead makes
// the next batch walk.
func (s *Session) End() error {
	c := s.c
	defer func() { <-c.turn }()
	defer s.lock.Release()
	if s.Over() {
		c.pause = c.now().Add(courtesy)
	}
	if !s.dirty && !s.unsaved {
		return nil
	}
	crash.Point("snapshot.before")
	err := c.store.save(s.snap)
	crash.Point("snapshot.after")
	if s.unsaved {
		err = errors.Join(err, TouchChanged(c.opts.Dir))
	}
	return err
}

// Over tells whether the batch has lasted its time.
func (s *Session) Over() bool { return !s.c.now().Before(s.deadline) }

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

// Row implements pipeline.Batch; nil where the snapshot has none of this id.
func (s *Session) Row(id string) *pipeline.Row {
	if r := s.snap.row(id); r != nil {
		return &r.Row
	}
	return nil
}

// Has implements pipeline.Batch.
func (s *Session) Has(field pipeline.Field) bool { return s.snap.Schema.Column(field) != nil }

// WalkAt is the start of the walk that the snapshot is from; zero: none.
func (s *Session) WalkAt() time.Time { return s.snap.WalkStarted.Time() }

// Room returns how many rows the list holds and may hold; 0 where unknown.
func (s *Session) Room() (rows, limit int) { return len(s.snap.Rows), s.snap.Schema.Limit }

// Self returns the user as whom we write; "" where it is not known yet.
func (s *Session) Self() string { return s.snap.Self }

// Person implements pipeline.Batch.
func (s *Session) Person(r *pipeline.Row) string {
	if s.snap.Self == "" || r.UpdatedBy == s.snap.Self {
		return ""
	}
	return cmp.Or(s.c.opts.Called[r.UpdatedBy], r.UpdatedBy)
}

// thisMoment is how old a walk of this moment may be.
const thisMoment = time.Second

// Current implements pipeline.Batch.
func (s *Session) Current(r *pipeline.Row, maxAge time.Duration) bool {
	known := s.snap.row(r.ID)
	if known == nil || s.c.store.editedSince(known.Known.Time()) {
		return false
	}
	if s.Person(r) != "" {
		maxAge = min(maxAge, thisMoment)
	}
	age := s.c.now().Sub(known.Known.Time())
	return age >= 0 && age <= maxAge
}

// Fresh tells whether the whole snapshot is at most maxAge old.
func (s *Session) Fresh(maxAge time.Duration) bool {
	walk := s.WalkAt()
	if walk.IsZero() || s.c.store.editedSince(walk) {
		return false
	}
	age := s.c.now().Sub(walk)
	return age >= 0 && age <= maxAge
}

// Create makes a row below parent, or at the top where parent is "", and
// returns its id. Where the error says MaybeApplied, the row may be there.
func (s *Session) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (string, error) {
	if err := s.ensureSchema(ctx); err != nil {
		return "", err
	}
	var id string
	err := s.withSchema(ctx, cells, func() (err error) {
		id, err = s.create(ctx, parent, cells)
		return err
	})
	return id, err
}

func (s *Session) create(ctx context.Context, parent string, cells []pipeline.Cell) (string, error) {
	fields, err := s.encoder().encode(cells)
	if err != nil {
		return "", err
	}
	if err := s.ready(ctx, "slackLists.items.create"); err != nil {
		return "", err
	}
	if err := s.aheadOfSnapshot(); err != nil {
		return "", err
	}
	asked := s.c.now()
	crash.Point("create.before")
	item, err := s.c.createItem(ctx, parent, fields)
	crash.Point("create.after")
	if err := s.answered("slackLists.items.create", err); err != nil {
		return "", err
	}
	made, ok := newDecoder(&s.snap.Schema).row(item)
	if !ok {
		return "", unsure("slackLists.items.create", "the answer has no row id", nil)
	}
	made.Parent = parent // the answer may lack it
	s.encoder().patch(&made, cells)
	if made.UpdatedBy != "" {
		s.snap.Self = made.UpdatedBy
	}
	s.snap.add(row{Row: made, Known: stampOf(asked), Wrote: stampOf(s.c.now())})
	return made.ID, nil
}

// ready waits, within the batch, until a method may be called, and counts the
// call.
func (s *Session) ready(ctx context.Context, method string) error {
	return s.readyFor(ctx, method, s.c.opts.Budget, 1)
}

// readyFor waits until a method may be called n times in a row, and counts one
// call.
func (s *Session) readyFor(ctx context.Context, method string, budget float64, n int) error {
	now := s.c.now()
	if due := s.snap.due(method, budget, n, now); due.After(now) {
		if due.After(s.deadline) {
			s.dirty = true // where the clock was set back, what is due has changed
			return &pipeline.BoardError{Method: method, Code: "ratelimited", Until: due, Message: "waiting for the rate limit"}
		}
		s.c.log.Debug("waiting for the rate limit", "method", method, "wait", due.Sub(now))
		if err := s.c.sleep(ctx, due.Sub(now)); err != nil {
			return err
		}
	}
	if budget > 0 {
		s.snap.called(method, s.c.now())
		s.dirty = true
	}
	return nil
}

// answered is called when the answer to a call is there, or its lack is sure.
// The call counts as of now: it may have been long on its way, and the board
// counts from when it arrived. If we crash before, it counts as of when it
// left, or not at all, and the board may refuse a call; then it says when to
// come back.
//
// It returns the error, and keeps what that says about when to call again.
func (s *Session) answered(method string, err error) error {
	s.snap.answered(method, s.c.now())
	var e *pipeline.BoardError
	if errors.As(err, &e) && e.Code == "ratelimited" && !e.Until.IsZero() {
		s.snap.holdOff(e.Method, s.c.now(), e.Until)
		s.dirty = true
	}
	return err
}

// aheadOfSnapshot is called before each write.
func (s *Session) aheadOfSnapshot() error {
	if s.unsaved {
		return nil
	}
	err := s.c.store.markUnsaved()
	s.unsaved = err == nil
	return err
}

func (s *Session) encoder() *encoder {
	return &encoder{schema: &s.snap.Schema, openAssignees: s.c.opts.OpenAssignees}
}

// ensureSchema reads the schema where there is none, or a part of one: without a
// column, a row would be made that nobody finds again.
func (s *Session) ensureSchema(ctx context.Context) error {
	if s.snap.Schema.complete() {
		return nil
	}
	return s.readSchema(ctx)
}

func (s *Session) readSchema(ctx context.Context) error {
	if err := s.ready(ctx, "files.info"); err != nil {
		return err
	}
	raw, err := s.c.fileInfo(ctx)
	if err := s.answered("files.info", err); err != nil {
		return err
	}
	return s.takeSchema(raw)
}

func (s *Session) takeSchema(raw []byte) error {
	schema, err := parseSchema(raw, s.c.columns)
	if err != nil {
		return err
	}
	schema.ReadAt = stampOf(s.c.now())
	s.snap.Schema = *schema
	s.dirty, s.schemaOK = true, true
	return nil
}

// withSchema runs a write of cells, and once more with the schema read anew if
// the board or we ourselves find that a column or an option is not what the
// cached schema says: people rename and rebuild them.
func (s *Session) withSchema(ctx context.Context, cells []pipeline.Cell, write func() error) error {
	err := write()
	if !isSchemaTrouble(err) {
		return err
	}
	if !s.schemaOK {
		if err := s.readSchema(ctx); err != nil {
			return err
		}
		err = write()
	}
	var refused *pipeline.BoardError
	if errors.As(err, &refused) && isSchemaCode(refused) {
		return s.cellsRefused(refused, cells)
	}
	return err
}

func isSchemaTrouble(err error) bool {
	var missing *pipeline.MissingError
	var refused *pipeline.BoardError
	return errors.As(err, &missing) || errors.As(err, &refused) && isSchemaCode(refused)
}

// cellsRefused is the error where the board refuses a column, an option or a
// person although the schema has just been read: as with one that is missing,
// a person has to act. The board does not say which of the cells it means.
func (s *Session) cellsRefused(refused *pipeline.BoardError, cells []pipeline.Cell) error {
	var names []string
	for _, cell := range cells {
		c := s.snap.Schema.Column(cell.Field)
		if c == nil || refused.Code == "invalid_option_id" && !c.isSelect() || refused.Code == "user_not_found" && !c.isUser() {
			continue
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return &pipeline.MissingError{Column: strings.Join(names, ", "), Problem: "is refused: " + refused.Error(), Have: s.snap.Schema.names()}
}

// StepRows implements pipeline.Batch; the order says nothing.
func (s *Session) StepRows(parent string) []*pipeline.Row {
	var rows []*pipeline.Row
	for _, i := range s.snap.indexed().steps[parent] {
		rows = append(rows, &s.snap.Rows[i].Row)
	}
	return rows
}

// TaskRow implements pipeline.Batch: nil where there is none, and the first by
// id where there are several.
func (s *Session) TaskRow(id pipeline.TaskID) *pipeline.Row {
	if i, ok := s.snap.indexed().byTask[id]; ok {
		return &s.snap.Rows[i].Row
	}
	return nil
}
