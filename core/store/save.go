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
		return nil, fmt.Errorf("state of a task in the database: %w", err)
	}
	return task, nil
}

// saveTask writes the state of a task, and the wakes that it did not have.
func saveTask(t tx, was, is *core.Task) error {
	doc, err := json.Marshal(is)
	if err != nil {
		return err
	}
	dispatched := ""
	if is.Dispatch != nil {
		dispatched = pipeline.FoldName(is.Dispatch.Agent)
	}
	_, err = t.Exec(`INSERT INTO tasks (id, version, status, agent_key, dispatch_key, row_id, live, on_board, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, status = excluded.status, agent_key = excluded.agent_key,
			dispatch_key = excluded.dispatch_key, row_id = excluded.row_id, live = excluded.live, on_board = excluded.on_board, doc = excluded.doc`,
		int64(is.ID), is.Version, string(is.Status), pipeline.FoldName(is.Agent), dispatched, is.RowID, number01(live(is)), number01(is.OnBoard()), string(doc))
	if err != nil {
		return err
	}
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
		return nil, fmt.Errorf("state of agent %q in the database: %w", name, err)
	}
	return a, nil
}

func saveAgent(t tx, name string, a *core.AgentState) error {
	doc, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = t.Exec("INSERT INTO agents (name_key, doc) VALUES ($1, $2) ON CONFLICT (name_key) DO UPDATE SET doc = excluded.doc", name, string(doc))
	return err
}

// loadDone reads what is known of a command that was carried out.
func loadDone(t tx, id string) (d core.Done, ok bool, err error) {
	var task, at int64
	err = t.QueryRow("SELECT task, at, sum, file FROM commands WHERE id = $1", id).Scan(&task, &at, &d.Sum, &d.Drop)
	if errors.Is(err, sql.ErrNoRows) {
		return core.Done{}, false, nil
	}
	d.Task, d.At = pipeline.TaskID(task), toTime(at)
	return d, err == nil, err
}

func saveDone(t tx, id string, d core.Done) error {
	_, err := t.Exec("INSERT INTO commands (id, task, at, sum, file) VALUES ($1, $2, $3, $4, $5)", id, int64(d.Task), fromTime(d.At), d.Sum, d.Drop)
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
