package app

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"otm/internal/page"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/task"
)

// cardMaker makes a card of each task on the board. A page looks several times
// a second, so it keeps what it read of records.
type cardMaker struct {
	agents pipeline.Agents
	store  *task.Store
	dir    string // of the records

	mu    sync.Mutex // guards known
	known map[pipeline.TaskID]recordFacts
}

// recordFacts is what a card needs of a record.
type recordFacts struct {
	file    fs.FileInfo // as which it was read
	row     string
	created time.Time
	events  int
	steps   []pipeline.StepRecord
}

// facts returns what the record of a task says; zero if there is no record, or
// it cannot be read. A record is replaced when it changes, never written over.
func (m *cardMaker) facts(id pipeline.TaskID) recordFacts {
	file, err := os.Stat(filepath.Join(m.dir, id.String()+".json"))
	if err != nil {
		delete(m.known, id)
		return recordFacts{}
	}
	if f, ok := m.known[id]; ok && os.SameFile(f.file, file) && f.file.Size() == file.Size() && f.file.ModTime().Equal(file.ModTime()) {
		return f
	}
	rec, err := m.store.Load(id)
	if err != nil {
		delete(m.known, id)
		return recordFacts{}
	}
	f := recordFacts{file, rec.RowID, rec.CreatedAt, len(rec.History), rec.Steps}
	m.known[id] = f
	return f
}

// all makes the cards of the rows of a board, in the order of the ids.
func (m *cardMaker) all(rows []pipeline.Row) []page.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	steps := map[string][]*pipeline.Row{}
	for i := range rows {
		if r := &rows[i]; r.Parent != "" {
			steps[r.Parent] = append(steps[r.Parent], r)
		}
	}
	names := map[string]string{} // by assignee
	tasks := []page.Task{}
	for i := range rows {
		r := &rows[i]
		if r.Parent != "" {
			continue
		}
		if _, known := names[r.Assignee]; !known {
			names[r.Assignee] = r.Assignee
			if a := m.agents.Assigned(r.Assignee); a != nil {
				names[r.Assignee] = a.Name
			}
		}
		tasks = append(tasks, m.card(r, steps[r.ID], names[r.Assignee]))
	}
	slices.SortStableFunc(tasks, func(a, b page.Task) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return tasks
}

func (m *cardMaker) card(r *pipeline.Row, steps []*pipeline.Row, agent string) page.Task {
	t := page.Task{
		Row: r.ID, Title: r.Title, Status: string(r.CurrentStatus()), Agent: agent, Priority: string(r.Priority), Type: r.Type,
		Project: r.Project, Reason: r.Reason, Result: r.Result, Steps: make([]page.Step, 0, len(steps)),
		CreatedAt: time.Unix(r.Created, 0).UTC(), UpdatedAt: time.Unix(r.Updated, 0).UTC(),
	}
	rec := &pipeline.Record{}
	if id := r.Task(); id != 0 {
		t.ID = id.String()
		if facts := m.facts(id); facts.row == r.ID { // else another row bears its id
			t.CreatedAt, t.Events, rec.Steps = facts.created, facts.events, facts.steps
		}
	}
	for _, s := range view.Join(r.Task(), r, steps, rec).Steps {
		if s.Row != "" { // else it is not on the board yet
			t.Steps = append(t.Steps, page.Step{Row: s.Row, Number: s.Number, Title: s.Title, Done: s.Done})
		}
	}
	return t
}
