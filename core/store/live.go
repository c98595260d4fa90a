package store

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"otm/core"
	"otm/pipeline"
)

// liveTasks are the live tasks in memory. A pass reads all of them, of which few have changed
// since the last one: the events say which.
type liveTasks struct {
	mu    sync.Mutex // guards what follows, from before the snapshot to after it
	db    engine     // where they were read
	at    mark
	tasks []*core.Task // in the order of their ids
}

// mark says how far a reader has come: up to which event, and after how many rebuilds,
// which change states without events.
type mark struct{ event, rebuilds int64 }

func loadMark(t tx) (m mark, err error) {
	err = t.QueryRow(`SELECT coalesce(max(CASE WHEN name = 'events' THEN value END), 0), coalesce(max(CASE WHEN name = 'rebuilds' THEN value END), 0)
		FROM counters`).Scan(&m.event, &m.rebuilds)
	return m, err
}

// all returns all live tasks.
func (l *liveTasks) all(ctx context.Context, s *Store) (tasks []*core.Task, err error) {
	err = s.use(ctx, func(db engine) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := db.read(ctx, func(t tx) error { return l.read(t, db) }); err != nil {
			return err
		}
		tasks = slices.Clone(l.tasks)
		return nil
	})
	return tasks, err
}

// read brings the tasks up to a snapshot.
func (l *liveTasks) read(t tx, db engine) error {
	at, err := loadMark(t)
	if err != nil || l.db == db && l.at == at {
		return err
	}
	var changed []pipeline.TaskID
	all := l.db != db || l.at.rebuilds != at.rebuilds || l.at.event > at.event // the last: a backup was restored
	if !all {
		if changed, err = changedSince(t, l.at.event); err != nil {
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

// changedSince returns the tasks that have events after one, in the order of their ids.
func changedSince(t tx, event int64) (changed []pipeline.TaskID, err error) {
	rows, err := t.Query("SELECT DISTINCT task FROM events WHERE seq > $1 AND task <> 0 ORDER BY task", event)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		changed = append(changed, pipeline.TaskID(id))
	}
	return changed, rows.Err()
}
