package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"otm/core"
	"otm/pipeline"
)

// liveTasks caches the live tasks. Each pass reads all of them, and few have changed since
// the last one. The events say which.
type liveTasks struct {
	turn  chan struct{} // a lock that a context can end: its holder may wait for SQLite
	db    engine        // from which they were read
	at    mark
	tasks []*core.Task // in the order of their ids
}

// mark is the version of all states: the number of the last event, and how many rebuilds
// there were. A rebuild changes states without an event. Events up to archived left the
// table.
type mark struct{ event, rebuilds, archived int64 }

func loadMark(t tx) (m mark, err error) {
	err = t.QueryRow(`SELECT coalesce(max(CASE WHEN name = 'events' THEN value END), 0), coalesce(max(CASE WHEN name = 'rebuilds' THEN value END), 0),
		(SELECT coalesce(max(last), 0) FROM archives) FROM counters`).Scan(&m.event, &m.rebuilds, &m.archived)
	return m, err
}

// all returns all live tasks.
func (l *liveTasks) all(ctx context.Context, s *Store) (tasks []*core.Task, err error) {
	err = s.use(ctx, func(db engine) error {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := db.read(ctx, func(t tx) error { return l.read(t, db) }); err != nil {
			return err
		}
		tasks = slices.Clone(l.tasks)
		return nil
	})
	return tasks, err
}

// read brings the cache up to the state that a transaction sees.
func (l *liveTasks) read(t tx, db engine) error {
	at, err := loadMark(t)
	if err != nil || l.db == db && l.at == at {
		return err
	}
	var changed []pipeline.TaskID
	all := l.db != db || l.at.rebuilds != at.rebuilds || l.at.event < at.archived ||
		l.at.event > at.event // fewer events: a backup was restored
	if !all {
		scan := func(rows *sql.Rows) (pipeline.TaskID, error) {
			id, err := number(rows)
			return pipeline.TaskID(id), err
		}
		if changed, err = collect(t, scan, "SELECT DISTINCT task FROM events WHERE seq > $1 AND task <> 0 ORDER BY task", l.at.event); err != nil {
			return err
		}
	}
	var fresh []*core.Task
	if all || len(changed) > 0 {
		err = eachChunk(changed, func(ids []pipeline.TaskID) error {
			some, err := loadTasks(t, core.Filter{Live: true}, ids)
			fresh = append(fresh, some...)
			return err
		})
		if err != nil {
			return err
		}
	}
	kept := slices.DeleteFunc(l.tasks, func(t *core.Task) bool {
		_, found := slices.BinarySearch(changed, t.ID)
		return all || found
	})
	l.tasks = append(kept, fresh...)
	slices.SortFunc(l.tasks, func(a, b *core.Task) int { return cmp.Compare(a.ID, b.ID) })
	l.db, l.at = db, at
	return nil
}
