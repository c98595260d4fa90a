// Package before takes a data directory of format 1 over into the engine.
//
// Format 1 kept a record of each task in tasks/, and tasks that left the board in
// history.jsonl. Import runs at the first start of any program, once. The old files
// are kept in before-engine/. If it is killed, the next start goes on: a task that was
// taken over is left alone.
package before

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
)

// Folder is where the old files are kept.
const Folder = "before-engine"

// The files and folders of format 1 that the engine replaces.
const (
	recordsDir  = "tasks"
	statesDir   = "agent-states"
	historyFile = "history.jsonl"
)

// chunk is how many tasks are taken over in one transaction.
const chunk = 200

// Import takes all tasks and agents of a directory over, and moves the old files to
// before-engine/. It is durable on return. The caller holds the lock of the import, and
// writes the new format afterwards.
func Import(ctx context.Context, dir string, store core.Store, now time.Time, log *slog.Logger) error {
	commands, err := read(dir, now, log)
	if err != nil {
		return fmt.Errorf("read the data of format 1: %w", err)
	}
	for some := range slices.Chunk(commands, chunk) {
		outcomes, err := store.Do(ctx, some...)
		if err != nil {
			return fmt.Errorf("take over the data of format 1: %w", err)
		}
		for i := range outcomes {
			if outcomes[i].Err != nil {
				return fmt.Errorf("take over %v: %w", some[i].Task, outcomes[i].Err)
			}
		}
		crash.Point("import.chunk")
	}
	return setAside(dir)
}

// setAside moves the old files to before-engine/, durably. What stands there was moved
// before we were killed: tasks/ may hold renderings by now.
func setAside(dir string) error {
	aside := filepath.Join(dir, Folder)
	if err := durable.Mkdir(aside); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{recordsDir, statesDir, historyFile} {
		if _, err := durable.Lstat(filepath.Join(aside, name)); err == nil {
			continue
		}
		err := durable.RenameVolatile(filepath.Join(dir, name), filepath.Join(aside, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		crash.Point("import.aside")
	}
	if err := durable.SyncDir(aside); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// where returns the path of an old file: one that was moved already, else its place in
// format 1.
func where(dir, name string) string {
	aside := filepath.Join(dir, Folder, name)
	if _, err := durable.Lstat(aside); err == nil {
		return aside
	}
	return filepath.Join(dir, name)
}

// read reads the old files into commands.
func read(dir string, now time.Time, log *slog.Logger) ([]core.Command, error) {
	archived, err := readHistory(where(dir, historyFile), log)
	if err != nil {
		return nil, err
	}
	records, err := readRecords(where(dir, recordsDir), log)
	if err != nil {
		return nil, err
	}
	for id, line := range archived {
		if records[id] == nil && line.Record != nil {
			records[id] = line.Record
			records[id].ArchivedAt = line.ArchivedAt
		}
	}
	var commands []core.Command
	for _, id := range slices.Sorted(maps.Keys(records)) {
		r := records[id]
		if r.RowID == "" {
			continue // it was in the making: its drop waits in the inbox
		}
		imported := core.Imported{Task: r.task(), Lines: r.History}
		if line := archived[id]; line != nil && !r.ArchivedAt.IsZero() {
			imported.Row, imported.Steps = &line.Row, line.Steps
		}
		commands = append(commands, core.Command{At: now, By: core.Component("otm"), Task: id, Agent: r.Agent, Do: core.Import{Imported: imported, Did: r.did()}})
	}
	agents, err := readAgents(where(dir, statesDir), log)
	for _, a := range agents {
		commands = append(commands, core.Command{At: now, By: core.Component("otm"), Agent: a.Agent, Do: core.ImportAgent{State: a}})
	}
	return commands, err
}

// readRecords reads the records. One that cannot be parsed is left out, with a warning:
// its task is made from its row.
func readRecords(dir string, log *slog.Logger) (map[pipeline.TaskID]*record, error) {
	records := map[pipeline.TaskID]*record{}
	err := eachJSON(dir, func(name string, data []byte) {
		var r record
		id, err := pipeline.ParseFileID(strings.TrimSuffix(name, ".json"))
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil || r.ID != id {
			log.Warn("record left out: the task is made from its row on the board", "file", name, "err", err)
			return
		}
		records[id] = &r
	})
	return records, err
}

func readAgents(dir string, log *slog.Logger) (states []core.AgentState, err error) {
	err = eachJSON(dir, func(name string, data []byte) {
		var a core.AgentState
		if err := json.Unmarshal(data, &a); err != nil || a.Agent == "" {
			log.Warn("state of an agent left out", "file", name, "err", err)
			return
		}
		a.Version = 0
		states = append(states, a)
	})
	return states, err
}

func eachJSON(dir string, visit func(name string, data []byte)) error {
	entries, err := durable.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || !e.Type().IsRegular() {
			continue
		}
		data, err := durable.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		visit(e.Name(), data)
	}
	return nil
}

// readHistory reads history.jsonl; of several lines of a task, the last.
func readHistory(path string, log *slog.Logger) (map[pipeline.TaskID]*archivedLine, error) {
	lines := map[pipeline.TaskID]*archivedLine{}
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return lines, nil
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for text := range bytes.Lines(data) {
		n++
		var l archivedLine
		switch {
		case json.Unmarshal(text, &l) == nil && l.TaskID != 0:
			if l.Record == nil {
				l.Record = l.fromRow()
			}
			lines[l.TaskID] = &l
		case len(bytes.TrimSpace(text)) > 0:
			log.Warn("line left out", "file", historyFile, "line", n)
		}
	}
	return lines, nil
}

// fromRow makes the record of an archived task from its row: the record was lost.
func (l *archivedLine) fromRow() *record {
	r := &record{Task: core.Task{
		ID: l.TaskID, Title: l.Row.Title, Agent: l.Row.Assignee, Priority: l.Row.Priority, Project: l.Row.Project, Type: pipeline.Type(l.Row.Type),
		CreatedAt: time.Unix(l.Row.Created, 0).UTC(), RowID: l.Row.ID, Status: l.Row.CurrentStatus(), Reason: l.Row.Reason, Result: l.Row.Result, ArchivedAt: l.ArchivedAt,
	}}
	for _, s := range l.Steps {
		r.Steps = append(r.Steps, core.Step{Title: s.Title, RowID: s.ID, Done: s.StepDone()})
	}
	return r
}
