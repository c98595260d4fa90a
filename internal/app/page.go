package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"otm/heartbeat"
	"otm/internal/page"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// human is who a person on the page is, in histories.
const human = "human"

// pageSource is what the page shows of a data directory, and does in it.
type pageSource struct {
	home *Home
	// look reads the board: the embedded one as it is now, a Slack List as it
	// was when it was last read.
	look func(context.Context) (*slacklist.Snapshot, error)
	live bool // what look shows is the present
	// people is the board as a person writes to it.
	people pipeline.Board
}

// State implements page.Source.
func (p *pageSource) State(ctx context.Context) (*page.State, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	s := &page.State{
		Statuses: texts(pipeline.Statuses), Priorities: texts(pipeline.Priorities), Types: texts(pipeline.Types),
		Agents: []page.Agent{}, Tasks: []page.Task{}, Failed: []page.Failed{},
		Room: page.Room{Rows: snap.Count, Limit: snap.Limit},
	}
	if walk := snap.WalkAt.UTC(); !p.live && !walk.IsZero() {
		s.Room.WalkAt = &walk
	}
	first := "devdas"
	for i, a := range p.home.Config.Agents {
		s.Agents = append(s.Agents, page.Agent{Name: a.Name, Person: a.Person})
		if i == 0 {
			first = a.Name
		}
	}
	s.CreateCommand = "otm-create --title 'Build the login page' --agent " + first
	for _, v := range p.home.taskViews(snap.Rows) {
		s.Tasks = append(s.Tasks, cardOf(&v))
	}
	return s, errors.Join(p.components(s), p.files(s))
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

func cardOf(v *taskView) page.Task {
	t := page.Task{
		Row: v.RowID, Title: v.Title, Status: string(v.Status), Agent: v.Agent, Priority: string(v.Priority), Type: v.Type,
		Project: v.Project, Reason: v.Reason, Result: v.Result, CreatedAt: v.Created, UpdatedAt: v.Updated, Steps: []page.Step{},
	}
	if v.TaskID != 0 {
		t.ID = v.TaskID.String()
	}
	for _, s := range v.Steps {
		t.Steps = append(t.Steps, page.Step{Row: s.RowID, Title: s.Title, Done: s.Done})
	}
	return t
}

func (p *pageSource) components(s *page.State) error {
	now := p.home.Now()
	for _, id := range heartbeat.Components {
		b, err := heartbeat.Read(p.home.Dir, id)
		c := page.Component{ID: id, State: string(heartbeat.NotInstalled)}
		if err == nil {
			c = page.Component{ID: id, State: string(heartbeat.Judge(b, now)), LastRun: &b.LastRun, Result: string(b.Result), Details: b.Details}
		}
		s.Components = append(s.Components, c)
	}
	return nil
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

func (p *pageSource) files(s *page.State) error {
	for _, kind := range inbox.Kinds {
		files, err := p.home.Box.List(kind)
		if err != nil {
			return err
		}
		if kind == inbox.NewTasks {
			s.Waiting.NewTasks = len(files)
		} else {
			s.Waiting.Updates = len(files)
		}
	}
	names, err := p.home.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	slices.Reverse(names)
	for _, name := range names[:min(len(names), maxFailed)] {
		f, err := p.home.Box.ReadSettled(inbox.FailedDir, name)
		if err != nil {
			continue // put back meanwhile
		}
		failed := page.Failed{Name: name, Error: f.Result.Error, Class: string(f.Result.Class), Hint: f.Result.Hint}
		if id := f.TaskID(); id != 0 {
			failed.TaskID = id.String()
		}
		s.Failed = append(s.Failed, failed)
	}
	return nil
}

// Detail implements page.Source.
func (p *pageSource) Detail(ctx context.Context, row string) (*page.Detail, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	rows := snap.Rows
	i := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.ID == row })
	if i < 0 {
		return nil, &page.Refusal{Reason: "the row is no longer on the board"}
	}
	id := rows[i].Task()
	if id == 0 {
		return &page.Detail{Why: "typed by hand; otm takes it up when it has an assignee and has been still for a while"}, nil
	}
	s, err := p.home.situationOf(snap)
	if err != nil {
		return nil, err
	}
	why, err := s.why(id)
	if err != nil {
		return nil, err
	}
	d := &page.Detail{Why: why.line()}
	rec, err := p.home.record(id)
	if err != nil || rec == nil {
		return d, err
	}
	for _, e := range rec.History {
		d.History = append(d.History, page.Event{At: e.At, Who: e.Who, What: e.What, Detail: e.Detail})
	}
	return d, nil
}

