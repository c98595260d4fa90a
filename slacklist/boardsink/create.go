package boardsink

import (
	"errors"
	"fmt"

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
}

// makeRows makes the rows of tasks and steps that are missing, the tasks in their order.
func (m *maker) makeRows() error {
	for _, w := range m.open(lacksRows) {
		if m.closed == nil && m.mustEnd() {
			m.closed = errOver
		}
		if err := m.closed; err != nil {
			m.fail(w, err)
			continue
		}
		if err := m.mayMake(w); err != nil {
			m.fail(w, err)
			continue
		}
		if err := m.make(w); err != nil {
			return errors.Join(m.flush(), err)
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
func (m *maker) mayMake(w *work) error {
	switch {
	case w.task.RowID != "" && m.b.Row(w.task.RowID) == nil:
		return errRowMissing
	case m.walkErr != nil && !m.b.Fresh(createAge) && !w.task.Unverified:
		return m.walkErr
	}
	// A task that lacks some of its steps is not handed out, and takes the room of a smaller
	// one.
	if !m.fits(w.task) {
		return &pipeline.BoardError{Method: fmt.Sprintf("the list has room for %d more, and the task needs more rows", m.b.Room()), Full: true}
	}
	return nil
}

// fits reports whether the board, as far as we know, has room for all rows that a task lacks.
func (d *delivery) fits(t *core.Task) bool {
	lacks := 0
	if t.RowID == "" {
		lacks++
	}
	for _, s := range t.Steps {
		if s.RowID == "" {
			lacks++
		}
	}
	room := d.b.Room()
	return room < 0 || lacks <= room || !lacksRows(t)
}

// make makes the rows of one task. It returns an error that concerns all others, too.
func (m *maker) make(w *work) error {
	t := w.task
	written, parent := core.Written{Shown: t.Shown}, t.RowID
	err := func() error {
		if parent == "" {
			view := t.View()
			row, err := m.b.Create(m.ctx, "", m.rowCells(&view)...)
			m.getsOn()
			if err != nil {
				return err
			}
			crash.Point("board.made")
			m.wrote, parent = true, row
			written.Row, written.Shown = row, view
			m.made++
			m.Log.Info("made row", "task", t.ID, "row", row, "agent", t.Agent, "steps", len(t.Steps))
		}
		return m.steps(t, parent, &written)
	}()
	if written.Row != "" || len(written.Steps) > 0 {
		m.note(w, written)
	}
	if err == nil {
		return nil
	}
	return m.unmade(w, err)
}

// steps makes the steps of a task that have no row, as long as the batch lasts.
func (m *maker) steps(t *core.Task, parent string, written *core.Written) error {
	for i := range t.Steps {
		step := &t.Steps[i]
		if step.RowID != "" {
			continue
		}
		if m.mustEnd() {
			return errOver
		}
		row, err := m.b.Create(m.ctx, parent, stepCells(step)...)
		m.getsOn()
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		crash.Point("board.stepped")
		m.wrote = true
		m.made++
		written.Steps = append(written.Steps, core.WrittenStep{Step: step.ID, Row: row, Shown: core.StepShown{Title: step.Title, Done: step.Done}})
	}
	return nil
}

// unmade ends the effect of a task one of whose rows was not made. A limit on new rows
// holds up the rows of other tasks as well. It returns an error that concerns all
// others.
func (m *maker) unmade(w *work, err error) error {
	m.fail(w, err)
	var e *pipeline.BoardError
	switch {
	case errors.Is(err, errOver), errors.As(err, &e) && (e.Full || e.Code == "ratelimited"):
		m.closed = err
	case w.result.Stop:
		return err
	}
	return nil
}
