package app

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/internal/page"
	"otm/pipeline"
)

// recordFacts is what a card needs of a record.
type recordFacts struct {
	row     string
	created time.Time
	events  int
	place   map[string]int // of steps, by row, beginning at 1
}

// order sorts steps by their number, and puts those without one last.
func (f *recordFacts) order(step *pipeline.Row) int {
	if n := f.place[step.ID]; n > 0 {
		return n
	}
	return math.MaxInt
}

// facts returns the zero value where a task has no record that can be read.
func (p *pageReader) facts(id pipeline.TaskID) recordFacts {
	path := filepath.Join(p.home.Dir, "tasks", id.String()+".json")
	facts, err := p.records.get(path, func() (recordFacts, error) {
		rec, err := p.home.Store.Load(id)
		if err != nil {
			return recordFacts{}, err
		}
		f := recordFacts{row: rec.RowID, created: rec.CreatedAt, events: len(rec.History), place: map[string]int{}}
		for i, s := range rec.Steps {
			f.place[s.RowID] = i + 1
		}
		return f, nil
	})
	if err != nil {
		return recordFacts{}
	}
	return facts
}

// cards puts the rows of the board together, in the order of the ids. It is
// called with mu held.
func (p *pageReader) cards(rows []pipeline.Row) []page.Task {
	steps := map[string][]*pipeline.Row{}
	for i := range rows {
		if r := &rows[i]; r.Parent != "" {
			steps[r.Parent] = append(steps[r.Parent], r)
		}
	}
	names := map[string]string{}
	tasks := []page.Task{}
	for i := range rows {
		r := &rows[i]
		if r.Parent != "" {
			continue
		}
		name, known := names[r.Assignee]
		if !known {
			name = p.agentName(r.Assignee)
			names[r.Assignee] = name
		}
		tasks = append(tasks, p.card(r, steps[r.ID], name))
	}
	slices.SortStableFunc(tasks, func(a, b page.Task) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return tasks
}

func (p *pageReader) agentName(assignee string) string {
	if a := p.home.Config.Agents.Assigned(assignee); a != nil {
		return a.Name
	}
	return assignee
}

func (p *pageReader) card(r *pipeline.Row, steps []*pipeline.Row, agent string) page.Task {
	t := page.Task{
		Row: r.ID, Title: r.Title, Status: string(r.CurrentStatus()), Agent: agent, Priority: string(r.Priority), Type: r.Type,
		Project: r.Project, Reason: r.Reason, Result: r.Result, Steps: make([]page.Step, 0, len(steps)),
		CreatedAt: time.Unix(r.Created, 0).UTC(), UpdatedAt: time.Unix(r.Updated, 0).UTC(),
	}
	var number map[string]int
	if id := r.Task(); id != 0 {
		facts := p.facts(id)
		if facts.row != r.ID {
			facts = recordFacts{} // another row bears its id
		}
		t.ID, t.Events = id.String(), facts.events
		if !facts.created.IsZero() {
			t.CreatedAt = facts.created
		}
		slices.SortStableFunc(steps, func(a, b *pipeline.Row) int { return cmp.Compare(facts.order(a), facts.order(b)) })
		number = facts.place
	}
	for _, s := range steps {
		t.Steps = append(t.Steps, page.Step{Row: s.ID, Number: number[s.ID], Title: s.Title, Done: s.StepDone()})
	}
	return t
}
