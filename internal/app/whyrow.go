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
	since := s.lastEdit(row)
	status := row.CurrentStatus()
	switch {
	case status.Over():
		return at(isOver, since, fmt.Sprintf("typed on the board as %s: otm leaves it alone", status), "")
	case row.Odd:
		return at(toAgent, since, "a cell of its row has a form that otm cannot read", "choose its values anew on the board: Assignee, Status, Priority and Task ID")
	case row.Title == "":
		return at(withHuman, since, "typed on the board without a title", "give it a title on the board")
	case row.Assignee == "":
		return at(withHuman, since, "nobody is assigned", "choose an assignee on the board")
	case row.TaskID != "" && row.Task() == 0:
		return at(toAgent, since, fmt.Sprintf("its Task ID says %q, which is no task id", row.TaskID), "clear that cell on the board: it gets an id of its own")
	case s.home.Config.Agents.Assigned(row.Assignee) == nil:
		return s.unknownAgent(row, since)
	case rec == nil && row.Task() != 0 && status != pipeline.New:
		return at(toAgent, since, fmt.Sprintf("%s on the board, and without a record: the dispatcher's next pass makes one", status)+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
	case status != pipeline.New:
		return at(toAgent, since, fmt.Sprintf("typed on the board as %s: only new ones are taken up", status), "set it to new on the board")
	}
	return s.toAdopt(rec, since)
}

// toAdopt is for a row that has all that a task needs.
func (s *situation) toAdopt(rec *pipeline.Record, since time.Time) reason {
	still := s.home.Config.Times.AdoptAfter
	wait := since.Add(still).Sub(s.now)
	switch {
	case 0 < wait && wait <= 2*still: // else the board's clock is not ours
		return at(toAgent, since, fmt.Sprintf("typed on the board %s: it is taken up when it has been still for %v", s.ago(since), still), "")
	case rec == nil:
		return at(toAgent, since, "typed on the board; the dispatcher's next pass takes it up"+s.dispatcherTrouble(), s.dispatcherMend())
	}
	return at(toAgent, since, "typed on the board, and not taken up completely"+s.dispatcherTrouble(), s.dispatcherMend())
}

// lastEdit is when a row or a step of it last changed.
func (s *situation) lastEdit(row *pipeline.Row) time.Time {
	last := row.Updated
	for _, step := range s.steps[row.ID] {
		last = max(last, step.Updated)
	}
	return time.Unix(last, 0)
}

func (s *situation) unknownAgent(row *pipeline.Row, since time.Time) reason {
	next := "add [agents." + safe.Quote(row.Assignee) + "] to " + safe.Quote(filepath.Join(s.home.Dir, "otm.toml"))
	if near := s.home.Config.Agents.Nearest(row.Assignee); near != "" {
		next += ", or assign it to " + near
	}
	return at(toAgent, since, fmt.Sprintf("unknown agent %q", row.Assignee), next)
}

// whyRow is for a row, whatever its Task ID says.
func (s *situation) whyRow(row *pipeline.Row) (reason, error) {
	if id := s.taskOf(row); id != 0 {
		return s.why(id)
	}
	return s.whyStranger(row), nil
}

// whyStranger is for a row that is no task's: typed, or copied with its id.
func (s *situation) whyStranger(row *pipeline.Row) reason {
	if id := row.Task(); id != 0 && !row.CurrentStatus().Over() {
		return at(toAgent, s.lastEdit(row), fmt.Sprintf("it bears the id of %v, which is another row", id), "clear its Task ID on the board: it gets an id of its own")
	}
	return s.whyTyped(row, nil)
}

// withOddRow adds what is wrong with the row of a task.
func (s *situation) withOddRow(r reason, rec *pipeline.Record, row *pipeline.Row) reason {
	other := s.otherRow(rec.TaskID, row)
	switch changed := row.Task() != rec.TaskID; {
	case changed && other != nil:
		r.Sentence += fmt.Sprintf("; somebody changed the Task ID of its row, and it cannot be written back while another row, %q, bears it", other.Title)
		r.Next = clearOther
	case changed:
		r.Sentence += "; somebody changed the Task ID of its row, and the dispatcher writes it back once the row has been left alone" + s.trouble(heartbeat.Dispatcher)
	case other != nil:
		r.Sentence += fmt.Sprintf("; another row, %q, bears its id, too", other.Title)
		r.Next = clearOther
	}
	if rec.GoneAt != nil {
		r.Sentence += "; its row was gone and is back: the dispatcher's next pass goes on with it" + s.trouble(heartbeat.Dispatcher)
	}
	return r
}

const clearOther = "clear the Task ID of that row on the board: it gets an id of its own"

// goOn is what to do about a row that is gone.
const goOn = "restore the row on the board, or name the old board in otm.toml again"

// withoutRow is for a task whose row is not on the board. A board that was
// exchanged in otm.toml looks the same: no record says of which board its row
// is.
func (s *situation) withoutRow(rec *pipeline.Record) reason {
	over := rec.Status.Finished()
	switch {
	case rec.ArchivedAt != nil:
		return s.archived(rec.TaskID, *rec.ArchivedAt)
	case rec.GoneAt != nil && over:
		return at(isOver, *rec.GoneAt, fmt.Sprintf("%s; somebody deleted or archived its row on the board, seen %s", rec.Status, s.ago(*rec.GoneAt)), "")
	case rec.GoneAt != nil:
		return at(isLost, *rec.GoneAt, fmt.Sprintf("somebody deleted or archived its row on the board, seen %s, or otm.toml names another board since: it is not made again", s.ago(*rec.GoneAt)), goOn)
	case over:
		return at(isOver, lastEvent(rec), fmt.Sprintf("%s; its row is not on the board as it was last read", rec.Status), "")
	}
	return at(isLost, lastEvent(rec), "its row is not on the board as it was last read: somebody deleted or archived it, or otm.toml names another board now: it is not made again", goOn)
}
