package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"otm/core"
	"otm/pipeline"
)

// write runs fn in a transaction. fn may run again.
func (s *Store) write(ctx context.Context, d durability, fn func(tx) error) error {
	return s.use(ctx, func(db engine) error { return db.write(ctx, d, fn) })
}

// read runs fn on a snapshot.
func (s *Store) read(ctx context.Context, fn func(tx) error) error {
	return s.use(ctx, func(db engine) error { return db.read(ctx, fn) })
}

// meta returns a value of the table meta; "" if it has none.
func (s *Store) meta(ctx context.Context, key string) (value string, err error) {
	return reading(ctx, s, func(t tx) (value string, err error) {
		if err = t.QueryRow("SELECT value FROM meta WHERE key = $1", key).Scan(&value); errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return value, err
	})
}

// Task returns a task, see core.Reader.
func (s *Store) Task(ctx context.Context, id pipeline.TaskID) (*core.Task, error) {
	task, err := reading(ctx, s, func(t tx) (*core.Task, error) { return loadTask(t, id, "") })
	if err == nil && task == nil {
		err = core.ErrNoTask
	}
	return task, err
}

// Tasks returns tasks in ascending order of their ids, see core.Reader.
func (s *Store) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	if f.IDs != nil && len(f.IDs) == 0 {
		return nil, nil
	}
	if f.Live && f.IDs == nil && f.Rows == nil && f.Agent == "" && f.Woken == nil {
		return s.live.all(ctx, s)
	}
	return reading(ctx, s, func(t tx) (tasks []*core.Task, err error) {
		err = eachChunk(f.IDs, func(ids []pipeline.TaskID) error {
			some, err := loadTasks(t, f, ids)
			tasks = append(tasks, some...)
			return err
		})
		return tasks, err
	})
}

// loadTasks returns the tasks that a filter selects, but only those of ids; nil: of all.
func loadTasks(t tx, f core.Filter, ids []pipeline.TaskID) ([]*core.Task, error) {
	var q query
	if ids != nil {
		in(&q, "id", ids)
	}
	if f.Rows != nil {
		in(&q, "row_id", f.Rows)
		q.where("row_id <> ''") // so that SQLite uses the index
	}
	if f.Live {
		q.where("live = 1")
	}
	if f.Woken != nil {
		wakes := query{args: q.args}
		in(&wakes, "agent_key", pipeline.Map(f.Woken, pipeline.FoldName))
		q.args = wakes.args
		q.where("id IN (SELECT task FROM wakes"+wakes.text()+" AND asked_at >= ?)", fromTime(f.WokenFrom))
	}
	if f.Agent != "" {
		agent := pipeline.FoldName(f.Agent)
		q.where("(agent_key = ? OR dispatch_key = ?)", agent, agent)
	}
	return loadDocs[core.Task](t, "a task", "SELECT doc FROM tasks"+q.text()+" ORDER BY id", q.args)
}

// loadDocs reads the states whose documents a query selects. what names one in an error.
func loadDocs[T any](t tx, what, query string, args []any) ([]*T, error) {
	return collect(t, func(rows *sql.Rows) (*T, error) {
		var doc sql.RawBytes
		if err := rows.Scan(&doc); err != nil {
			return nil, err
		}
		state := new(T)
		if err := json.Unmarshal(doc, state); err != nil {
			return nil, brokenState(fmt.Errorf("of %s: %w", what, err))
		}
		return state, nil
	}, query, args...)
}

