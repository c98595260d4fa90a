package app

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"otm/core"
	"otm/core/store"
	"otm/pipeline"
)

// storeOf returns the store of a directory, which is closed when the test ends.
func storeOf(t testing.TB, h *Home) *store.Store {
	t.Helper()
	s, err := h.OpenStore(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// seedTask puts a task into the store as it is, with the lines of its history. A task
// that is there already stays as it is.
func seedTask(t testing.TB, h *Home, task core.Task, lines ...core.OldLine) {
	t.Helper()
	do(t, h, core.Command{At: h.Now(), By: core.Component("otm"), Task: task.ID, Agent: task.Agent,
		Do: core.Import{Imported: core.Imported{Task: task, Lines: lines}}})
}

// do carries a command out, and returns the task after it.
func do(t testing.TB, h *Home, c core.Command) *core.Task {
	t.Helper()
	outcomes, err := storeOf(t, h).Do(t.Context(), c)
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0].Task
}

// stateOf returns the state of a task.
func stateOf(t testing.TB, h *Home, id pipeline.TaskID) *core.Task {
	t.Helper()
	task, err := storeOf(t, h).Task(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// statesOf returns the states of all tasks, in the order of their ids.
func statesOf(t testing.TB, h *Home) []*core.Task {
	t.Helper()
	tasks, err := storeOf(t, h).Tasks(context.Background(), core.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// eventsOf returns the events of a task; 0: all.
func eventsOf(t testing.TB, h *Home, id pipeline.TaskID) []core.Event {
	t.Helper()
	events, err := storeOf(t, h).Events(context.Background(), core.EventFilter{Task: id, Archived: true})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// emptyStore removes the store of a directory, so that the next one begins empty.
func emptyStore(t testing.TB, h *Home) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(h.Dir, store.FileName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// damage runs statements on the database, as a bug or a person with another program may.
func damage(t testing.TB, h *Home, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(h.Dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
}
