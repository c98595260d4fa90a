package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// create handles one file of new-tasks/.
func (sw *sweep) create(ctx context.Context, f inbox.File, data []byte, c *drop.Create) verdict {
	id := c.Task.ID
	if c.ID == "" {
		c.ID = foreignID(f.Name, data)
	}
	sw.creating[id] = true
	if err := sw.Store.Raise(ctx, id); err != nil {
		return ownTrouble(err)
	}
	if err := sw.readProcessed(); err != nil {
		return ownTrouble(err)
	}
	rec, err := sw.load(id)
	if err != nil {
		return ownTrouble(err)
	}
	if v, known := sw.byRecord(f, c, rec); known {
		return v
	}
	switch {
	case sw.noCreates.After(sw.Now()):
		return wait(sw.noCreates)
	case sw.full != "":
		return keep(sw.full)
	}
	return sw.limited(sw.bring(ctx, f, c))
}

// unheard tells whether a record knows nothing of the drop that asks for its
// task now, as it was rebuilt from a row while the steps were made, or a person
// typed the row: then the steps may be others.
func (sw *sweep) unheard(rec *pipeline.Record, c *drop.Create) bool {
	return rec.DropID == "" && !sw.wasProcessed(c)
}

// load returns the record of a task; nil where there is none, and where it is
// damaged: then the board tells, and Change sets it aside.
func (sw *sweep) load(id pipeline.TaskID) (*pipeline.Record, error) {
	rec, err := sw.Store.Load(id)
	var corrupt *task.CorruptError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) {
		return nil, nil
	}
	return rec, err
}

// byRecord judges a create by the record of its task alone, where that has a
// row; else the board has to be asked.
func (sw *sweep) byRecord(f inbox.File, c *drop.Create, rec *pipeline.Record) (v verdict, known bool) {
	switch {
	case rec == nil || rec.RowID == "":
		return verdict{}, false
	case rec.DropID != c.ID && !sameTitle(rec.Title, c.Task.Title) && !sw.wasProcessed(c):
		return conflict(c.Task.ID, rec.Title), true
	case sw.unheard(rec, c):
		return verdict{}, false
	case rec.OnBoard():
		twice, err := sw.isTwice(f, rec.Drop)
		if err != nil {
			return ownTrouble(err), true
		}
		return sw.onBoard(rec, c, twice), true
	}
	return verdict{}, false
}

// isTwice tells of a drop that took effect under a name whether it comes a
// second time; else only the settling was missing.
func (sw *sweep) isTwice(f inbox.File, name string) (bool, error) {
	if name != f.Name {
		return true, nil
	}
	return sw.Box.IsSettled(inbox.ProcessedDir, f.Name)
}

// limited lets updates go on where only creates are held up.
func (sw *sweep) limited(v verdict) verdict {
	var e *pipeline.BoardError
	if !errors.As(v.stop, &e) {
		return v
	}
	switch {
	case e.Code == "ratelimited" && !e.Until.IsZero():
		sw.noCreates = e.Until
		return wait(e.Until)
	case e.Full:
		sw.full = "the list is full: " + e.Error()
		return keep(sw.full)
	}
	return v
}

// foreignID makes the id of a drop that came without one: the UUID in its
// name, else one that the same file always gets, so that a crash does not make
// a stranger of it.
func foreignID(name string, data []byte) string {
	if id := pipeline.DropIDInName(name); id != "" {
		return id
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, append([]byte(name+"\n"), data...)).String()
}

func sameTitle(a, b string) bool { return pipeline.FoldTitle(a) == pipeline.FoldTitle(b) }

func conflict(id pipeline.TaskID, title string) verdict {
	v := fail(inbox.Conflict, "otm retry --new-id", "%v is another task: %q", id, title)
	v.result.HintNames = true
	return v
}

// bring puts a task on the board, or finishes what was begun.
func (sw *sweep) bring(ctx context.Context, f inbox.File, c *drop.Create) verdict {
	b, err := sw.open(ctx)
	if err != nil {
		return verdict{stop: err}
	}
	// Others write records while they hold the board, which we did not until now.
	rec, err := sw.load(c.Task.ID)
	if err != nil {
		return ownTrouble(err)
	}
	if v, known := sw.byRecord(f, c, rec); known {
		return v
	}
	unseen := false
	if err := sw.look(ctx, b); err != nil {
		if !sw.mayCreateUnseen(f, err) {
			return boardTrouble(err)
		}
		unseen = true
	}
	if rec != nil && rec.RowID != "" {
		return sw.finish(ctx, b, f, c, rec)
	}
	return sw.place(ctx, b, f, c, rec, unseen)
}

