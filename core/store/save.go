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
	var doc []byte
	switch err := t.QueryRow(query, key).Scan(&doc); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return decode[T](what, doc)
}

// decode reads a state from its document. what names it in an error.
func decode[T any](what string, doc []byte) (*T, error) {
	state := new(T)
	if err := json.Unmarshal(doc, state); err != nil {
		return nil, brokenState(fmt.Errorf("of %s: %w", what, err))
	}
	return state, nil
}

// table is a table whose rows follow from the events. Columns of a row repeat what its
// document says, for queries. The last column is the key.
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

func rowOfTask(t *core.Task) ([]any, error) {
	worker := ""
	if t.Dispatch != nil {
		worker = pipeline.FoldName(t.Dispatch.Agent)
	}
	doc, err := json.Marshal(t)
	return []any{
		t.Version, string(t.Status), pipeline.FoldName(t.Agent), worker, t.RowID, number01(live(t)), number01(t.OnBoard()), string(doc), int64(t.ID),
	}, err
}

func rowOfAgent(name string, a *core.AgentState) ([]any, error) {
	doc, err := json.Marshal(a)
	return []any{string(doc), name}, err
}

func rowOfWake(t *core.Task, w *core.Wake) []any {
	return []any{int64(t.ID), pipeline.FoldName(w.Agent), fromTime(w.AskedAt), w.Key}
}

// save writes a row. If the table had it when it was loaded, load has locked it.
func (b *table) save(t tx, had bool, row []any) error {
	text := b.insert
	if had {
		text = b.update
	}
	_, err := t.Exec(text, row...)
	return err
}

// saveTask writes the state of a task that was as was (nil: there was none), and the
// wakes that changed.
func saveTask(t tx, was, is *core.Task) error {
	row, err := rowOfTask(is)
	if err == nil {
		err = tasks.save(t, was != nil, row)
	}
	for i := range is.Wakes {
		w := &is.Wakes[i]
		var old *core.Wake
		if was != nil {
			old = was.WakeNamed(w.Key)
		}
		if err == nil && (old == nil || !old.AskedAt.Equal(w.AskedAt)) {
			err = wakes.save(t, old != nil, rowOfWake(is, w))
		}
	}
	return err
}

// saveAgent writes the state of an agent. had reports whether it had one.
func saveAgent(t tx, name string, had bool, a *core.AgentState) error {
	row, err := rowOfAgent(name, a)
	if err == nil {
		err = agents.save(t, had, row)
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

func rowOfIncident(i *core.Incident) ([]any, error) {
	doc, err := json.Marshal(i)
	return []any{fromTime(i.ClosedAt), string(doc), i.ID}, err
}

// saveIncident writes an incident. had reports whether it was there before.
func saveIncident(t tx, had bool, i *core.Incident) error {
	row, err := rowOfIncident(i)
	if err == nil {
		err = incidents.save(t, had, row)
	}
	return err
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