// Do implements page.Source.
func (p *pageSource) Do(ctx context.Context, a page.Action) (*page.Answer, error) {
	switch a.Do {
	case "create":
		return p.create(ctx, a)
	case "retry":
		_, _, err := p.home.retryOne(ctx, a.Name, false)
		if err != nil {
			return nil, &page.Refusal{Reason: "not put back: " + err.Error()}
		}
		return nil, nil
	case "tick":
		return nil, p.tick(ctx, a)
	}
	cells, what, err := p.cellsOf(a)
	if err != nil {
		return nil, err
	}
	return nil, p.edit(ctx, a.Row, cells, what)
}

// create drops a task, as otm-create would: what a person adds here takes the
// way of every task.
func (p *pageSource) create(ctx context.Context, a page.Action) (*page.Answer, error) {
	t := pipeline.Task{Title: strings.TrimSpace(a.Title), Agent: a.Agent, Project: a.Project, Steps: a.Steps}
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(a.Priority); !ok {
		t.Priority = pipeline.Normal
	}
	if t.Type, ok = pipeline.ParseType(a.Type); !ok {
		t.Type = pipeline.Action
	}
	if err := drop.CheckTask(&t); err != nil {
		return nil, &page.Refusal{Reason: err.Error()}
	}
	if agents := p.home.Config.Agents; len(agents) > 0 {
		known := agents.Named(t.Agent)
		if known == nil {
			return nil, &page.Refusal{Reason: fmt.Sprintf("no agent %q is configured", t.Agent), Hint: "nearest: " + agents.Nearest(t.Agent)}
		}
		t.Agent = known.Name
	}
	counter, err := p.home.Store.Counter(ctx)
	if err != nil {
		return nil, err
	}
	t.ID, err = counter.Take(1)
	counter.Release()
	if err != nil {
		return nil, err
	}
	c := &drop.Create{ID: pipeline.NewDropID(), CreatedAt: p.home.Now(), Task: t}
	if err := p.home.Box.Publish(inbox.NewTasks, inbox.NewName(c.CreatedAt, c.ID), c.Encode()); err != nil {
		return nil, err
	}
	return &page.Answer{ID: t.ID.String()}, nil
}

// cellsOf turns an action on a task into cells, and the words for its history.
func (p *pageSource) cellsOf(a page.Action) ([]pipeline.Cell, string, error) {
	status := func(s pipeline.Status) pipeline.Cell {
		return pipeline.Cell{Field: pipeline.FieldStatus, Text: string(s)}
	}
	switch a.Do {
	case "approve":
		return []pipeline.Cell{status(pipeline.Done), {Field: pipeline.FieldChecked, Checked: true}}, "approved", nil
	case "sendback":
		reason := strings.TrimSpace(a.Reason)
		if reason == "" {
			return nil, "", &page.Refusal{Reason: "say what is missing: the agent gets it as the reason"}
		}
		if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: reason}); err != nil {
			return nil, "", &page.Refusal{Reason: err.Error()}
		}
		return []pipeline.Cell{status(pipeline.New), {Field: pipeline.FieldReason, Text: reason}, {Field: pipeline.FieldChecked}}, "sent back: " + reason, nil
	case "status":
		s, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return nil, "", &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		return []pipeline.Cell{status(s), {Field: pipeline.FieldChecked, Checked: s == pipeline.Done}}, "", nil
	case "priority":
		prio, ok := pipeline.ParsePriority(a.Priority)
		if !ok {
			return nil, "", &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
		}
		return []pipeline.Cell{{Field: pipeline.FieldPriority, Text: string(prio)}}, "changed priority: " + string(prio), nil
	case "assign":
		return p.assignCells(a.Agent)
	}
	return nil, "", &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
}

