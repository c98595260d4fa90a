package fsck

import (
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// wakeOverdue is how long an agent may have a task without a wake: longer than
// any pause between wakes.
const wakeOverdue = 24 * time.Hour

// woken looks for tasks that were handed out long ago and for which the agent was
// never woken, nor for another of its tasks since.
func (c *check) woken() error {
	if !c.Quiet {
		return nil
	}
	busy := map[string]bool{}          // it works on something, or its process may be running
	last := map[string]time.Time{}     // its last wake
	told := map[pipeline.TaskID]bool{} // a wake names it
	for _, rec := range c.records {
		if d := rec.Dispatch; d != nil && d.TakenAt != nil && rec.Status.Active() && rec.GoneAt == nil {
			busy[pipeline.FoldName(d.Agent)] = true
		}
		for _, w := range rec.Wakes {
			agent := pipeline.FoldName(w.Agent)
			if w.AskedAt.After(last[agent]) {
				last[agent] = w.AskedAt
			}
			if w.Ended == nil && w.Via == string(pipeline.TriggerExec) {
				busy[agent] = true
			}
			told[rec.TaskID] = told[rec.TaskID] || w.Attempt == rec.Attempt
			for _, id := range w.Tasks {
				told[id] = told[id] || rec.TaskID != id || w.Attempt == rec.Attempt
			}
		}
	}
	for _, id := range sorted(c.records) {
		rec, d := c.records[id], c.records[id].Dispatch
		if d == nil || d.FlippedAt == nil || d.TakenAt != nil || rec.Status != pipeline.Assigned || rec.GoneAt != nil || told[id] || rebuilt(rec) {
			continue
		}
		row, agent := c.byID[rec.RowID], c.Agents.Named(d.Agent)
		if row == nil || row.CurrentStatus() != pipeline.Assigned || agent == nil || c.Agents.Assigned(row.Assignee) != agent ||
			agent.Person || agent.Trigger != pipeline.TriggerGateway && agent.Trigger != pipeline.TriggerExec {
			continue
		}
		name := pipeline.FoldName(agent.Name)
		if !busy[name] && c.Now.Sub(*d.FlippedAt) > wakeOverdue && last[name].Before(*d.FlippedAt) {
			c.found(RuleWoken, id, RunAgain, explain.NeverWoken, "agent", d.Agent, "at", *d.FlippedAt)
		}
	}
	return nil
}
