package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// reader makes tasks from the rows of the board and the records.
type reader struct {
	*run
	owned  bool                                 // owners is up to date
	strays []string                             // rows that lack the id of their task
	unfit  []explain.Finding                    // problems of rows that are no tasks
	drops  map[pipeline.TaskID]pipeline.Dropped // result of Drops since the scan began; nil: not called
}

// scan reads the records of all tasks of agents, and returns those to dispatch, most
// urgent first. stale says that the status of one of them is too old to flip it.
func (rd *reader) scan(ctx context.Context, b pipeline.Batch) (fresh []*task, stale bool, err error) {
	rd.byName, rd.report.Failed = map[string][]*task{}, slices.Clone(rd.unfit)
	rd.away, rd.drops = map[pipeline.TaskID]string{}, nil
	rd.owned, rd.strays = false, nil
	for row := range b.Rows() {
		if row.Parent != "" {
			continue
		}
		if row.Task() == 0 {
			if _, err := rd.isStray(row); err != nil {
				return nil, false, err
			}
			continue
		}
		t, again, err := rd.look(ctx, b, row)
		switch {
		case err != nil:
			return nil, false, err
		case t == nil:
		case again:
			fresh = append(fresh, t)
			stale = stale || !b.Current(row, pipeline.StatusAge)
		default:
			rd.byName[t.agent.Name] = append(rd.byName[t.agent.Name], t)
		}
	}
	slices.SortFunc(rd.report.Failed, func(a, b explain.Finding) int { // the order of rows says nothing
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(fmt.Sprint(a.Code, a.Args), fmt.Sprint(b.Code, b.Args)))
	})
	slices.SortFunc(fresh, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.rec.Priority.Rank(), b.rec.Priority.Rank()), cmp.Compare(a.id, b.id))
	})
	return fresh, stale, nil
}

// look decides about one row. t is nil if there is nothing to do, or if a problem
// prevents it, which look reports unless it solves itself. handOut says that the task
// is to be dispatched; otherwise it already was.
func (rd *reader) look(ctx context.Context, b pipeline.Batch, row *pipeline.Row) (t *task, handOut bool, err error) {
	status := row.CurrentStatus()
	agent := rd.Agents.Assigned(row.Assignee)
	// The task is over and belongs to none of our agents.
	over := (agent == nil || agent.Person) && status != pipeline.New && !status.Active()
	switch {
	case row.Odd && (row.Assignee == "" || row.Status == ""):
		return nil, false, nil // the cell may hold something that could not be read
	case row.Assignee == "" && status == pipeline.New:
		return nil, false, nil
	case over && !rd.isKnown(row.Task()):
		return nil, false, nil // needs no record
	}
	t, err = rd.load(ctx, b, row, agent)
	switch {
	case err != nil:
		return nil, false, rd.failed(ctx, row.Task(), err)
	case t == nil:
		return nil, false, nil
	case t.rec.RowID != row.ID:
		return nil, false, rd.lookAtOther(row, t.rec)
	case over:
		return nil, false, nil
	}
	rd.expectSteps(b, t.rec)
	if status == pipeline.New && !isWhole(t.rec) {
		if t.rec.DropID == "" && agent == nil && len(rd.Agents) > 0 {
			rd.unknownAgent(t.id, row.Assignee)
		}
		return nil, false, nil
	}
	if d := t.rec.Dispatch; d != nil && (agent == nil || !sameAgent(d.Agent, agent.Name)) {
		rd.away[t.id] = d.Agent
	}
	switch {
	case agent == nil && len(rd.Agents) == 0:
		return nil, false, nil // no agents are configured: names are not checked
	case agent == nil && row.Assignee != "":
		rd.unknownAgent(t.id, row.Assignee)
		return nil, false, nil
	case status != pipeline.New && (agent == nil || agent.Person):
		return nil, false, rd.takeAway(ctx, t)
	case status != pipeline.New && !isAgain(t):
		return t, false, nil
	case !isWhole(t.rec):
		return nil, false, nil
	}
	if reason := rd.unready(agent); reason != nil {
		rd.failure("task not dispatched", reason.On(t.id))
		return nil, false, nil
	}
	return t, true, nil
}

func (rd *reader) isKnown(id pipeline.TaskID) bool {
	_, err := rd.Records.Load(id)
	return err == nil
}

func (rd *reader) unknownAgent(id pipeline.TaskID, name string) {
	rd.problem(id, explain.TaskNoAgent, "name", name)
}

// lookAtOther is for a row with the id of a task that has another row.
func (rd *reader) lookAtOther(row *pipeline.Row, rec *pipeline.Record) error {
	stray, err := rd.isStray(row)
	if err != nil || stray || row.CurrentStatus() != pipeline.New {
		return err
	}
	rd.problem(rec.TaskID, explain.TaskTwoRows, "own", rec.RowID, "other", row.ID, "title", row.Title)
	return nil
}