func (p *pageSource) assignCells(name string) ([]pipeline.Cell, string, error) {
	cell := pipeline.Cell{Field: pipeline.FieldAssignee, Text: pipeline.CleanName(name)}
	if a := p.home.Config.Agents.Named(name); a != nil {
		cell.Text, cell.User = a.Label, a.User
	} else if !pipeline.ValidAgentName(name) {
		return nil, "", &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", name)}
	}
	return []pipeline.Cell{cell}, "assigned: " + name, nil
}

// edit writes a person's edit of a task to the board, and its history.
func (p *pageSource) edit(ctx context.Context, row string, cells []pipeline.Cell, what string) error {
	return p.write(ctx, row, cells, func(r *pipeline.Record, before *pipeline.Row) {
		now := p.home.Now()
		for _, c := range cells {
			switch c.Field {
			case pipeline.FieldStatus:
				to := pipeline.Status(c.Text)
				r.Note(now, human, "changed status", fmt.Sprintf("%s to %s", before.CurrentStatus(), to))
				r.Status = to
			case pipeline.FieldReason:
				r.Reason = c.Text
			case pipeline.FieldPriority:
				r.Priority = pipeline.Priority(c.Text)
			}
		}
		if what != "" {
			r.Note(now, human, what, "")
		}
	})
}

// tick ticks a step or takes its tick away: status and checkbox.
func (p *pageSource) tick(ctx context.Context, a page.Action) error {
	status := pipeline.New
	if a.Done {
		status = pipeline.Done
	}
	cells := []pipeline.Cell{{Field: pipeline.FieldStatus, Text: string(status)}, {Field: pipeline.FieldChecked, Checked: a.Done}}
	return p.write(ctx, a.Row, cells, func(r *pipeline.Record, step *pipeline.Row) {
		for i := range r.Steps {
			if r.Steps[i].RowID == step.ID {
				r.Steps[i].Done = a.Done
			}
		}
		what := "opened a step again"
		if a.Done {
			what = "ticked a step"
		}
		r.Note(p.home.Now(), human, what, step.Title)
	})
}

// write writes cells of one row and notes it in the record of its task. If we
// crash between the two, the next pass sees the change on the board and notes
// it, with the board's name for who made it.
func (p *pageSource) write(ctx context.Context, rowID string, cells []pipeline.Cell, note func(*pipeline.Record, *pipeline.Row)) (err error) {
	b, err := p.people.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	row := b.Row(rowID)
	if row == nil {
		if err := b.Refresh(ctx, 0); err != nil {
			return err
		}
		if row = b.Row(rowID); row == nil {
			return &page.Refusal{Reason: "the row is no longer on the board"}
		}
	}
	before, id := *row, row.Task()
	if row.Parent != "" {
		if parent := b.Row(row.Parent); parent != nil {
			id = parent.Task()
		}
	}
	if err := b.Update(ctx, pipeline.Change{Row: rowID, Cells: cells}); err != nil {
		return refusalOf(err)
	}
	if id == 0 {
		return nil
	}
	_, err = p.home.Store.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID == "" {
			return pipeline.ErrUnchanged
		}
		note(r, &before)
		return nil
	})
	return err
}

// refusalOf words an error of the board for a person at the page.
func refusalOf(err error) error {
	var be *pipeline.BoardError
	var missing *pipeline.MissingError
	if errors.As(err, &missing) || errors.As(err, &be) {
		r := &page.Refusal{Reason: err.Error()}
		if e := Explain(err); e != nil && len(e.Hints) > 0 {
			r.Hint = e.Hints[0]
		}
		return r
	}
	return err
}
