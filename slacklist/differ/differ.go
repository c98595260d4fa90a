package differ

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/pipeline"
)

// lookAgain is the pause before the board is asked for further missing rows.
const lookAgain = time.Minute

// maxCommands bounds one transaction.
const maxCommands = 200

// Differ compares the board with the store, and carries out what it finds. It is for
// one goroutine.
type Differ struct {
	Store  core.Store
	Agents pipeline.Agents
	Times  pipeline.Times
	By     core.Actor // the program
	Log    *slog.Logger
	Now    func() time.Time

	// Consistent says that a walk shows all writes before it, as those of the embedded
	// board do. Slack's may lack our last ones.
	Consistent bool

	// NewID takes an id from the counter. If nil, rows that people typed wait for
	// another program.
	NewID func(context.Context) (pipeline.TaskID, error)
	// Drops returns the creates of tasks, as far as their files are there. It is called
	// only if a task was lost. If nil, none is known.
	Drops func() (map[pipeline.TaskID]pipeline.Dropped, error)
}

// Found is the result of a comparison that was carried out.
type Found struct {
	Findings []explain.Finding
	Adopted  int       // rows that became tasks under new ids
	Drifted  int       // rows that showed what nobody meant
	Again    time.Time // when to compare again; zero: when the board changes
	Trouble  error     // of the board, which ended the comparison early; nil: none
}

// Run compares the snapshot of a batch with the store. On return its commands are
// durable. The error is one of the store or of ctx.
func (d *Differ) Run(ctx context.Context, b pipeline.Batch) (Found, error) {
	tasks, err := d.tasks(ctx, b)
	if err != nil {
		return Found{}, err
	}
	c := d.compare(b, tasks)
	if c.stale || len(c.typed) > 0 && d.NewID != nil && !b.Fresh(pipeline.StatusAge) {
		trouble := b.Refresh(ctx, 0)
		if ctx.Err() != nil {
			return Found{}, context.Cause(ctx)
		}
		if tasks, err = d.tasks(ctx, b); err != nil {
			return Found{}, err
		}
		c = d.compare(b, tasks) // without the rows that a person still edits
		c.Trouble = trouble
	}
	c.gone(ctx, tasks)
	if ctx.Err() == nil {
		err = c.adopt(ctx)
	}
	if ctx.Err() != nil {
		return Found{}, context.Cause(ctx)
	}
	if err != nil {
		return Found{}, err
	}
	return c.Found, d.do(ctx, c.commands)
}

// again asks for another comparison at a time; zero: at none.
func (f *Found) again(at time.Time) {
	if !at.IsZero() && (f.Again.IsZero() || at.Before(f.Again)) {
		f.Again = at
	}
}

// tasks returns the live tasks, and the tasks of rows that none of these has: by the
// row's id, and by the Task ID cell.
func (d *Differ) tasks(ctx context.Context, b pipeline.Batch) ([]*core.Task, error) {
	tasks, err := d.Store.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return nil, err
	}
	known, owned := map[pipeline.TaskID]bool{}, map[string]bool{}
	for _, t := range tasks {
		known[t.ID], owned[t.RowID] = true, true
	}
	var ids []pipeline.TaskID
	var rows []string
	for row := range b.Rows() {
		if row.Parent != "" || owned[row.ID] {
			continue
		}
		rows = append(rows, row.ID)
		if id := row.Task(); id != 0 {
			ids = append(ids, id)
		}
	}
	var filters []core.Filter
	for some := range slices.Chunk(ids, maxCommands) {
		filters = append(filters, core.Filter{IDs: some})
	}
	for some := range slices.Chunk(rows, maxCommands) {
		filters = append(filters, core.Filter{Rows: some})
	}
	for _, f := range filters {
		more, err := d.Store.Tasks(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, t := range more {
			if !known[t.ID] {
				known[t.ID] = true
				tasks = append(tasks, t)
			}
		}
	}
	return tasks, nil
}

// do carries commands out.
func (d *Differ) do(ctx context.Context, commands []core.Command) error {
	for some := range slices.Chunk(commands, maxCommands) {
		outcomes, err := d.Store.Do(ctx, some...)
		if err != nil {
			return err
		}
		crash.Point("differ.done")
		for i, o := range outcomes {
			var refused *core.Refused
			switch {
			case o.Err == nil:
				d.log(ctx, o.Events)
			case !errors.As(o.Err, &refused):
				return o.Err
			default:
				d.Log.WarnContext(ctx, "change of the board not taken over", "task", some[i].Task, "err", o.Err)
			}
		}
	}
	return nil
}

// log logs what happened, but for our own writes that were seen.
func (d *Differ) log(ctx context.Context, events []core.Event) {
	for i := range events {
		if _, own := events[i].Data.(core.BoardWritten); !own {
			data, _ := json.Marshal(events[i].Data) // without what is empty; it is only a note
			d.Log.InfoContext(ctx, "seen on the board", "task", events[i].Task, "who", events[i].By.String(), "what", events[i].Type(), "data", string(data))
		}
	}
}

// maxLooks is how many missing rows a run asks the board for: Slack limits the rate of
// such calls.
const maxLooks = 5

// missingRow is a row of a task that the last walk lacks.
type missingRow struct {
	task *core.Task
	id   string
}

// missing returns the rows that the last walk should show. It also knows of rows that
// were deleted while OTM was down, as the tasks name them. A row takes its steps along.
func missing(b pipeline.Batch, tasks []*core.Task) (rows []missingRow) {
	if b.WalkAt().IsZero() {
		return nil
	}
	for _, t := range tasks {
		switch {
		case t.RowID == "" || t.Away():
		case b.Row(t.RowID) == nil:
			rows = append(rows, missingRow{t, t.RowID})
		default:
			for _, s := range t.Steps {
				// A finished task keeps a step whose row is gone, unless it is still to be written.
				if s.RowID != "" && b.Row(s.RowID) == nil && (!t.Status.Finished() || s.IsStale()) {
					rows = append(rows, missingRow{t, s.RowID})
				}
			}
		}
	}
	return rows
}

// gone asks the board for the rows that the last walk lacks, which means nothing by
// itself, and makes the commands for those that the board does not have. Trouble with
// that is no trouble of the comparison: later runs ask for the other rows.
//
// A step may be gone with its task, whose row is shown all the same if it was written after
// the walk began.
func (c *comparison) gone(ctx context.Context, tasks []*core.Task) {
	lost := map[pipeline.TaskID]bool{}
	for n, row := range missing(c.Batch, tasks) {
		id, top := row.task.ID, row.task.RowID
		if n == maxLooks {
			c.again(c.now.Add(lookAgain))
			return
		}
		if lost[id] {
			continue
		}
		gone, err := c.IsGone(ctx, row.id)
		if lost[id] = gone && row.id == top; gone && !lost[id] {
			lost[id], err = c.IsGone(ctx, top)
		}
		switch {
		case err != nil:
			c.Log.Info("missing row not looked up on the board", "err", err)
			c.again(c.now.Add(lookAgain))
			return
		case lost[id]:
			c.add(core.ByPerson(""), id, core.LoseRow{Row: top})
		case gone:
			c.add(core.ByPerson(""), id, core.Edits{Seen: true, Gone: []string{row.id}})
		}
	}
}
