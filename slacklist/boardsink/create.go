package boardsink

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"otm/core"
	"otm/internal/crash"
	"otm/pipeline"
)

// rowsAtOnce is how many rows are made before their receipts go to the store. After a
// crash, so many are looked for.
const rowsAtOnce = 64

// maker makes rows.
type maker struct {
	*delivery
	made   int   // rows whose receipts are not sent
	closed error // why no further row can be made now; nil: they can
	stop   error // one that concerns all effects; nil: there is none
}

// making is a task whose rows are being made.
type making struct {
	*work
	parent  string // its row; "": still to be made
	view    core.Shown
	written core.Written
	failed  bool
}

// makeRows makes the rows of tasks and steps that are missing, the tasks in their order,
// as many at a time as the board takes calls.
func (m *maker) makeRows() error {
	for works := range slices.Chunk(m.open(lacksRows), m.b.AtOnce()) {
		promised := 0 // rows to tasks of the group
		var group []*making
		for _, w := range works {
			if m.closed == nil && m.mustEnd() {
				m.closed = errOver
			}
			if err := cmp.Or(m.closed, m.mayMake(w, promised)); err != nil {
				m.fail(w, err)
				continue
			}
			promised += lacks(w.task)
			group = append(group, &making{work: w, parent: w.task.RowID, view: w.task.View(), written: core.Written{Shown: w.task.Shown}})
		}
		if m.make(group); m.stop != nil {
			return errors.Join(m.flush(), m.stop)
		}
		if m.made >= rowsAtOnce {
			if err := m.flush(); err != nil {
				return err
			}
		}
	}
	return m.flush()
}

func (m *maker) flush() error {
	m.made = 0
	return m.delivery.flush()
}

// mayMake reports why no row may be made for a task now; nil: it may.
func (m *maker) mayMake(w *work, promised int) error {
	switch {
	case w.task.RowID != "" && m.b.Row(w.task.RowID) == nil:
		return errRowMissing
	case m.walkErr != nil && !m.b.Fresh(createAge) && !w.task.Unverified:
		return m.walkErr
	}
	// A task that lacks some of its steps is not handed out, and takes the room of a smaller
	// one.
	if !m.fits(w.task, promised) {
		return &pipeline.BoardError{Method: fmt.Sprintf("the list has room for %d more, and the task needs more rows", m.b.Room()), Full: true}
	}
	return nil
}

// fits reports whether the board, as far as we know, has room for all rows that a task
// lacks, beside those that are promised to others.
func (d *delivery) fits(t *core.Task, promised int) bool {
	room := d.b.Room()
	return room < 0 || lacks(t) <= room-promised || !lacksRows(t)
}

// lacks returns how many rows of a task are missing.
func lacks(t *core.Task) int {
	n := len(pipeline.Filter(t.Steps, func(s core.Step) bool { return s.RowID == "" }))
	if t.RowID == "" {
		n++
	}
	return n
}

// make makes the rows of a group of tasks: first theirs, then step by step those of their
// steps.
func (m *maker) make(group []*making) {
	steps := 0
	var rows []newRow
	for _, w := range group {
		steps = max(steps, len(w.task.Steps))
		if w.parent == "" {
			rows = append(rows, newRow{making: w, cells: m.rowCells(&w.view)})
		}
	}
	m.create(rows)
	for i := 0; i < steps && m.stop == nil; i++ {
		rows = rows[:0]
		for _, w := range group {
			if w.failed || i >= len(w.task.Steps) || w.task.Steps[i].RowID != "" {
				continue
			}
			if m.closed == nil && m.mustEnd() {
				m.closed = errOver
			}
			if m.closed != nil {
				m.unmade(w, m.closed)
				continue
			}
			rows = append(rows, newRow{making: w, step: i + 1, cells: stepCells(&w.task.Steps[i])})
		}
		m.create(rows)
	}
	for _, w := range group {
		if w.written.Row != "" || len(w.written.Steps) > 0 {
			m.note(w.work, w.written)
		}
	}
}

// newRow is a row to be made: that of a task, or that of its step of this number.
type newRow struct {
	*making
	step  int
	cells []pipeline.Cell
}

// create makes rows, all at a time.
func (m *maker) create(rows []newRow) {
	ids, errs := make([]string, len(rows)), make([]error, len(rows))
	together(len(rows), func(i int) { ids[i], errs[i] = m.b.Create(m.ctx, rows[i].parent, rows[i].cells...) })
	for i, r := range rows {
		m.getsOn()
		switch err := errs[i]; {
		case err != nil && r.step > 0:
			m.unmade(r.making, fmt.Errorf("step %d: %w", r.step, err))
			continue
		case err != nil:
			m.unmade(r.making, err)
			continue
		case r.step == 0:
			crash.Point("board.made")
			r.parent, r.written.Row, r.written.Shown = ids[i], ids[i], r.view
			m.Log.Info("made row", "task", r.task.ID, "row", ids[i], "agent", r.task.Agent, "steps", len(r.task.Steps))
		default:
			crash.Point("board.stepped")
			s := &r.task.Steps[r.step-1]
			r.written.Steps = append(r.written.Steps, core.WrittenStep{Step: s.ID, Row: ids[i], Shown: core.StepShown{Title: s.Title, Done: s.Done}})
		}
		m.wrote = true
		m.made++
	}
}

// together calls f for 0 to n-1, each in a goroutine of its own if there are several. The
// panic or the end of one becomes the caller's.
func together(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	panics, returned := make([]any, n), make([]bool, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			f(i)
			returned[i] = true
		})
	}
	all.Wait()
	for i := range n {
		switch {
		case panics[i] != nil:
			panic(panics[i])
		case !returned[i]:
			runtime.Goexit()
		}
	}
}

// unmade ends the effect of a task one of whose rows was not made. A limit on new rows
// holds up the rows of other tasks as well.
func (m *maker) unmade(w *making, err error) {
	w.failed = true
	m.fail(w.work, err)
	var e *pipeline.BoardError
	switch {
	case errors.Is(err, errOver), errors.As(err, &e) && (e.Full || e.Code == "ratelimited"):
		m.closed = err
	case w.result.Stop:
		m.stop = cmp.Or(m.stop, err)
	}
}
