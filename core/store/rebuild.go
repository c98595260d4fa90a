package store

import (
	"cmp"
	"context"
	"encoding/json"
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
	Table  string  `json:"table"` // tasks, agents or wakes
	Key    string  `json:"key"`   // a task's id, an agent's folded name, a wake's key
	Fields []Field `json:"fields"`
}

// Field is what differs: a field of a row's document, or a column.
type Field struct {
	Name string `json:"name"`
	Is   string `json:"is,omitempty"`   // in JSON; "": it is missing
	Want string `json:"want,omitempty"` // as the events say; "": nothing
}

func (d Difference) String() string {
	var fields []string
	for _, f := range d.Fields {
		fields = append(fields, fmt.Sprintf("%s is %s, and the events say %s", f.Name, cmp.Or(f.Is, "missing"), cmp.Or(f.Want, "nothing")))
	}
	return fmt.Sprintf("%s %s: %s", d.Table, d.Key, strings.Join(fields, "; "))
}

// Check replays all events and returns the rows that do not follow from them. It changes
// nothing.
func Check(ctx context.Context, s *Store) ([]Difference, error) {
	var found []Difference
	err := s.read(ctx, func(t tx) error {
		r, err := replay(t)
		if err == nil {
			found, err = r.compare(t)
		}
		return err
	})
	return found, err
}

// Rebuild replaces the rows that do not follow from the events, and returns them. If
// there are any, it makes a backup first, and returns where: a file beside the database,
// or tables in it. Sinks get the tasks that differed.
func Rebuild(ctx context.Context, s *Store, now time.Time) (backup string, found []Difference, err error) {
	if found, err = Check(ctx, s); err != nil || len(found) == 0 {
		return "", found, err
	}
	if backup, err = s.db.backup(ctx, now.UTC().Format("20060102-150405")); err != nil {
		return "", nil, explain(err, s.db.name())
	}
	err = s.write(ctx, synced, func(t tx) error {
		r, err := replay(t)
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

// replayed is the state that follows from the events.
type replayed struct {
	state core.State
	rows  rows
}

// rows are the fields of rows, by table, key and name.
type rows map[string]map[string]map[string]string

func newRows() rows { return rows{"tasks": {}, "agents": {}, "wakes": {}} }

// replayChunk is how many events are read at a time.
const replayChunk = 1000

func replay(t tx) (*replayed, error) {
	r := &replayed{rows: newRows()}
	for after := int64(0); ; {
		events, err := loadEvents(t, core.EventFilter{After: after, Limit: replayChunk})
		if err != nil {
			return nil, err
		}
		for i := range events {
			core.Apply(&r.state, &events[i])
		}
		if len(events) < replayChunk {
			break
		}
		after = events[len(events)-1].Seq
	}
	for id, task := range r.state.Tasks {
		row, err := rowOf(task)
		if err != nil {
			return nil, err
		}
		r.rows["tasks"][id.String()] = row.fields()
		for i := range task.Wakes {
			w := &task.Wakes[i]
			r.rows["wakes"][w.Key] = wakeFields(int64(id), pipeline.FoldName(w.Agent), fromTime(w.AskedAt))
		}
	}
	for name, a := range r.state.Agents {
		doc, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		r.rows["agents"][name] = fieldsOf[core.AgentState](string(doc))
	}
	return r, nil
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

func (r *taskRow) fields() map[string]string {
	fields := fieldsOf[core.Task](r.doc)
	for name, value := range map[string]any{
		"version": r.version, "status": r.status, "agent_key": r.agent, "dispatch_key": r.worker, "row_id": r.row, "live": r.live, "on_board": r.onBoard,
	} {
		fields["column "+name] = fmt.Sprintf("%#v", value)
	}
	return fields
}

func wakeFields(task int64, agent string, asked int64) map[string]string {
	return map[string]string{"task": pipeline.TaskID(task).String(), "agent": strconv.Quote(agent), "asked": toTime(asked).Format(time.RFC3339Nano)}
}

// stored returns the rows of the database.
func stored(t tx) (rows, error) {
	all := newRows()
	err := scanAll(t, "SELECT id, version, status, agent_key, dispatch_key, row_id, live, on_board, doc FROM tasks", func(scan func(...any) error) error {
		var id int64
		var r taskRow
		err := scan(&id, &r.version, &r.status, &r.agent, &r.worker, &r.row, &r.live, &r.onBoard, &r.doc)
		all["tasks"][pipeline.TaskID(id).String()] = r.fields()
		return err
	})
	if err != nil {
		return nil, err
	}
	err = scanAll(t, "SELECT name_key, doc FROM agents", func(scan func(...any) error) error {
		var name, doc string
		err := scan(&name, &doc)
		all["agents"][name] = fieldsOf[core.AgentState](doc)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = scanAll(t, "SELECT key, task, agent_key, asked_at FROM wakes", func(scan func(...any) error) error {
		var key, agent string
		var task, asked int64
		err := scan(&key, &task, &agent, &asked)
		all["wakes"][key] = wakeFields(task, agent, asked)
		return err
	})
	return all, err
}

func scanAll(t tx, query string, each func(scan func(...any) error) error) error {
	rows, err := t.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// compare returns the rows of the database that differ from the replayed ones.
func (r *replayed) compare(t tx) ([]Difference, error) {
	is, err := stored(t)
	if err != nil {
		return nil, err
	}
	var found []Difference
	for _, table := range slices.Sorted(maps.Keys(r.rows)) {
		for _, key := range keysOf(is[table], r.rows[table]) {
			d := Difference{Table: table, Key: key}
			for _, name := range keysOf(is[table][key], r.rows[table][key]) {
				if f := (Field{name, is[table][key][name], r.rows[table][key][name]}); f.Is != f.Want {
					d.Fields = append(d.Fields, f)
				}
			}
			if len(d.Fields) > 0 {
				found = append(found, d)
			}
		}
	}
	return found, nil
}

// keysOf returns the keys of both maps, sorted.
func keysOf[V any](a, b map[string]V) []string {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// replace writes the replayed rows in place of those of the database, and enqueues the
// effects of the tasks that differed.
func (r *replayed) replace(t tx, found []Difference, now time.Time) error {
	for _, table := range []string{"tasks", "agents", "wakes"} {
		if _, err := t.Exec("DELETE FROM " + table); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.state.Tasks)) {
		if err := saveTask(t, nil, r.state.Tasks[id]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.state.Agents)) {
		if err := saveAgent(t, name, false, r.state.Agents[name]); err != nil {
			return err
		}
	}
	for _, d := range found {
		id, err := pipeline.ParseFileID(d.Key)
		if d.Table != "tasks" || err != nil {
			continue
		}
		if task := r.state.Tasks[id]; task == nil {
			_, err = t.Exec("DELETE FROM outbox WHERE task = $1", int64(id))
		} else {
			err = enqueue(t, now, nil, task)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
