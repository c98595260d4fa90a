package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Difference is a row that does not follow from the events.
type Difference struct {
	Row    string   // such as "tasks T-00035"
	Fields []string // what differs, in words

	task pipeline.TaskID // 0: it is no row of a task
}

func (d Difference) String() string { return d.Row + ": " + strings.Join(d.Fields, "; ") }

// Check replays all events and returns the rows that do not follow from them. It changes
// nothing.
func Check(ctx context.Context, s *Store) ([]Difference, error) {
	return reading(ctx, s, func(t tx) ([]Difference, error) {
		r, err := replay(t, s)
		if err != nil {
			return nil, err
		}
		return r.compare(t)
	})
}

// Rebuild replaces the rows that do not follow from the events, and returns them. If
// there are any, it makes a backup first, and returns where: a file beside the database,
// or tables in it. Sinks get the tasks that differed.
func Rebuild(ctx context.Context, s *Store, now time.Time) (backup string, found []Difference, err error) {
	if found, err = Check(ctx, s); err != nil || len(found) == 0 {
		return "", found, err
	}
	err = s.use(ctx, func(db engine) (err error) {
		backup, err = db.backup(ctx, now.UTC().Format("20060102-150405.000000"))
		return err
	})
	if err != nil {
		return "", nil, err
	}
	err = s.write(ctx, synced, func(t tx) error {
		r, err := replay(t, s)
		if err != nil {
			return err
		}
		if found, err = r.compare(t); err != nil {
			return err
		}
		return r.replace(t, found, now)
	})
	return backup, found, err
}

// ErrNoFile says that the database is not a file of the data directory.
var ErrNoFile = errors.New("the store is in PostgreSQL")

// Backup copies the database to a file that must not exist yet, durably, while others write.
func Backup(ctx context.Context, s *Store, path string) error {
	return s.use(ctx, func(db engine) error { return db.copyTo(ctx, path) })
}

// replayed is the state that follows from the events, and the rows of all tables that
// follow from it.
type replayed struct {
	state core.State
	rows  []row
}

// replayChunk is how many events are read at a time.
const replayChunk = 1000

// replay returns the state that follows from all events: from the newest snapshot of the
// archive, and what came later.
func replay(t tx, s *Store) (*replayed, error) {
	archives, err := loadArchives(t, 0)
	if err != nil {
		return nil, err
	}
	state, err := archiveDirOf(s).state(archives)
	if err != nil {
		return nil, err
	}
	r := &replayed{state: *state}
	after := int64(0)
	if n := len(archives); n > 0 {
		after = archives[n-1].last
	}
	for first := true; ; first = false {
		events, err := loadEvents(t, core.EventFilter{After: after, Limit: replayChunk})
		if err != nil {
			return nil, err
		}
		if len(events) > 0 && after > 0 && first && events[0].Seq != after+1 {
			return nil, fmt.Errorf("events %d to %d are missing: neither the table nor the archive has them", after+1, events[0].Seq-1)
		}
		for i := range events {
			core.Apply(&r.state, &events[i])
		}
		if len(events) < replayChunk {
			break
		}
		after = events[len(events)-1].Seq
	}
	r.rows = rowsOf(&r.state)
	return r, nil
}

// rowsOf returns the rows of a state, in an order that is always the same.
func rowsOf(s *core.State) (all []row) {
	for _, id := range slices.Sorted(maps.Keys(s.Tasks)) {
		t := s.Tasks[id]
		all = append(all, rowOfTask(t))
		for i := range t.Wakes {
			all = append(all, rowOfWake(t, &t.Wakes[i]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Agents)) {
		all = append(all, rowOfAgent(name, s.Agents[name]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Incidents)) {
		all = append(all, rowOfIncident(s.Incidents[id]))
	}
	return all
}

// texts are rows as text, by their tables and keys.
type texts map[string]text

// text is a row as text, by the names of columns and of fields of its document.
type text struct {
	task   pipeline.TaskID // 0: it is no row of a task
	fields map[string]string
}

func (all texts) add(r row) {
	last := len(r.values) - 1
	its := text{fields: map[string]string{}}
	key := fmt.Sprint(r.values[last])
	if id, ok := r.values[last].(int64); ok && r.table == tasks {
		its.task = pipeline.TaskID(id)
		key = its.task.String()
	}
	for i, name := range r.table.columns[:last] {
		if value := fmt.Sprint(r.values[i]); name == "doc" {
			maps.Copy(its.fields, r.table.fields(value))
		} else {
			its.fields["column "+name] = strconv.Quote(value)
		}
	}
	all[r.table.name+" "+key] = its
}

// fieldsOf returns the fields of a document, each as JSON.
func fieldsOf[T any](doc string) map[string]string {
	var state T
	var fields map[string]json.RawMessage
	err := json.Unmarshal([]byte(doc), &state)
	if err == nil {
		var again []byte
		again, err = json.Marshal(state) // the order of keys, and unknown ones, are no difference
		if err == nil {
			err = json.Unmarshal(again, &fields)
		}
	}
	if err != nil {
		return map[string]string{"the document": strconv.Quote(doc)}
	}
	texts := map[string]string{}
	for name, value := range fields {
		texts[name] = string(value)
	}
	return texts
}

// read adds the rows that the database has.
func (all texts) read(t tx, b *table) error {
	found, err := t.Query("SELECT " + strings.Join(b.columns, ", ") + " FROM " + b.name)
	if err != nil {
		return err
	}
	defer found.Close()
	values, into := make([]any, len(b.columns)), make([]any, len(b.columns))
	for i := range values {
		into[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(into...); err != nil {
			return err
		}
		all.add(row{table: b, values: values})
	}
	return found.Err()
}

// compare returns the rows of the database that differ from the replayed ones.
func (r *replayed) compare(t tx) ([]Difference, error) {
	stored, replayed := texts{}, texts{}
	for _, b := range derived {
		if err := stored.read(t, b); err != nil {
			return nil, err
		}
	}
	for _, row := range r.rows {
		if row.err != nil {
			return nil, row.err
		}
		replayed.add(row)
	}
	var found []Difference
	for _, key := range keysOf(stored, replayed) {
		was, want := stored[key], replayed[key]
		d := Difference{Row: key, task: max(was.task, want.task)}
		for _, name := range keysOf(was.fields, want.fields) {
			if a, b := was.fields[name], want.fields[name]; a != b {
				d.Fields = append(d.Fields, fmt.Sprintf("%s is %s, and the events say %s", name, cmp.Or(a, "missing"), cmp.Or(b, "nothing")))
			}
		}
		if len(d.Fields) > 0 {
			found = append(found, d)
		}
	}
	return found, nil
}

// keysOf returns the keys of both maps, sorted.
func keysOf[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// replace writes the replayed rows in place of those of the database, and enqueues the
// effects of the tasks that differed.
func (r *replayed) replace(t tx, found []Difference, now time.Time) error {
	for _, b := range derived {
		if _, err := t.Exec("DELETE FROM " + b.name); err != nil {
			return err
		}
	}
	for _, row := range r.rows {
		if err := row.save(t, false); err != nil {
			return err
		}
	}
	_, err := t.Exec("INSERT INTO counters (name, value) VALUES ('rebuilds', 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + 1")
	if err != nil {
		return err
	}
	for _, d := range found {
		var err error
		if task := r.state.Tasks[d.task]; task != nil {
			err = enqueue(t, now, nil, task)
		} else {
			_, err = t.Exec("DELETE FROM outbox WHERE task = $1", int64(d.task))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
