package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"otm/pipeline"
)

// scan reads the records of all tasks that agents have to do with, and returns
// those to be dispatched, most urgent first. stale says that the status of one
// of them is not known well enough to flip it.
func (p *pass) scan(ctx context.Context, b pipeline.Batch) (fresh []*task, stale bool, err error) {
	p.byName, p.report.Failed = map[string][]*task{}, nil
	for row := range b.Rows() {
		id := row.Task()
		status := row.CurrentStatus()
		if row.Parent != "" || id == 0 || row.Assignee == "" && status == pipeline.New {
			continue
		}
		agent := p.Agents.Assigned(row.Assignee)
		if status == pipeline.New {
			t, err := p.candidate(ctx, b, row, agent)
			if err != nil {
				return nil, false, err
			}
			if t != nil {
				fresh = append(fresh, t)
				stale = stale || !b.Current(row, statusAge)
			}
			continue
		}
		if agent == nil || agent.Person {
			continue
		}
		t, err := p.load(ctx, b, row, agent)
		if err != nil {
			return nil, false, err
		}
		if t.rec.RowID == row.ID {
			p.byName[agent.Name] = append(p.byName[agent.Name], t)
		}
	}
	slices.SortFunc(fresh, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.rec.Priority.Rank(), b.rec.Priority.Rank()), cmp.Compare(a.id, b.id))
	})
	return fresh, stale, nil
}

// candidate returns a new task that can be dispatched; nil where it cannot,
// which is reported unless it solves itself.
func (p *pass) candidate(ctx context.Context, b pipeline.Batch, row *pipeline.Row, agent *pipeline.Agent) (*task, error) {
	id := row.Task()
	t, err := p.load(ctx, b, row, agent)
	if err != nil {
		return nil, err
	}
	if !t.rec.OnBoard() || len(t.rec.Steps) == 0 {
		return nil, nil // its steps are still coming
	}
	if t.rec.RowID != row.ID {
		p.problem(id, "two rows bear this id: %s and %s; clear the Task ID of one", t.rec.RowID, row.ID)
		return nil, nil
	}
	if agent == nil {
		p.problem(id, "unknown agent %q: no [agents.…] table of otm.toml has this name or label", row.Assignee)
		return nil, nil
	}
	if agent.Person {
		return t, nil
	}
	info, err := os.Stat(agent.Workspace)
	switch {
	case err != nil:
		p.problem(id, "workspace of %s: %v", agent.Name, err)
		return nil, nil
	case !info.IsDir():
		p.problem(id, "workspace of %s: %q is not a directory", agent.Name, agent.Workspace)
		return nil, nil
	}
	return t, nil
}

// load reads the record of a task and brings it up to what the board shows.
func (p *pass) load(ctx context.Context, b pipeline.Batch, row *pipeline.Row, agent *pipeline.Agent) (*task, error) {
	t := &task{id: row.Task(), row: *row, agent: agent, byPerson: b.ByPerson(row)}
	steps := b.StepRows(row.ID)
	rec, err := p.Records.Load(t.id)
	if err == nil && (rec.RowID != row.ID || b.WalkAt().IsZero()) {
		t.rec = rec // another row bears its id, or the rows are older than our own writes
		return t, nil
	}
	if err == nil && !rec.Observe(row, steps, t.byPerson, p.Now()) {
		t.rec = rec
		return t, nil
	}
	lost := errors.Is(err, fs.ErrNotExist)
	t.rec, err = p.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if r.RowID == "" && r.DropID == "" {
			r.FromRow(row, steps)
			if agent != nil {
				r.Agent = agent.Name
			}
			r.Note(p.Now(), Who, "record rebuilt", row.ID)
			return nil
		}
		if !r.Observe(row, steps, t.byPerson, p.Now()) {
			return pipeline.ErrUnchanged
		}
		return nil
	})
	if err == nil && lost {
		p.Log.Warn("rebuilt record from the board", "task", t.id, "row", row.ID)
	}
	return t, err
}

// describe names tasks for a log line.
func describe(tasks []*task) string {
	ids := make([]pipeline.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.id
	}
	return fmt.Sprint(ids)
}
