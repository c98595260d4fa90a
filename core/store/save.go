package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"otm/core"
	"otm/pipeline"
)

// loadTask reads the state of a task; nil: it does not exist. lock ends the query.
func loadTask(t tx, id pipeline.TaskID, lock string) (*core.Task, error) {
	var doc []byte
	switch err := t.QueryRow("SELECT doc FROM tasks WHERE id = $1"+lock, int64(id)).Scan(&doc); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return decodeTask(doc)
}

func decodeTask(doc []byte) (*core.Task, error) {
	task := new(core.Task)
	if err := json.Unmarshal(doc, task); err != nil {
		return nil, brokenState(fmt.Errorf("of a task: %w", err))
	}
	return task, nil
}

// taskRow is a row of the table tasks. Its columns repeat what the document says, for
// queries.
type taskRow struct {
	version               int64
	status, agent, worker string
	row                   string
	live, onBoard         int
	doc                   string
}

func rowOf(t *core.Task) (taskRow, error) {
	doc, err := json.Marshal(t)
	r := taskRow{
		version: t.Version, status: string(t.Status), agent: pipeline.FoldName(t.Agent), row: t.RowID,
		live: number01(live(t)), onBoard: number01(t.OnBoard()), doc: string(doc),
	}
	if t.Dispatch != nil {
		r.worker = pipeline.FoldName(t.Dispatch.Agent)
	}
	return r, err
}

// errConcurrent says that another transaction changed a row since this one read it. The
// engine runs the transaction again.
var errConcurrent = errors.New("another transaction changed the same")

// saveTask writes the state of a task that was as was (nil: there was none), and the
// wakes that it did not have.
func saveTask(t tx, was, is *core.Task) error {
	r, err := rowOf(is)
	if err != nil {
		return err
	}
	args := []any{r.version, r.status, r.agent, r.worker, r.row, r.live, r.onBoard, r.doc, int64(is.ID)}
	text := "INSERT INTO tasks (version, status, agent_key, dispatch_key, row_id, live, on_board, doc, id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
	if was != nil {
		text = `UPDATE tasks SET version = $1, status = $2, agent_key = $3, dispatch_key = $4, row_id = $5, live = $6, on_board = $7, doc = $8
			WHERE id = $9 AND version = $10`
		args = append(args, was.Version)
	}
	n, err := count(t.Exec(text, args...))
	if err != nil {
		return err
	}
	if n != 1 {
		return errConcurrent
	}
	return saveWakes(t, was, is)
}

func saveWakes(t tx, was, is *core.Task) error {
	for i := range is.Wakes {
		w := &is.Wakes[i]
		if was != nil {
			if old := was.WakeNamed(w.Key); old != nil && old.AskedAt.Equal(w.AskedAt) {
				continue
			}
		}
		_, err := t.Exec(`INSERT INTO wakes (key, task, agent_key, asked_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (key) DO UPDATE SET task = excluded.task, agent_key = excluded.agent_key, asked_at = excluded.asked_at`,
			w.Key, int64(is.ID), pipeline.FoldName(w.Agent), fromTime(w.AskedAt))
		if err != nil {
			return err
		}
	}
	return nil
}

// live reports whether programs look at the task in every pass: it is not over, or its
// row still stands on the board.
func live(t *core.Task) bool {
	return !t.Status.Over() && t.ArchivedAt.IsZero() || t.RowID != "" && t.GoneAt.IsZero() && !t.Shown.Gone
}

// loadAgent reads the state of an agent by its folded name; nil: it has none.
func loadAgent(t tx, name, lock string) (*core.AgentState, error) {
	var doc []byte
	switch err := t.QueryRow("SELECT doc FROM agents WHERE name_key = $1"+lock, name).Scan(&doc); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	a := new(core.AgentState)
	if err := json.Unmarshal(doc, a); err != nil {
		return nil, brokenState(fmt.Errorf("of agent %q: %w", name, err))
	}
	return a, nil
}

// saveAgent writes the state of an agent. existed reports whether it had one.
func saveAgent(t tx, name string, existed bool, a *core.AgentState) error {
	doc, err := json.Marshal(a)
	if err != nil {
		return err
	}
	text := "INSERT INTO agents (doc, name_key) VALUES ($1, $2)"
	if existed {
		text = "UPDATE agents SET doc = $1 WHERE name_key = $2" // load locked the row
	}
	_, err = t.Exec(text, string(doc), name)
	return err
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
