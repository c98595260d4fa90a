package app

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
)

// assigned is for a task that stands in its agent's dispatch file.
func (s *situation) assigned(rec *pipeline.Record, row *pipeline.Row, agent *pipeline.Agent, since time.Time) reason {
	name := row.Assignee
	if agent != nil {
		name = agent.Name
	}
	if d := rec.Dispatch; d != nil && d.TakenAt != nil {
		return s.withEnd(at(atWork, *d.TakenAt, fmt.Sprintf("taken by %s %s, nothing reported yet", name, s.ago(*d.TakenAt)), s.silence(rec, agent)), rec, agent)
	}
	if agent == nil {
		return at(toAgent, since, fmt.Sprintf("unknown agent %q", row.Assignee), "assign it to somebody who is configured")
	}
	return s.toTake(rec, agent, since, fmt.Sprintf("dispatched to %s %s", name, s.ago(since)))
}

// toTake is for a task that waits for its agent to take it.
func (s *situation) toTake(rec *pipeline.Record, agent *pipeline.Agent, since time.Time, dispatched string) reason {
	next := "otm next --agent " + safe.Quote(agent.Name)
	its := s.tasksOf(agent)
	if agent.Trigger == pipeline.TriggerNone {
		return at(toTake, since, dispatched+", not taken: it looks by itself", "tell "+agent.Name+" to run: "+next)
	}
	for _, other := range its.records {
		if other.TaskID != rec.TaskID && dispatch.AtWork(other) {
			return s.withEnd(at(toTake, since, fmt.Sprintf("%s, waiting behind %v, at which %s works", dispatched, other.TaskID, agent.Name), ""), other, agent)
		}
	}
	if its.err != nil {
		return at(toTake, since, fmt.Sprintf("%s; whether %s was woken for it is not known: %v", dispatched, agent.Name, its.err), "otm fsck")
	}
	return s.byWake(agent, its.outlook, since, dispatched, next)
}