// isWhole reports whether a task is on the board with all its known steps.
func isWhole(r *pipeline.Record) bool { return r.OnBoard() && len(r.Steps) > 0 }

// isAgain reports whether to dispatch a task that is not new: a person gave it to
// another agent, or set it back to assigned.
func isAgain(t *task) bool {
	d := t.rec.Dispatch
	switch t.rec.Status {
	case pipeline.Assigned:
		return d == nil || !sameAgent(d.Agent, t.agent.Name) || setBack(t.rec)
	case pipeline.InProgress, pipeline.Blocked:
		if d == nil {
			return false // its record was lost: its agent continues
		}
		// It was given away, and we crashed before the flip. A person's move since then
		// counts more.
		begun := d.FlippedAt == nil && d.TakenAt == nil && !movedSince(t.rec, d.At)
		return begun || !sameAgent(d.Agent, t.agent.Name)
	}
	return false
}

// movedSince reports whether a person moved a task by hand after a time.
func movedSince(r *pipeline.Record, t time.Time) bool {
	return slices.ContainsFunc(r.History, func(e pipeline.Event) bool { return e.What == pipeline.EventChanged && e.At.After(t) })
}

// eventAgain is the event of a repeated dispatch.
const eventAgain = "dispatched again"

// setBack reports whether a person set a task back to assigned and it was not
// dispatched since.
func setBack(r *pipeline.Record) bool {
	for _, e := range slices.Backward(r.History) {
		if e.What == eventAgain {
			return false
		}
		from, to, ok := e.Move()
		if ok && e.What == pipeline.EventChanged && e.Who != pipeline.WhoBoard && to == pipeline.Assigned && from != pipeline.New {
			return true
		}
	}
	return false
}

// takeAway notes that a person took a task away from its agent and gave it to no
// other agent.
func (rd *reader) takeAway(ctx context.Context, t *task) error {
	d := t.rec.Dispatch
	if d == nil || d.Workspace == "" || t.agent != nil && sameAgent(d.Agent, t.agent.Name) {
		return nil
	}
	now := rd.Now()
	rec, err := rd.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if r.Dispatch == nil {
			return pipeline.ErrUnchanged
		}
		r.Note(now, cmp.Or(t.by, pipeline.WhoBoard), "taken away", "from "+r.Dispatch.Agent)
		r.Dispatch = nil
		return nil
	})
	if err != nil {
		return rd.failed(ctx, t.id, err)
	}
	rec.LogPeople(ctx, rd.Log, now)
	return nil
}

// load reads the record of a task and updates it from the board. It returns nil if the
// record was lost while the create is in the inbox: the board may show only a part of
// the task, and the injector writes the record again.
func (rd *reader) load(ctx context.Context, b pipeline.Batch, row *pipeline.Row, agent *pipeline.Agent) (*task, error) {
	t := &task{id: row.Task(), agent: agent}
	t.by = b.Person(row)
	steps, now := b.StepRows(row.ID), rd.Now()
	rec, err := rd.Records.Load(t.id)
	if err == nil && !isLost(rec) {
		// Another row has its id, or the rows are older than our own writes, or nothing
		// changed.
		if rec.RowID != row.ID || b.WalkAt().IsZero() || !rec.Observe(row, steps, b.Person, now) {
			t.rec = rec
			return t, nil
		}
	}
	if stray, err := rd.isStray(row); err != nil || stray {
		return nil, err // the id in the row is not its own
	}
	missing := errors.Is(err, fs.ErrNotExist)
	var dropped pipeline.Dropped
	if err != nil || isLost(rec) {
		if dropped, err = rd.dropOf(t.id); err != nil || dropped.Waiting {
			return nil, err
		}
	}
	t.rec, err = rd.Records.Change(ctx, t.id, func(r *pipeline.Record) error {
		if isLost(r) {
			r.FromRow(row, steps, dropped.Steps)
			if agent != nil {
				r.Agent = agent.Name
			}
			r.Note(rd.Now(), Who, pipeline.EventRebuilt, row.ID)
			return nil
		}
		if r.RowID != row.ID || !r.Observe(row, steps, b.Person, now) {
			return pipeline.ErrUnchanged
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case missing:
		rd.Log.Warn("rebuilt record from the board", "task", t.id, "row", row.ID)
	default:
		t.rec.LogPeople(ctx, rd.Log, now)
	}
	return t, nil
}

// dropOf returns what the create of a task asked for. Drops must be called after the
// scan began: a row appears on the board after its create was dropped.
func (rd *reader) dropOf(id pipeline.TaskID) (pipeline.Dropped, error) {
	if rd.drops == nil && rd.Drops != nil {
		drops, err := rd.Drops()
		if err != nil {
			return pipeline.Dropped{}, err
		}
		rd.drops = drops
	}
	return rd.drops[id], nil
}

// isLost reports whether a record was lost: it has neither drop nor row.
func isLost(r *pipeline.Record) bool { return r.RowID == "" && r.DropID == "" }