// finish makes the steps that are missing of a task whose row was made.
func (sw *sweep) finish(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record) verdict {
	if b.Row(rec.RowID) == nil && !b.WalkAt().IsZero() {
		if v, gone := sw.rowGone(ctx, b, rec); gone {
			return v
		}
	}
	duplicate := rec.DropID != c.ID
	var err error
	if sw.unheard(rec, c) {
		if rec, err = sw.takeOver(ctx, b, f, c, rec); err != nil {
			return boardTrouble(err)
		}
	}
	rec, due, err := sw.findSteps(ctx, b, rec)
	switch {
	case err != nil:
		return boardTrouble(err)
	case !due.IsZero():
		return wait(due)
	}
	return sw.complete(ctx, b, c, rec, duplicate)
}

// place puts a task on the board of which its record knows no row: it finds
// the row, or makes it.
func (sw *sweep) place(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record, unseen bool) verdict {
	var due time.Time // before which it may stand there unseen
	var err error
	asked := rec != nil && rec.RowAskedAt != nil
	ours := asked && rec.DropID == c.ID
	if asked {
		if due, err = sw.certain(ctx, b, *rec.RowAskedAt); err != nil {
			return boardTrouble(err)
		}
	}
	row, duplicate := rowOf(b, c), false
	switch {
	case row != nil && !ours && !sameTitle(row.Title, c.Task.Title) && !sw.wasProcessed(c):
		return conflict(c.Task.ID, row.Title)
	case row != nil:
		duplicate = !ours
		rec, err = sw.adopt(ctx, f, c, row, b.StepRows(row.ID))
	case !due.IsZero():
		return wait(due)
	case rec == nil && sw.wasProcessed(c):
		// Neither record nor row is left: it was archived, or deleted.
		return verdict{result: &inbox.Result{SkippedDuplicate: true}}
	case !ours && sw.madeAs(c) != 0:
		// Whoever copies a drop means it twice or once, nobody knows: this id
		// was never made, so it must not vanish among those that were.
		v := fail(inbox.Conflict, "otm retry --new-id", "the id of this drop is that of %v: %q", sw.madeAs(c), c.ID)
		v.result.HintNames = true
		return v
	default:
		rec, err = sw.makeRow(ctx, b, f, c, rec, unseen)
	}
	if err != nil {
		return boardTrouble(err)
	}
	return sw.complete(ctx, b, c, rec, duplicate)
}

// complete makes the steps of a task that have no rows, in as many batches as
// they take. It is for when nothing is asked for of which no answer came.
func (sw *sweep) complete(ctx context.Context, b pipeline.Batch, c *drop.Create, rec *pipeline.Record, duplicate bool) verdict {
	for {
		made, err := sw.makeSteps(ctx, b, rec)
		if err != nil {
			return sw.stepNotMade(ctx, b, rec, err)
		}
		if rec = made; rec.OnBoard() {
			return sw.onBoard(rec, c, duplicate)
		}
		if ctx.Err() != nil {
			return verdict{}
		}
		sw.progress()
		if b, err = sw.open(ctx); err != nil {
			return verdict{stop: err}
		}
	}
}

// stepNotMade is what happens to a create of which the board did not take a
// step. Whatever words it has for it, a refusal may mean that the row above has
// gone, so the rows are read anew.
func (sw *sweep) stepNotMade(ctx context.Context, b pipeline.Batch, rec *pipeline.Record, err error) verdict {
	if !pipeline.IsRefused(err) {
		return boardTrouble(err)
	}
	if err := sw.walk(ctx, b); err != nil {
		return boardTrouble(err)
	}
	if b.Row(rec.RowID) != nil {
		return boardTrouble(err)
	}
	if v, gone := sw.rowGone(ctx, b, rec); gone {
		return v
	}
	return wait(sw.Now().Add(retryBoard)) // it came back
}

