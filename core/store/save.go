package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
)

// loadTask reads the state of a task; nil: it does not exist. lock ends the query.
func loadTask(t tx, id pipeline.TaskID, lock string) (*core.Task, error) {
	return loadDoc[core.Task](t, "a task", "SELECT doc FROM tasks WHERE id = $1"+lock, int64(id))
}

// loadDoc reads the state whose document a query selects; nil: there is none. what names it in
// an error.
func loadDoc[T any](t tx, what, query string, key any) (*T, error) {
	all, err := loadDocs[T](t, what, query, []any{key})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// table is a table whose rows follow from the events. Columns of a row repeat what its
// document says, for queries. The document, if the table has one, and the key come last.
type table struct {
	name, insert, update string
	columns              []string
	fields               func(doc string) map[string]string // of a document
}

func newTable(name string, fields func(string) map[string]string, columns ...string) *table {
	var marks, sets []string
	for i, c := range columns {
		marks = append(marks, "$"+strconv.Itoa(i+1))
		sets = append(sets, c+" = "+marks[i])
	}
	last := len(columns) - 1
	return &table{
		name: name, columns: columns, fields: fields,
		insert: "INSERT INTO " + name + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")",
		update: "UPDATE " + name + " SET " + strings.Join(sets[:last], ", ") + " WHERE " + sets[last],
	}
}

var (
	tasks     = newTable("tasks", fieldsOf[core.Task], "version", "status", "agent_key", "dispatch_key", "row_id", "live", "on_board", "doc", "id")
	agents    = newTable("agents", fieldsOf[core.AgentState], "doc", "name_key")
	wakes     = newTable("wakes", nil, "task", "agent_key", "asked_at", "key")
	incidents = newTable("incidents", fieldsOf[core.Incident], "closed_at", "doc", "id")
)

// derived are the tables whose rows follow from the events.
var derived = []*table{tasks, agents, wakes, incidents}

// row is a row of a table, with its values in the order of the columns.
type row struct {
	table  *table
	values []any
	err    error // why the document cannot be made
}

// row returns the row of a state. repeated are the columns before its document.
func (b *table) row(state, key any, repeated ...any) row {
	doc, err := json.Marshal(state)
	return row{b, append(repeated, string(doc), key), err}
}

func rowOfTask(t *core.Task) row {
	worker := ""
	if t.Dispatch != nil {
		worker = pipeline.FoldName(t.Dispatch.Agent)
	}
	return tasks.row(t, int64(t.ID), t.Version, string(t.Status), pipeline.FoldName(t.Agent), worker, t.RowID, number01(live(t)), number01(t.OnBoard()))
}

func rowOfAgent(name string, a *core.AgentState) row { return agents.row(a, name) }

func rowOfIncident(i *core.Incident) row { return incidents.row(i, i.ID, fromTime(i.ClosedAt)) }

func rowOfWake(t *core.Task, w *core.Wake) row {
	return row{table: wakes, values: []any{int64(t.ID), pipeline.FoldName(w.Agent), fromTime(w.AskedAt), w.Key}}
}

// save writes the row. If the table had it when it was loaded, load has locked it.
func (r row) save(t tx, had bool) error {
	text, err := r.table.insert, r.err
	if had {
		text = r.table.update
	}
	if err == nil {
		_, err = t.Exec(text, r.values...)
	}
	return err
}

// saveTask writes the state of a task that was as was (nil: there was none), and the
// wakes that changed.
func saveTask(t tx, was, is *core.Task) error {
	err := rowOfTask(is).save(t, was != nil)
	for i := range is.Wakes {
		w := &is.Wakes[i]
		var old *core.Wake
		if was != nil {
			old = was.WakeNamed(w.Key)
		}
		if err == nil && (old == nil || !old.AskedAt.Equal(w.AskedAt)) {
			err = rowOfWake(is, w).save(t, old != nil)
		}
	}
	return err
}

// live reports whether programs look at the task in every pass: it is not over, or its
// row still stands on the board.
func live(t *core.Task) bool {
	return !t.Status.Over() && t.ArchivedAt.IsZero() || t.RowID != "" && t.GoneAt.IsZero() && !t.Shown.Gone
}

// loadAgent reads the state of an agent by its folded name; nil: it has none.
func loadAgent(t tx, name, lock string) (*core.AgentState, error) {
	return loadDoc[core.AgentState](t, fmt.Sprintf("agent %q", name), "SELECT doc FROM agents WHERE name_key = $1"+lock, name)
}

// loadIncidents reads the incidents that a filter selects. lock ends the query.
func loadIncidents(t tx, f core.IncidentFilter, lock string) ([]*core.Incident, error) {
	var q query
	if f.IDs != nil {
		in(&q, "id", f.IDs)
	}
	if f.Open {
		q.where("closed_at = 0")
	}
	if !f.Since.IsZero() {
		q.where("(closed_at = 0 OR closed_at >= ?)", fromTime(f.Since))
	}
	return loadDocs[core.Incident](t, "an incident", "SELECT doc FROM incidents"+q.text()+" ORDER BY id"+lock, q.args)
}

// loadDone reads what is known of a command that was carried out.
func loadDone(t tx, id string) (d core.Done, ok bool, err error) {
	var task, at int64
	err = t.QueryRow("SELECT task, at, sum, file FROM commands WHERE id = $1", id).Scan(&task, &at, &d.Sum, &d.Drop)
	if errors.Is(err, sql.ErrNoRows) {
		return core.Done{}, false, nil
	}
	d.ID, d.Task, d.At = id, pipeline.TaskID(task), toTime(at)
	return d, err == nil, err
}

func saveDone(t tx, d core.Done) error {
	_, err := t.Exec("INSERT INTO commands (id, task, at, sum, file) VALUES ($1, $2, $3, $4, $5)", d.ID, int64(d.Task), fromTime(d.At), d.Sum, d.Drop)
	return err
}

// fromTime returns a time as the database keeps it: microseconds since 1970, which
// years beyond 9999 fit in; 0 is the zero time.
func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func toTime(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

func number01(b bool) int {
	if b {
		return 1
	}
	return 0
}
