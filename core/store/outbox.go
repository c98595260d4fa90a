package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
)

// enqueue notes which sinks do not have a task as it is any more. A newer change
// replaces an older one that still waits, and is tried at once; what is known of tries
// stays. An effect that is settled while somebody leases it keeps its lease, so that
// nobody else delivers the next one meanwhile.
func enqueue(t tx, now time.Time, was, is *core.Task) error {
	stale, settled := core.Effects(was, is)
	for _, sink := range stale {
		_, err := t.Exec(`INSERT INTO outbox (task, sink, place, wanted, since, due, tries, asked_at, code, error, lease_owner, lease_until)
			VALUES ($1, $2, $3, $4, $5, 0, 0, 0, '', '', '', 0)
			ON CONFLICT (task, sink) DO UPDATE SET
				since = CASE WHEN outbox.wanted = 0 THEN excluded.since ELSE outbox.since END,
				wanted = excluded.wanted, due = 0`,
			int64(is.ID), string(sink), slices.Index(core.Sinks, sink), is.Version, fromTime(now))
		if err != nil {
			return err
		}
	}
	for _, sink := range settled {
		if was == nil {
			continue // it has no rows yet
		}
		if err := settle(t, is.ID, sink); err != nil {
			return err
		}
	}
	return nil
}

// settle removes an effect, or, if somebody leases it, keeps the lease alone.
func settle(t tx, task pipeline.TaskID, sink core.Sink) error {
	if _, err := t.Exec("DELETE FROM outbox WHERE task = $1 AND sink = $2 AND lease_owner = ''", int64(task), string(sink)); err != nil {
		return err
	}
	_, err := t.Exec("UPDATE outbox SET wanted = 0, tries = 0, asked_at = 0, code = '', error = '' WHERE task = $1 AND sink = $2 AND wanted > 0", int64(task), string(sink))
	return err
}

// horizon is how far ahead a lease or a due time counts. What lies further ahead was
// written before the clock was set back.
const horizon = 15 * time.Minute

// open is the condition that an effect may be leased: nobody else leases it, and no
// effect of the same task goes before it. It must be due, unless its task was named.
func open(q *query, owner string, now time.Time, named bool) {
	at, ahead := fromTime(now), fromTime(now.Add(horizon))
	q.where("o.wanted > 0")
	if !named {
		q.where("(o.due <= ? OR o.due > ?)", at, ahead)
	}
	q.where("(o.lease_owner IN ('', ?) OR o.lease_until <= ? OR o.lease_until > ?)", owner, at, ahead)
	q.where("NOT EXISTS (SELECT 1 FROM outbox AS e WHERE e.task = o.task AND e.place < o.place AND e.wanted > 0)")
}

const columns = "task, sink, wanted, since, due, tries, asked_at, code, error, lease_owner"

// Pending returns effects, the oldest first, see core.Outbox.
func (s *Store) Pending(ctx context.Context, sink core.Sink, tasks ...pipeline.TaskID) ([]core.Pending, error) {
	return reading(ctx, s, func(t tx) (pending []core.Pending, err error) {
		err = eachChunk(tasks, func(ids []pipeline.TaskID) error {
			var q query
			q.where("o.wanted > 0")
			if sink != "" {
				q.where("o.sink = ?", string(sink))
			}
			some, err := loadPending(t, &q, ids, 0)
			pending = append(pending, some...)
			return err
		})
		return pending, err
	})
}

// loadPending returns the effects that meet the conditions, of the given tasks if ids is
// not nil, at most limit of them (0: all).
func loadPending(t tx, q *query, ids []pipeline.TaskID, limit int) ([]core.Pending, error) {
	if ids != nil {
		in(q, "o.task", ids)
	}
	end := " ORDER BY o.since, o.task, o.place"
	if limit > 0 {
		end += " LIMIT " + q.arg(limit)
	}
	scan := func(rows *sql.Rows) (core.Pending, error) { return scanPending(rows) }
	return collect(t, scan, "SELECT "+columns+" FROM outbox AS o"+q.text()+end, q.args...)
}

func scanPending(row interface{ Scan(...any) error }) (p core.Pending, err error) {
	var sink string
	var task, since, due, asked int64
	err = row.Scan(&task, &sink, &p.Wanted, &since, &due, &p.Tries, &asked, &p.Code, &p.Error, &p.Owner)
	p.Task, p.Sink, p.Since, p.Due, p.AskedAt = pipeline.TaskID(task), core.Sink(sink), toTime(since), toTime(due), toTime(asked)
	return p, err
}

// Lease leases effects, see core.Outbox. It looks before it writes, because most often
// nothing is due. The lease of an effect that may make rows on the board survives a
// power failure, so that the next try looks for them; the others need not.
func (s *Store) Lease(ctx context.Context, sink core.Sink, owner string, now time.Time, lease time.Duration, limit int, tasks ...pipeline.TaskID) ([]core.Pending, error) {
	var due []core.Pending
	makes := false
	err := s.read(ctx, func(t tx) error {
		err := eachChunk(tasks, func(ids []pipeline.TaskID) error {
			var q query
			q.where("o.sink = ?", string(sink))
			open(&q, owner, now, ids != nil)
			some, err := loadPending(t, &q, ids, limit)
			due = append(due, some...)
			return err
		})
		if err != nil || sink != core.SinkBoard {
			return err
		}
		makes, err = anyWithoutRows(t, core.TasksOf(due))
		return err
	})
	if err != nil || len(due) == 0 {
		return nil, err
	}
	if limit > 0 && len(due) > limit {
		due = due[:limit]
	}
	var leased []core.Pending
	err = s.write(ctx, durability(makes), func(t tx) error {
		var err error
		leased, err = leaseEach(t, due, owner, now, lease, len(tasks) > 0)
		return err
	})
	return leased, err
}