// rowOf returns the row that bears the id of a task, of several rather one
// that has its title; nil where none does.
func rowOf(b pipeline.Batch, c *drop.Create) *pipeline.Row {
	row := b.TaskRow(c.Task.ID)
	if row == nil || sameTitle(row.Title, c.Task.Title) {
		return row
	}
	for r := range b.Rows() {
		if r.Parent == "" && r.Task() == c.Task.ID && sameTitle(r.Title, c.Task.Title) {
			return r
		}
	}
	return row
}

// mayCreateUnseen tells whether a row may be made although the board cannot be
// read, because the file has waited for so long.
func (sw *sweep) mayCreateUnseen(f inbox.File, err error) bool {
	var e *pipeline.BoardError
	if !errors.As(err, &e) || e.Class != pipeline.Transient {
		return false
	}
	return sw.Now().Sub(f.Info.ModTime()) >= sw.Times.DedupGiveUp
}

// certain walks the board where that can tell whether something that was asked
// for at the given time is there. due is zero if what the walk lacks now
// counts as not made; else it is when to look again.
func (sw *sweep) certain(ctx context.Context, b pipeline.Batch, asked time.Time) (due time.Time, err error) {
	certain := asked.Add(sw.Times.SettleAfter).Truncate(time.Millisecond) // the grain of WalkAt
	if b.WalkAt().Before(certain) && (!sw.Now().Before(certain) || b.WalkAt().Before(asked)) {
		if err := sw.walk(ctx, b); err != nil {
			return time.Time{}, err
		}
	}
	if b.WalkAt().Before(certain) {
		return certain, nil
	}
	return time.Time{}, nil
}

// fill takes over what the drop says.
func (sw *sweep) fill(r *pipeline.Record, f inbox.File, c *drop.Create) {
	if c.CreatedAt.IsZero() {
		c.CreatedAt = f.Info.ModTime().UTC()
	}
	*r = pipeline.Record{
		TaskID: c.Task.ID, DropID: c.ID, Drop: f.Name, Title: c.Task.Title, Agent: c.Task.Agent,
		Priority: c.Task.Priority, Project: c.Task.Project, Type: c.Task.Type, CreatedAt: c.CreatedAt,
		History: r.History, Attempt: r.Attempt,
	}
	for _, title := range c.Task.Steps {
		r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
	}
	if a := sw.Agents.Named(c.Task.Agent); a != nil {
		r.Agent = a.Name
	}
}

// adopt makes the record of a row that is on the board, and finds the rows of
// the steps that the drop asks for.
func (sw *sweep) adopt(ctx context.Context, f inbox.File, c *drop.Create, row *pipeline.Row, steps []*pipeline.Row) (*pipeline.Record, error) {
	return sw.Store.Change(ctx, c.Task.ID, func(r *pipeline.Record) error {
		found := "row found"
		if r.DropID == "" && r.RowID == "" {
			found = pipeline.EventRebuilt // it was lost, and with it what came behind the drop; or a person typed the row
		}
		if r.DropID != c.ID || len(r.Steps) == 0 {
			sw.fill(r, f, c)
		}
		r.RowID, r.RowAskedAt, r.Status = row.ID, nil, row.CurrentStatus()
		r.Note(sw.Now(), Who, found, row.ID)
		matchSteps(r, steps)
		return nil
	})
}

// takeOver gives a record the steps of the drop that it has not heard of. What
// else stands below the row comes last.
func (sw *sweep) takeOver(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, rec *pipeline.Record) (*pipeline.Record, error) {
	rows := b.StepRows(rec.RowID)
	return sw.change(ctx, rec, func(r *pipeline.Record) {
		r.DropID, r.Drop = c.ID, f.Name
		r.Reporting = nil // it names steps by their place: decided anew, it comes to the same
		had := r.Steps
		r.Steps = nil
		for _, title := range c.Task.Steps {
			r.Steps = append(r.Steps, pipeline.StepRecord{Title: title})
		}
		matchSteps(r, rows)
		for _, s := range had {
			if !slices.ContainsFunc(r.Steps, func(o pipeline.StepRecord) bool { return o.RowID == s.RowID }) {
				r.Steps = append(r.Steps, s)
			}
		}
		r.Note(sw.Now(), Who, "drop found", f.Name)
	})
}

