// Package complete promotes tasks whose steps are all done.
//
// A task in progress becomes agent_done once all its steps are done, one of which was
// open when its agent took it. The progress that the board shows follows from the
// steps; where somebody changed it, a pass of the detector repairs it.
package complete

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
)

// Who is the name under which the detector acts.
const Who = "otm-completion-detector"

// Engine is what the detector needs of the engine and the board.
type Engine interface {
	core.Store
	// Look brings the store up to what stands on the board, as of at most maxAge ago;
	// negative: as of the last walk. It returns how many rows showed what nobody meant.
	Look(ctx context.Context, maxAge time.Duration) (drifted int, err error)
	// Deliver delivers all effects that are due, and returns for those tasks for which
	// that did not work, why. The error is of our own files.
	Deliver(ctx context.Context, tasks ...pipeline.TaskID) (map[pipeline.TaskID]error, error)
}

// Detector makes passes over the tasks. Its methods are for one goroutine, which holds
// the detector's work lock.
type Detector struct {
	Engine Engine
	Types  pipeline.Types
	Log    *slog.Logger
	Now    func() time.Time
}

// Pass looks at every task once. Rows may be at most maxAge old; if it is negative,
// any snapshot will do. The error is one of our own files.
func (d *Detector) Pass(ctx context.Context, maxAge time.Duration) (*heartbeat.Report, error) {
	report := &heartbeat.Report{Did: []heartbeat.Did{{Verb: "Promoted", Noun: "task"}, {Verb: "Repaired", Noun: "row"}}}
	drifted, err := d.Engine.Look(ctx, maxAge)
	if err != nil {
		return report, report.Stopped(err)
	}
	report.Did[1].N = drifted
	if report.Did[0].N, err = d.promote(ctx); err != nil {
		return report, err
	}
	left, err := d.Engine.Deliver(ctx)
	if err != nil {
		return report, err
	}
	for id, why := range left {
		left, ok := errors.AsType[*outbox.LeftError](why)
		if ok && left.Looks() {
			report.RunBy(left.Due)
			continue
		}
		if ok && left.Code == string(explain.ListFull) {
			report.Needs(explain.New(explain.ListFull)) // another process was told
			continue
		}
		report.Undelivered(id, why)
	}
	return report, nil
}

// promote promotes the tasks that are complete, and returns how many.
func (d *Detector) promote(ctx context.Context) (n int, err error) {
	tasks, err := d.Engine.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return 0, err
	}
	var commands []core.Command
	for _, t := range tasks {
		if t.Complete() {
			commands = append(commands, core.Command{At: d.Now(), By: core.Component(Who), Task: t.ID, Do: core.Promote{Types: d.Types}})
		}
	}
	if len(commands) == 0 {
		return 0, nil
	}
	outcomes, err := d.Engine.Do(ctx, commands...)
	if err != nil {
		return 0, err
	}
	for i, o := range outcomes {
		if o.Err == nil && len(o.Events) > 0 {
			n++
			d.Log.Info("promoted task", "task", commands[i].Task, "to", pipeline.AgentDone)
		}
	}
	return n, nil
}