// leaseEach leases those of the effects that may still be leased. A lease that lapsed
// may have been followed by a try that got no answer.
func leaseEach(t tx, due []core.Pending, owner string, now time.Time, lease time.Duration, named bool) ([]core.Pending, error) {
	var leased []core.Pending
	err := each(due, func(p *core.Pending) error {
		var q query
		by, until, at := q.arg(owner), q.arg(fromTime(now.Add(lease))), q.arg(fromTime(now))
		q.where("o.task = ? AND o.sink = ?", int64(p.Task), string(p.Sink))
		open(&q, owner, now, named)
		row := t.QueryRow(`UPDATE outbox AS o SET lease_owner = `+by+`, lease_until = `+until+`,
			asked_at = CASE WHEN o.lease_owner IN ('', `+by+`) THEN o.asked_at WHEN o.lease_until >= `+at+` THEN `+at+`
				WHEN o.lease_until > o.asked_at THEN o.lease_until ELSE o.asked_at END`+
			q.text()+` RETURNING `+columns, q.args...)
		got, err := scanPending(row)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // another process was faster
		}
		leased = append(leased, got)
		return err
	})
	return leased, err
}

// anyWithoutRows reports whether one of the tasks, or a step of one, has no row on the
// board.
func anyWithoutRows(t tx, ids []pipeline.TaskID) (bool, error) {
	for _, id := range ids {
		var there int
		err := t.QueryRow("SELECT on_board FROM tasks WHERE id = $1", int64(id)).Scan(&there)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		if there == 0 {
			return true, nil
		}
	}
	return false, nil
}

// Delivered settles effects, see core.Outbox. A power failure may undo that: they are
// delivered again. If the lease was lost meanwhile, an older state may have replaced a
// newer one in the sink, which therefore gets the effect again; the board has its own
// check (Task.Unshown).
func (s *Store) Delivered(ctx context.Context, done ...core.Pending) error {
	if len(done) == 0 {
		return nil
	}
	return s.write(ctx, unsynced, func(t tx) error {
		return each(done, func(p *core.Pending) error { return delivered(t, p) })
	})
}

func delivered(t tx, p *core.Pending) error {
	task, sink := int64(p.Task), string(p.Sink)
	settled, err := count(t.Exec("DELETE FROM outbox WHERE task = $1 AND sink = $2 AND wanted IN ($3, 0) AND lease_owner = $4", task, sink, p.Wanted, p.Owner))
	if err != nil || settled > 0 {
		return err
	}
	changed, err := count(t.Exec(`UPDATE outbox SET lease_owner = '', lease_until = 0, due = 0, tries = 0, asked_at = 0, code = '', error = ''
		WHERE task = $1 AND sink = $2 AND lease_owner = $3`, task, sink, p.Owner))
	if err != nil || changed > 0 || p.Sink == core.SinkBoard || p.Owner == "" {
		return err
	}
	_, err = t.Exec(`INSERT INTO outbox (task, sink, place, wanted, since, due, tries, asked_at, code, error, lease_owner, lease_until)
		SELECT id, CAST($1 AS TEXT), CAST($2 AS BIGINT), version, CAST($3 AS BIGINT), 0, 0, 0, '', '', '', 0 FROM tasks WHERE id = $4
		ON CONFLICT (task, sink) DO UPDATE SET lease_owner = '', lease_until = 0, due = 0`,
		sink, slices.Index(core.Sinks, p.Sink), fromTime(p.Since), task)
	return err
}

// Postponed gives leased effects back, see core.Outbox. It does nothing for those whose
// lease was lost. A try that may have made rows on the board is remembered over a power
// failure.
func (s *Store) Postponed(ctx context.Context, later ...core.Pending) error {
	if len(later) == 0 {
		return nil
	}
	asked := slices.ContainsFunc(later, func(p core.Pending) bool { return p.Sink == core.SinkBoard && !p.AskedAt.IsZero() })
	return s.write(ctx, durability(asked), func(t tx) error {
		return each(later, func(p *core.Pending) error { return postponed(t, p) })
	})
}

func postponed(t tx, p *core.Pending) error {
	task, sink := int64(p.Task), string(p.Sink)
	if _, err := t.Exec("DELETE FROM outbox WHERE task = $1 AND sink = $2 AND wanted = 0 AND lease_owner = $3", task, sink, p.Owner); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE outbox SET due = $1, tries = $2, asked_at = $3, code = $4, error = $5, lease_owner = '', lease_until = 0
		WHERE task = $6 AND sink = $7 AND lease_owner = $8`,
		fromTime(p.Due), p.Tries, fromTime(p.AskedAt), p.Code, p.Error, task, sink, p.Owner)
	return err
}

// each calls f for effects in the order in which all transactions change them, so that
// no two wait for each other.
func each(effects []core.Pending, f func(*core.Pending) error) error {
	sorted := slices.SortedFunc(slices.Values(effects), func(a, b core.Pending) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Sink, b.Sink))
	})
	for i := range sorted {
		if err := f(&sorted[i]); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many rows a statement changed.
func count(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
