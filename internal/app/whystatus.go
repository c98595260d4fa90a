package app

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
)

// byStatus is for a task that stands on the board.
func (s *situation) byStatus(rec *pipeline.Record, row *pipeline.Row) reason {
	agent := s.home.Config.Agents.Assigned(row.Assignee)
	status := row.CurrentStatus()
	since := statusSince(rec, status)
	switch status {
	case pipeline.New:
		return s.new(rec, row, agent, since)
	case pipeline.Assigned:
		if agent != nil && agent.Person {
			return at(withHuman, since, agent.Name+"'s turn, "+s.ago(since), "")
		}
		return s.assigned(rec, row, agent, since)
	case pipeline.InProgress:
		return s.inProgress(rec, row, agent, since)
	case pipeline.Blocked:
		return at(isBlocked, since, fmt.Sprintf("blocked %s: %s", s.ago(since), cmp.Or(row.Reason, rec.Reason, "no reason was given")), "remove the cause, then set it to new on the board, or tell the agent to go on")
	case pipeline.AgentDone:
		return at(toReview, since, "waiting for review for "+age(s.now.Sub(since)), "set it to done on the board, or to new to send it back")
	case pipeline.Done, pipeline.Cancelled, pipeline.Archived:
		return at(isOver, since, string(status)+" "+s.ago(since)+s.setBy(rec, status), "")
	}
	return at(withHuman, since, fmt.Sprintf("%s %s%s: otm leaves it alone", status, s.ago(since), s.setBy(rec, status)), "set it to new on the board to send it out again")
}

// new is for a task that was not handed out.
func (s *situation) new(rec *pipeline.Record, row *pipeline.Row, agent *pipeline.Agent, since time.Time) reason {
	switch {
	case row.Assignee == "":
		return at(withHuman, since, "nobody is assigned", "choose an assignee on the board")
	case agent == nil:
		return s.unknownAgent(row, since)
	case !agent.Person && !isDir(agent.Workspace):
		return at(toAgent, since, fmt.Sprintf("the workspace of %s is missing: %s", agent.Name, agent.Workspace), "mkdir -p "+safe.Quote(agent.Workspace))
	}
	return at(toAgent, since, "waits for the dispatcher's next pass"+s.limited(toRead, toChange)+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// setBy says who brought a task into its state.
func (s *situation) setBy(rec *pipeline.Record, status pipeline.Status) string {
	if e := rec.LastMove(status); e != nil {
		return ", set by " + e.Who
	}
	return ""
}

// statusSince is when a task came into its state.
func statusSince(rec *pipeline.Record, status pipeline.Status) time.Time {
	if e := rec.LastMove(status); e != nil {
		return e.At
	}
	return lastEvent(rec)
}

func lastEvent(rec *pipeline.Record) time.Time {
	if n := len(rec.History); n > 0 {
		return rec.History[n-1].At
	}
	return rec.CreatedAt
}
