package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/pipeline"
)

// owners knows which task a row belongs to, by the records. People clear and change
// the Task ID cells of rows.
type owners struct {
	byRow map[string]pipeline.TaskID
	known map[pipeline.TaskID]bool // tasks in byRow
	// unread is a task whose record could not be read. It may own any row. 0: there is
	// none.
	unread pipeline.TaskID
}

// of returns the record of the task that owns a row; nil: there is none.
func (o *owners) of(records pipeline.Records, row string) *pipeline.Record {
	id, ok := o.byRow[row]
	if !ok {
		return nil
	}
	rec, err := records.Load(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.unread = id
		return nil
	}
	if err != nil || rec.RowID != row {
		delete(o.byRow, row) // it has another row now: update finds it again
		delete(o.known, id)
		return nil
	}
	return rec
}

// update adds the records that have a row by now.
func (o *owners) update(records pipeline.Records) error {
	if o.byRow == nil {
		o.byRow, o.known = map[string]pipeline.TaskID{}, map[pipeline.TaskID]bool{}
	}
	ids, err := records.IDs()
	if err != nil {
		return err
	}
	o.unread = 0
	for _, id := range ids {
		if o.known[id] {
			continue
		}
		rec, err := records.Load(id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.unread = id // an unreadable record must not block the others
		}
		if err != nil || rec.RowID == "" {
			continue
		}
		o.known[id] = true
		if _, taken := o.byRow[rec.RowID]; !taken {
			o.byRow[rec.RowID] = id
		}
	}
	return nil
}

// owner returns the record of the task that owns a row, whatever id is in the row;
// nil: there is none. It reads the records, once a scan. Only rows that lack the id
// of their task need it.
func (rd *reader) owner(row string) (*pipeline.Record, error) {
	if !rd.owned {
		if err := rd.owners.update(rd.Records); err != nil {
			return nil, err
		}
		rd.owned = true
	}
	return rd.owners.of(rd.Records, row), nil
}

// isStray reports whether a person cleared or changed the Task ID cell of a task's
// row. It notes the row for giveBack. A row whose adoption has begun is no stray.
func (rd *reader) isStray(row *pipeline.Row) (bool, error) {
	rec, err := rd.owner(row.ID)
	if err != nil || rec == nil || rec.TaskID == row.Task() || isBegun(rec) && row.TaskID == "" {
		return false, err
	}
	if !row.Odd { // else the Task ID cell itself may be unreadable
		rd.strays = append(rd.strays, row.ID)
	}
	return true, nil
}

// isBegun reports whether an adoption has begun and is not complete.
func isBegun(r *pipeline.Record) bool { return r.DropID == "" && !isWhole(r) }

// eventIDBack is the event of an id that OTM wrote back into its row.
const eventIDBack = "task id written back"

// lastNoted is when an event was last noted; zero: never.
func lastNoted(r *pipeline.Record, what string) (at time.Time) {
	for _, e := range r.History {
		if e.What == what {
			at = e.At
		}
	}
	return at
}

// giveBack writes the ids of tasks back into the rows that lack them. It returns how
// many it wrote.
func (ad *adopter) giveBack(ctx context.Context, b pipeline.Batch) (n int, err error) {
	slices.Sort(ad.strays)
	for _, id := range slices.Compact(ad.strays) {
		if b.Over() {
			ad.report.RunBy(ad.Now())
			break
		}
		ad.getsOn()
		row := b.Row(id)
		if row == nil {
			continue
		}
		if quiet := ad.stillAt(row.Updated); quiet.After(ad.Now()) {
			ad.report.RunBy(quiet) // a person is editing it
			continue
		}
		done, err := ad.giveBackOne(ctx, b, row)
		if err != nil {
			if err := ad.adoptFailed(ctx, row, err); err != nil || ad.report.Trouble != nil {
				return n, err
			}
			continue
		}
		if done {
			n++
		}
	}
	return n, nil
}

func (ad *adopter) giveBackOne(ctx context.Context, b pipeline.Batch, row *pipeline.Row) (done bool, err error) {
	rec, err := ad.owner(row.ID)
	if err != nil || rec == nil {
		return false, err
	}
	if other := b.TaskRow(rec.TaskID); other != nil && other.ID != row.ID {
		return false, fmt.Errorf("it is the row of %v, but row %q has that Task ID: clear the Task ID of that one", rec.TaskID, other.Title)
	}
	if at := lastNoted(rec, eventIDBack); !reached(at, sayAgain, ad.Now()) {
		return false, fmt.Errorf("somebody changed its Task ID again after OTM wrote it back at %s: it must be %v; check whether a second data directory uses this list",
			at.Local().Format(time.DateTime), rec.TaskID)
	}
	was, title := row.TaskID, row.Title
	err = b.Update(ctx, pipeline.Change{Row: row.ID, Cells: []pipeline.Cell{{Field: pipeline.FieldTaskID, Text: rec.TaskID.String()}}})
	if err != nil {
		return false, err
	}
	ad.Log.Warn("wrote back the task id that somebody changed", "task", rec.TaskID, "was", was, "title", title)
	_, err = ad.Records.Change(ctx, rec.TaskID, func(r *pipeline.Record) error {
		r.Note(ad.Now(), Who, eventIDBack, was)
		return nil
	})
	return true, err
}

// stillAt is when a row counts as no longer edited. updated is its last change, in
// Unix seconds. It is zero if the board's clock is too far ahead of ours.
func (rd *reader) stillAt(updated int64) time.Time {
	quiet := time.Unix(updated, 0).Add(rd.Times.AdoptAfter)
	if quiet.Sub(rd.Now()) > 2*rd.Times.AdoptAfter {
		return time.Time{}
	}
	return quiet
}
