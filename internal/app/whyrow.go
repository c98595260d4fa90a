package app

import (
	"fmt"
	"path/filepath"
	"time"

	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
)

// whyTyped is for a row that a person typed and that is no task yet. rec is
// that of its adoption, where that was begun.
func (s *situation) whyTyped(row *pipeline.Row, rec *pipeline.Record) reason {
	since := time.Unix(row.Updated, 0)
	agents := s.home.Config.Agents
	status := row.CurrentStatus()
	switch {
	case status.Over():
		return at(isOver, since, fmt.Sprintf("typed on the board as %s: otm leaves it alone", status), "")
	case row.Title == "":
		return at(withHuman, since, "typed on the board without a title", "give it a title on the board")
	case row.Assignee == "":
		return at(withHuman, since, "nobody is assigned", "choose an assignee on the board")
	case row.TaskID != "" && row.Task() == 0:
		return at(toAgent, since, fmt.Sprintf("its Task ID says %q, which is no task id", row.TaskID), "clear that cell on the board: it gets an id of its own")
	case agents.Assigned(row.Assignee) == nil:
		return s.unknownAgent(row, since)
	case status != pipeline.New:
		return at(toAgent, since, fmt.Sprintf("typed on the board as %s: only new ones are taken up", status), "set it to new on the board")
	}
	if due := since.Add(s.home.Config.Times.AdoptAfter); rec == nil && due.After(s.now) {
		return at(toAgent, since, fmt.Sprintf("typed on the board %s: it is taken up when it has been still for %v", s.ago(since), s.home.Config.Times.AdoptAfter), "")
	}
	return at(toAgent, since, "typed on the board; the dispatcher's next pass takes it up"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
}

func (s *situation) unknownAgent(row *pipeline.Row, since time.Time) reason {
	next := "add [agents." + safe.Quote(row.Assignee) + "] to " + safe.Quote(filepath.Join(s.home.Dir, "otm.toml"))
	if near := s.home.Config.Agents.Nearest(row.Assignee); near != "" {
		next += ", or assign it to " + near
	}
	return at(toAgent, since, fmt.Sprintf("unknown agent %q", row.Assignee), next)
}

// whyRow is for a row that bears no task's id: typed, or a person took the id
// away.
func (s *situation) whyRow(row *pipeline.Row) (reason, error) {
	ids, err := s.home.Store.IDs()
	if err != nil {
		return reason{}, err
	}
	for _, id := range ids {
		if rec, err := s.home.Store.Load(id); err == nil && rec.RowID == row.ID {
			return s.why(id)
		}
	}
	return s.whyTyped(row, nil), nil
}

// withoutRow is for a task whose row does not bear its id, or is not there.
func (s *situation) withoutRow(rec *pipeline.Record) reason {
	row := s.byID[rec.RowID]
	over := rec.Status.Finished()
	switch {
	case row != nil:
		r := s.byStatus(rec, row)
		r.Sentence += "; somebody changed the Task ID of its row, and the dispatcher writes it back once the row has been left alone" + s.trouble(heartbeat.Dispatcher)
		return r
	case rec.ArchivedAt != nil:
		return at(isOver, *rec.ArchivedAt, "archived "+s.ago(*rec.ArchivedAt), "otm history "+rec.TaskID.String())
	case rec.GoneAt != nil && over:
		return at(isOver, *rec.GoneAt, fmt.Sprintf("%s; somebody deleted or archived its row on the board, seen %s", rec.Status, s.ago(*rec.GoneAt)), "")
	case rec.GoneAt != nil:
		return at(isLost, *rec.GoneAt, "somebody deleted or archived its row on the board, seen "+s.ago(*rec.GoneAt)+": it is left alone and not made again",
			"restore the row on the board to go on; where otm.toml names another board now, name the old one")
	case over:
		return at(isOver, lastEvent(rec), fmt.Sprintf("%s; its row is not on the board as it was last read", rec.Status), "")
	}
	return at(isLost, lastEvent(rec), "its row is not on the board as it was last read: somebody deleted or archived it, or otm.toml names another board now",
		"restore the row on the board, or leave it: otm never makes it again")
}
