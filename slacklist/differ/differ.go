package differ

import (
	"context"
	"errors"
	"fmt"
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

	Consistent bool // see Options

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
func (d *Differ) Run(ctx context.Context, b pipeline.Batch) (found Found, err error) {
	tasks, err := d.tasks(ctx, b)
	if err != nil {
		return found, err
	}
	r := Compare(b, tasks, d.Agents, d.options())
	if len(r.Typed) > 0 && d.NewID != nil && !b.Fresh(pipeline.StatusAge) {
		if found.Trouble = b.Refresh(ctx, 0); found.Trouble != nil && ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if tasks, err = d.tasks(ctx, b); err != nil {
			return found, err
		}
		r = Compare(b, tasks, d.Agents, d.options()) // without the rows that a person still edits
	}
	gone, more := d.gone(ctx, b, tasks)
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	if more {
		found.again(d.Now().Add(lookAgain))
	}
	found.Findings = r.Findings
	found.again(r.Again)
	commands, err := d.adoptions(ctx, b, r, &found)
	if err != nil {
		return found, err
	}
	for _, c := range r.Commands {
		if _, drifted := c.Do.(core.Drifted); drifted {
			found.Drifted++
		}
	}
	return found, d.do(ctx, slices.Concat(r.Commands, gone, commands))
}

func (d *Differ) options() Options {
	return Options{Now: d.Now(), By: d.By, Times: d.Times, Consistent: d.Consistent}
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

// adoptions makes the commands for rows without a task.
func (d *Differ) adoptions(ctx context.Context, b pipeline.Batch, r *Result, found *Found) (commands []core.Command, err error) {
	if len(r.Lost) > 0 {
		if commands, err = d.takeover(b, r.Lost); err != nil {
			return nil, err
		}
	}
	if d.NewID == nil || found.Trouble != nil {
		return commands, nil
	}
	for _, id := range r.Typed {
		row := b.Row(id)
		task, err := d.NewID(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			found.Findings = append(found.Findings, explain.New(explain.RowUnfit, "title", row.Title, "error", err))
			found.again(d.Now().Add(lookAgain))
			continue
		}
		commands = append(commands, d.command(task, adoption(b, row, task, d.Agents, nil)))
		found.Adopted++
	}
	return commands, nil
}

// takeover makes the commands for rows of lost tasks. A task whose create waits in an
// inbox is left to the injector: the board may show only a part of it.
func (d *Differ) takeover(b pipeline.Batch, rows []string) (commands []core.Command, err error) {
	var drops map[pipeline.TaskID]pipeline.Dropped
	if d.Drops != nil {
		// After the snapshot was made: a row appears after its create was dropped.
		if drops, err = d.Drops(); err != nil {
			return nil, fmt.Errorf("creates of lost tasks: %w", err)
		}
	}
	for _, id := range rows {
		row := b.Row(id)
		dropped := drops[row.Task()]
		if dropped.Waiting {
			continue
		}
		adopt := adoption(b, row, row.Task(), d.Agents, dropped.Steps)
		adopt.Lost = true
		if adopt.Typed.Kind != core.Person || row.CreatedBy != row.UpdatedBy {
			adopt.Typed = d.By // most likely OTM made it, when it knew the task
		}
		commands = append(commands, d.command(row.Task(), adopt))
	}
	return commands, nil
}

func (d *Differ) command(task pipeline.TaskID, do core.Action) core.Command {
	return core.Command{At: d.Now(), By: d.By, Task: task, Do: do}
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
			d.Log.InfoContext(ctx, "seen on the board", "task", events[i].Task, "who", events[i].By.String(), "what", events[i].Type(), "data", events[i].Data)
		}
	}
}