// eachChunk calls f with ids in parts that fit into a query; once with nil, if there are
// none.
func eachChunk(ids []pipeline.TaskID, f func([]pipeline.TaskID) error) error {
	if len(ids) == 0 {
		return f(nil)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	for part := range slices.Chunk(sorted, 512) {
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// TaskOfWake returns the task that holds the wake of a key, see core.Reader.
func (s *Store) TaskOfWake(ctx context.Context, key string) (pipeline.TaskID, error) {
	var id int64
	err := s.read(ctx, func(t tx) error {
		return t.QueryRow("SELECT task FROM wakes WHERE key = $1", key).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = core.ErrNoTask
	}
	return pipeline.TaskID(id), err
}

// Agent returns the state of an agent, see core.Reader.
func (s *Store) Agent(ctx context.Context, name string) (*core.AgentState, error) {
	a, err := reading(ctx, s, func(t tx) (*core.AgentState, error) { return loadAgent(t, pipeline.FoldName(name), "") })
	if err == nil && a == nil {
		a = &core.AgentState{Agent: name}
	}
	return a, err
}

// AgentStates returns the states of all agents, see core.Reader.
func (s *Store) AgentStates(ctx context.Context) (map[string]*core.AgentState, error) {
	all, err := reading(ctx, s, func(t tx) ([]*core.AgentState, error) {
		return loadDocs[core.AgentState](t, "an agent", "SELECT doc FROM agents", nil)
	})
	states := map[string]*core.AgentState{}
	for _, a := range all {
		states[pipeline.FoldName(a.Agent)] = a
	}
	return states, err
}

// Incidents returns incidents, see core.Reader.
func (s *Store) Incidents(ctx context.Context, f core.IncidentFilter) ([]*core.Incident, error) {
	all, err := reading(ctx, s, func(t tx) ([]*core.Incident, error) { return loadIncidents(t, f, "") })
	core.SortIncidents(all)
	return all, err
}

// LastEvent returns the number of the last event, see core.Reader.
func (s *Store) LastEvent(ctx context.Context) (int64, error) {
	at, err := reading(ctx, s, loadMark)
	return at.event, err
}

// Did reports whether a command of this id was carried out, see core.Reader.
func (s *Store) Did(ctx context.Context, id string) (d core.Done, ok bool, err error) {
	err = s.read(ctx, func(t tx) (err error) {
		d, ok, err = loadDone(t, id)
		return err
	})
	return d, ok, err
}

// Events returns events in their order, see core.Reader.
func (s *Store) Events(ctx context.Context, f core.EventFilter) ([]core.Event, error) {
	return reading(ctx, s, func(t tx) ([]core.Event, error) { return s.selectEvents(t, f) })
}

// selectEvents returns the events that a filter selects, in their order.
func (s *Store) selectEvents(t tx, f core.EventFilter) ([]core.Event, error) {
	if !f.Archived {
		return loadEvents(t, f)
	}
	if f.Last {
		if last, err := loadEvents(t, f); len(last) > 0 || err != nil {
			return last, err
		}
		return archiveDirOf(s).find(t, f)
	}
	old, err := archiveDirOf(s).find(t, f)
	if err != nil || f.Limit > 0 && len(old) == f.Limit {
		return old, err
	}
	if f.Limit > 0 {
		f.Limit -= len(old)
	}
	events, err := loadEvents(t, f)
	return append(old, events...), err
}

// reading returns what f reads on a snapshot.
func reading[T any](ctx context.Context, s *Store, f func(tx) (T, error)) (value T, err error) {
	err = s.read(ctx, func(t tx) (err error) {
		value, err = f(t)
		return err
	})
	return value, err
}

// collect returns what scan makes of each row that a query selects.
func collect[T any](t tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// number reads a row of one number.
func number(rows *sql.Rows) (n int64, err error) {
	err = rows.Scan(&n)
	return n, err
}

// query builds the conditions of a query. There are few different texts, because both
// databases keep the statements of them prepared.
type query struct {
	conditions []string
	args       []any
}

// where adds a condition, in which each ? stands for one of the args.
func (q *query) where(condition string, args ...any) {
	var b strings.Builder
	for part := range strings.SplitSeq(condition, "?") {
		if b.Len() > 0 && len(args) > 0 {
			b.WriteString(q.arg(args[0]))
			args = args[1:]
		}
		b.WriteString(part)
	}
	q.conditions = append(q.conditions, b.String())
}

// in adds the condition that a column has one of the values. It repeats the last value
// until their number is a power of two.
func in[T any](q *query, column string, values []T) {
	if len(values) == 0 {
		q.conditions = append(q.conditions, "1 = 0")
		return
	}
	var marks []string
	for i := range values {
		marks = append(marks, q.arg(values[i]))
	}
	for n := len(values); n&(n-1) != 0; n++ {
		marks = append(marks, q.arg(values[len(values)-1]))
	}
	q.conditions = append(q.conditions, column+" IN ("+strings.Join(marks, ", ")+")")
}

// arg adds an argument and returns its mark, such as $2.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// text returns the conditions, to follow the names of tables.
func (q *query) text() string {
	if len(q.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(q.conditions, " AND ")
}
