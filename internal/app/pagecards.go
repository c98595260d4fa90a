package app

import (
	"time"

	"otm/internal/page"
	"otm/internal/view"
)

// cards are the cards of the rows on the board that are no steps.
func cards(v *view.View) []page.Task {
	tasks := []page.Task{}
	for _, t := range v.Tasks() {
		tasks = append(tasks, card(t))
	}
	return tasks
}

// card is the card of a row, in the words of the board.
func card(t *view.Task) page.Task {
	r := t.Row
	c := page.Task{
		Row: r.ID, Title: r.Title, Status: string(r.CurrentStatus()), Agent: agentName(t), Priority: string(r.Priority), Type: r.Type,
		Project: r.Project, Reason: r.Reason, Result: r.Result, Steps: make([]page.Step, 0, len(t.Steps)),
		CreatedAt: time.Unix(r.Created, 0).UTC(), UpdatedAt: time.Unix(r.Updated, 0).UTC(),
	}
	if id := r.Task(); id != 0 {
		c.ID = id.String()
	}
	if t.State != nil {
		c.CreatedAt, c.Events = t.State.CreatedAt, int(t.State.Version)
	}
	for _, s := range t.Steps {
		if s.Row != "" { // else it is not on the board yet
			c.Steps = append(c.Steps, page.Step{Row: s.Row, Number: s.Number, Title: s.Title, Done: s.Done})
		}
	}
	return c
}
