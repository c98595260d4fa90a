package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/internal/safe"
	"otm/pipeline"
)

// view is the board as people ask for it: from the snapshot, which may be old,
// or from a walk that they asked for.
type view struct {
	WalkAt time.Time // zero: nothing is known
	Tasks  []taskView
	Rows   int
	Limit  int
}

// taskView is one task as list and show print it.
type taskView struct {
	TaskID   pipeline.TaskID   `json:"taskId"`
	Title    string            `json:"title"`
	Status   pipeline.Status   `json:"status"`
	Agent    string            `json:"agent"`
	Priority pipeline.Priority `json:"priority"`
	Project  string            `json:"project,omitempty"`
	Type     string            `json:"type,omitempty"`
	Steps    []stepView        `json:"steps"`
	Reason   string            `json:"reason,omitempty"`
	Result   string            `json:"result,omitempty"`
	RowID    string            `json:"slackItemId"`
	Created  time.Time         `json:"createdAt"`
	Updated  time.Time         `json:"updatedAt"`
}

type stepView struct {
	Title string `json:"title"`
	Done  bool   `json:"done"`
	RowID string `json:"slackItemId,omitempty"`
}

func (t *taskView) done() int {
	n := 0
	for _, s := range t.Steps {
		if s.Done {
			n++
		}
	}
	return n
}

// look reads the board; fresh walks it first.
func (h *Home) look(ctx context.Context, fresh bool) (*view, error) {
	if fresh {
		if err := h.walk(ctx); err != nil {
			return nil, err
		}
	}
	snap, err := h.snapshot()
	if err != nil {
		return nil, err
	}
	return &view{WalkAt: snap.WalkAt, Rows: snap.Count, Limit: snap.Limit, Tasks: h.taskViews(snap.Rows)}, nil
}

// taskViews puts the rows of the board together, in the order of the ids.
func (h *Home) taskViews(rows []pipeline.Row) []taskView {
	steps := map[string][]*pipeline.Row{}
	for i := range rows {
		if r := &rows[i]; r.Parent != "" {
			steps[r.Parent] = append(steps[r.Parent], r)
		}
	}
	var tasks []taskView
	for i := range rows {
		if r := &rows[i]; r.Parent == "" {
			tasks = append(tasks, h.taskView(r, steps[r.ID]))
		}
	}
	slices.SortFunc(tasks, func(a, b taskView) int { return int(a.TaskID) - int(b.TaskID) })
	return tasks
}

// walk brings the snapshot up to date.
func (h *Home) walk(ctx context.Context) error {
	b, err := h.board(h.stderrLog("otm")).Begin(ctx)
	if err != nil {
		return err
	}
	return errors.Join(b.Refresh(ctx, 0), b.End())
}

// taskView puts a row and its steps together, the steps in the order of the
// record.
func (h *Home) taskView(r *pipeline.Row, rows []*pipeline.Row) taskView {
	t := taskView{
		TaskID: r.Task(), Title: r.Title, Status: r.CurrentStatus(), Agent: r.Assignee, Priority: r.Priority,
		Project: r.Project, Type: r.Type, Reason: r.Reason, Result: r.Result, RowID: r.ID, Created: time.Unix(r.Created, 0).UTC(),
		Updated: time.Unix(r.Updated, 0).UTC(),
	}
	if a := h.Config.Agents.Assigned(r.Assignee); a != nil {
		t.Agent = a.Name
	}
	place := map[string]int{}
	switch rec, err := h.Store.Load(t.TaskID); {
	case err == nil:
		for i, s := range rec.Steps {
			place[s.RowID] = i + 1
		}
		t.Created = rec.CreatedAt
	case !errors.Is(err, fs.ErrNotExist):
		h.Warn("the steps of %v may stand in another order, as its record cannot be read: %v", t.TaskID, err)
	}
	slices.SortStableFunc(rows, func(a, b *pipeline.Row) int { return place[a.ID] - place[b.ID] })
	for _, s := range rows {
		t.Steps = append(t.Steps, stepView{Title: s.Title, Done: s.StepDone(), RowID: s.ID})
	}
	return t
}

// record returns the record of a task; nil where there is none.
func (h *Home) record(id pipeline.TaskID) (*pipeline.Record, error) {
	rec, err := h.Store.Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rec, err
}

// age says how long ago something was, in one unit.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "in the future"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// short cuts a text for a table, and makes it harmless.
func short(s string, n int) string {
	s = safe.Escape(s)
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