// byWake is for a task whose agent is free, by what became of its last wake.
func (s *situation) byWake(agent *pipeline.Agent, outlook dispatch.Outlook, since time.Time, dispatched, next string) reason {
	wake, logs := outlook.Wake, s.logsOf(agent)
	switch {
	case wake == nil:
		return at(toTake, since, dispatched+", not woken yet"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
	case outlook.GivenUp:
		return at(isIgnored, wake.AskedAt, fmt.Sprintf("%s; woken %d times, last %s, and not taken: it is not woken again for it", dispatched, outlook.Wakes, s.ago(wake.AskedAt)),
			"find out why the agent takes nothing, then set the task to new on the board, or run: "+next)
	case outlook.Stuck:
		return at(isIgnored, wake.AskedAt, fmt.Sprintf("%s; the process of %s was started %s, still runs, and has taken nothing", dispatched, agent.Name, s.ago(wake.AskedAt)), logs)
	case outlook.Running:
		return at(toTake, since, fmt.Sprintf("%s; the process of %s was started %s, and has not taken it yet", dispatched, agent.Name, s.ago(wake.AskedAt)), "")
	case wake.Refused != "":
		r := at(toTake, since, fmt.Sprintf("%s; the wake was refused %s: %s", dispatched, s.ago(wake.AskedAt), wake.Refused), "mend that; the next pass wakes again")
		r.late = true
		return r
	case wake.Accepted == nil:
		return at(toTake, since, fmt.Sprintf("%s; no answer to the wake of %s", dispatched, s.ago(wake.AskedAt))+s.trouble(heartbeat.Dispatcher), "otm doctor   # says whether the gateway is there, and takes the token")
	case wake.Outcome.Failed() && wake.Via == string(pipeline.TriggerGateway):
		r := at(toTake, since, fmt.Sprintf("%s; woken %s, but its run at the gateway failed, and it took nothing: %s", dispatched, s.ago(*wake.Accepted), wake.Exit),
			fmt.Sprintf("mend that at the gateway, whose log says more: openclaw logs; it is woken again %v after the last time; by hand: %s", s.home.Config.Times.RewakeAfter, next))
		r.late = true
		return r
	case wake.Exit != "":
		return at(toTake, since, fmt.Sprintf("%s; woken %s, ended (%s) and not taken", dispatched, s.ago(*wake.Accepted), wake.Exit), logs+"; it should run: "+next)
	}
	return at(toTake, since, fmt.Sprintf("%s, woken %s, not taken", dispatched, s.ago(*wake.Accepted)), fmt.Sprintf("it is woken again %v after that; by hand: %s", s.home.Config.Times.RewakeAfter, next))
}

// inProgress is for a task that its agent works on.
func (s *situation) inProgress(rec *pipeline.Record, row *pipeline.Row, agent *pipeline.Agent, since time.Time) reason {
	steps := s.steps[row.ID]
	open := 0
	for _, step := range steps {
		if !step.StepDone() {
			open++
		}
	}
	heard := dispatch.LastHeard(rec)
	if heard.IsZero() {
		heard = since
	}
	last := "last heard " + s.ago(heard)
	sentence := ""
	switch {
	case open > 0:
		sentence = fmt.Sprintf("%s is at it, %d of %d steps open, %s", cmp.Or(row.Assignee, "somebody"), open, len(steps), last)
	case len(steps) == 0:
		sentence = "all its steps were deleted on the board: the agent has to say agent_done by itself, " + last
	case rec.EndsByWord():
		sentence = "every step is ticked already: the agent has to say agent_done by itself, " + last
	}
	if sentence != "" {
		return s.withEnd(at(atWork, heard, sentence, s.silence(rec, agent)), rec, agent)
	}
	return at(atWork, heard, "all steps are done; waits for the completion detector"+s.trouble(heartbeat.Detector), s.mend(heartbeat.Detector))
}

// silence says what to do about an agent that has not been heard of.
func (s *situation) silence(rec *pipeline.Record, agent *pipeline.Agent) string {
	if agent == nil || agent.Person || s.now.Sub(dispatch.LastHeard(rec)) < s.home.Config.Times.SilentAfter {
		return ""
	}
	if agent.Trigger == pipeline.TriggerNone {
		return "look at the agent, or set this one to new on the board"
	}
	return "look at the agent; it is woken again if other tasks wait, or set this one to new on the board"
}

// withEnd adds that the process which was started for an agent has ended, and
// left the task unfinished that it had taken.
func (s *situation) withEnd(r reason, taken *pipeline.Record, agent *pipeline.Agent) reason {
	if agent == nil || agent.Trigger != pipeline.TriggerExec {
		return r
	}
	outlook := s.tasksOf(agent).outlook
	w := outlook.Wake
	if outlook.Running || w == nil || w.Ended == nil || dispatch.LastHeard(taken).After(*w.Ended) || len(s.updates[taken.TaskID]) > 0 {
		return r // it runs, or somebody goes on by hand, or what it said last is on its way
	}
	r.Sentence += fmt.Sprintf("; but its process ended %s (%s)", s.ago(*w.Ended), cmp.Or(w.Exit, "nobody saw how"))
	r.Next = s.logsOf(agent) + "; to send it out again, set " + taken.TaskID.String() + " to new on the board"
	r.late = true
	return r
}

// logsOf is how to see what an agent that was started as a process printed.
func (s *situation) logsOf(agent *pipeline.Agent) string {
	return "look into its log: ls -t " + safe.Quote(filepath.Join(s.home.LogDir(), "exec", agent.Name))
}

// agentTasks are the tasks that the board gives to an agent.
type agentTasks struct {
	records []*pipeline.Record
	outlook dispatch.Outlook
	err     error // why there is no outlook
}

func (s *situation) tasksOf(agent *pipeline.Agent) *agentTasks {
	if its := s.agents[agent.Name]; its != nil {
		return its
	}
	its := &agentTasks{}
	for _, row := range s.tops {
		if !s.home.isFor(row, agent) {
			continue
		}
		if rec, err := s.home.Store.Load(s.taskOf(row)); err == nil && rec.RowID == row.ID {
			its.records = append(its.records, rec)
		}
	}
	its.outlook, its.err = s.outlooks.Of(agent, its.records)
	s.agents[agent.Name] = its
	return its
}