// matchSteps gives the steps of a record the rows that have their titles. Of
// equal titles each gets one, the older first.
func matchSteps(r *pipeline.Record, rows []*pipeline.Row) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return cmp.Compare(a.Created, b.Created) })
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.RowID != "" {
			continue
		}
		for _, row := range rows {
			taken := slices.ContainsFunc(r.Steps, func(o pipeline.StepRecord) bool { return o.RowID == row.ID })
			if !taken && sameTitle(row.Title, s.Title) {
				s.RowID, s.AskedAt, s.Done = row.ID, nil, row.StepDone()
				break
			}
		}
	}
}

// errReadable says that a record is there which could not be read when it was
// decided what to do.
var errReadable = errors.New("the record can be read again")

// makeRow makes the row of a task. If we crash after the first write to its
// record, the row is looked for before it is made again.
func (sw *sweep) makeRow(ctx context.Context, b pipeline.Batch, f inbox.File, c *drop.Create, known *pipeline.Record, unseen bool) (*pipeline.Record, error) {
	now := sw.Now()
	rec, err := sw.Store.Change(ctx, c.Task.ID, func(r *pipeline.Record) error {
		if known == nil && (r.RowID != "" || r.RowAskedAt != nil) {
			return errReadable // there may be a row
		}
		sw.fill(r, f, c)
		r.Unverified = unseen
		r.RowAskedAt = &now
		r.Note(c.CreatedAt, cmp.Or(c.By, pipeline.WhoCreate), pipeline.EventDropped, f.Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	id, err := b.Create(ctx, "", sw.rowCells(rec)...)
	if err != nil {
		return nil, sw.unmade(ctx, rec, err, func(r *pipeline.Record, at *time.Time) { r.RowAskedAt = at })
	}
	sw.Log.Info("made row", "task", rec.TaskID, "row", id, "agent", rec.Agent, "steps", len(rec.Steps))
	return sw.change(ctx, rec, func(r *pipeline.Record) {
		now := sw.Now()
		r.RowID, r.RowAskedAt = id, nil
		r.Status, r.Written = pipeline.New, pipeline.New
		r.Note(now, Who, "row created", id)
		if !b.Over() {
			askNext(r, now)
		}
	})
}

func (sw *sweep) rowCells(rec *pipeline.Record) []pipeline.Cell {
	assignee := pipeline.Cell{Field: pipeline.FieldAssignee, Text: rec.Agent}
	if a := sw.Agents.Named(rec.Agent); a != nil {
		assignee.Text, assignee.User = a.Label, a.User
	}
	cells := []pipeline.Cell{
		{Field: pipeline.FieldTitle, Text: rec.Title},
		{Field: pipeline.FieldTaskID, Text: rec.TaskID.String()},
		{Field: pipeline.FieldType, Text: string(rec.Type)},
		assignee,
		{Field: pipeline.FieldPriority, Text: string(rec.Priority)},
		{Field: pipeline.FieldStatus, Text: string(pipeline.New)},
		{Field: pipeline.FieldRemaining, Number: float64(len(rec.Steps))},
		{Field: pipeline.FieldCompletion, Number: 0},
	}
	if rec.Project != "" {
		cells = append(cells, pipeline.Cell{Field: pipeline.FieldProject, Text: rec.Project})
	}
	return cells
}

// findSteps looks for the steps that were asked for before and of which no
// answer came. due is zero if what is not found counts as not made; else it is
// when to look again.
func (sw *sweep) findSteps(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (_ *pipeline.Record, due time.Time, err error) {
	asked := func(s pipeline.StepRecord) bool { return s.RowID == "" && s.AskedAt != nil }
	i := slices.IndexFunc(rec.Steps, asked)
	if i < 0 {
		return rec, time.Time{}, nil
	}
	if due, err = sw.certain(ctx, b, *rec.Steps[i].AskedAt); err != nil {
		return nil, time.Time{}, err
	}
	rows := b.StepRows(rec.RowID)
	rec, err = sw.change(ctx, rec, func(r *pipeline.Record) {
		matchSteps(r, rows)
		for i := range r.Steps {
			if due.IsZero() && asked(r.Steps[i]) {
				r.Steps[i].AskedAt = nil
			}
		}
	})
	if err != nil || !slices.ContainsFunc(rec.Steps, asked) {
		return rec, time.Time{}, err
	}
	return rec, due, nil
}

// makeSteps makes the rows of the steps that have none, until the batch has
// lasted its time: others wait for the board. Then the next step is not noted
// as asked for, or whoever goes on would look for it.
func (sw *sweep) makeSteps(ctx context.Context, b pipeline.Batch, rec *pipeline.Record) (_ *pipeline.Record, err error) {
	for i := range rec.Steps {
		if rec.Steps[i].RowID != "" {
			continue
		}
		if rec.Steps[i].AskedAt == nil { // else the record that made what is before it says so
			if b.Over() {
				return rec, nil
			}
			if rec, err = sw.change(ctx, rec, func(r *pipeline.Record) { askNext(r, sw.Now()) }); err != nil {
				return nil, err
			}
		}
		if rec, err = sw.makeStep(ctx, b, rec, i); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// askNext notes that the next step without a row is about to be asked for.
func askNext(r *pipeline.Record, now time.Time) {
	if i := slices.IndexFunc(r.Steps, func(s pipeline.StepRecord) bool { return s.RowID == "" }); i >= 0 {
		r.Steps[i].AskedAt = &now
	}
}

// makeStep makes the row of step i. The record that says it was made also says
// that the next one is asked for, if this batch still does so.
func (sw *sweep) makeStep(ctx context.Context, b pipeline.Batch, rec *pipeline.Record, i int) (*pipeline.Record, error) {
	id, err := b.Create(ctx, rec.RowID,
		pipeline.Cell{Field: pipeline.FieldTitle, Text: rec.Steps[i].Title},
		pipeline.Cell{Field: pipeline.FieldStatus, Text: string(pipeline.New)})
	if err != nil {
		err = fmt.Errorf("step %d: %w", i+1, err)
		return nil, sw.unmade(ctx, rec, err, func(r *pipeline.Record, at *time.Time) { r.Steps[i].AskedAt = at })
	}
	return sw.change(ctx, rec, func(r *pipeline.Record) {
		now := sw.Now()
		r.Steps[i].RowID, r.Steps[i].AskedAt = id, nil
		if !b.Over() {
			askNext(r, now)
		}
		if r.OnBoard() {
			r.Note(now, Who, "steps created", fmt.Sprint(len(r.Steps)))
		}
	})
}

// unmade notes how a request for a row ended that brought none: it was not
// made, or, as of now, nobody knows.
func (sw *sweep) unmade(ctx context.Context, rec *pipeline.Record, cause error, set func(*pipeline.Record, *time.Time)) error {
	var at *time.Time
	if pipeline.MaybeApplied(cause) {
		now := sw.Now()
		at = &now
	}
	if _, err := sw.change(ctx, rec, func(r *pipeline.Record) { set(r, at) }); err != nil {
		return err
	}
	return cause
}

// change changes the record that we have, and no other: where somebody took it
// away, or made it anew from the board, the error is a *changedError.
func (sw *sweep) change(ctx context.Context, rec *pipeline.Record, f func(*pipeline.Record)) (*pipeline.Record, error) {
	return sw.Store.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		if r.RowID != rec.RowID || r.DropID != rec.DropID || !slices.EqualFunc(r.Steps, rec.Steps, sameStep) {
			sw.Log.Warn("record changed meanwhile", "task", rec.TaskID)
			return &changedError{rec.TaskID, sw.Now().Add(sw.Times.ParseableAge)}
		}
		f(r)
		return nil
	})
}

func sameStep(a, b pipeline.StepRecord) bool { return a.RowID == b.RowID && a.Title == b.Title }

// changedError says that a record changed while we worked by it. That ends the
// turn of the file: the next look begins from what board, record and drop say.
type changedError struct {
	task  pipeline.TaskID
	again time.Time // when to look
}

func (e *changedError) Error() string {
	return fmt.Sprintf("the record of %v changed while the injector worked by it", e.task)
}

// onBoard is the verdict on a create whose task stands on the board with all
// its steps.
func (sw *sweep) onBoard(rec *pipeline.Record, c *drop.Create, duplicate bool) verdict {
	sw.noteProcessed(c)
	return verdict{result: &inbox.Result{
		SlackItemID: rec.RowID, SubtaskItemIDs: stepRows(rec),
		SkippedDuplicate: duplicate, DedupUnverified: rec.Unverified && !duplicate,
	}}
}

func stepRows(rec *pipeline.Record) []string {
	var ids []string
	for _, s := range rec.Steps {
		ids = append(ids, s.RowID)
	}
	return ids
}
