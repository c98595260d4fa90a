package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// reason is why a task is where it is.
type reason struct {
	Sentence string     `json:"why"`
	Next     string     `json:"next,omitempty"`  // what to do or to run; "" where nothing is to be done
	Stage    stage      `json:"stage"`           // where it is
	Since    *time.Time `json:"since,omitempty"` // since when it is there
}

// stage is where a task is on its way.
type stage string

// The stages, with how long each usually takes at most: what stands longer is
// told of by otm why --all. Zero: as long as it likes.
const (
	inInbox   stage = "inbox"
	inFailed  stage = "failed"
	toBoard   stage = "to the board"
	toAgent   stage = "to be dispatched"
	toTake    stage = "to be taken"
	atWork    stage = "at work"
	isBlocked stage = "blocked"
	toReview  stage = "to be reviewed"
	withHuman stage = "a person's turn"
	isOver    stage = "over"
	isLost    stage = "not on the board"
	isUnknown stage = "unknown"
)

// usual is how long a stage usually takes at most; isOver has no limit.
func (h *Home) usual(s stage) (time.Duration, bool) {
	switch s {
	case inInbox, toBoard, toAgent:
		return 5 * time.Minute, true
	case inFailed, isLost, isBlocked:
		return 0, true
	case toTake:
		return h.Config.Times.RewakeAfter, true
	case atWork:
		return h.Config.Times.SilentAfter, true
	case toReview, withHuman:
		return 24 * time.Hour, true
	}
	return 0, false
}

// why finds the reason for one task.
func (s *situation) why(id pipeline.TaskID) (reason, error) {
	rec, err := s.home.Store.Load(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return reason{}, err
	}
	row := s.rows[id]
	if row != nil && rec != nil && rec.RowID != "" && rec.RowID != row.ID {
		row = nil // another one that bears its id
	}
	switch {
	case rec == nil && row == nil:
		return s.unknown(id)
	case row != nil && (rec == nil || rec.DropID == "" && (!rec.OnBoard() || len(rec.Steps) == 0)):
		return s.whyTyped(row, rec), nil
	case !rec.OnBoard() && rec.GoneAt == nil:
		return s.comingOnBoard(rec), nil
	case row == nil || rec.GoneAt != nil:
		return s.withUpdates(s.withoutRow(rec), id), nil
	}
	return s.withUpdates(s.byStatus(rec, row), id), nil
}

// withUpdates adds what is to be said of the updates of a task that did not
// reach the board.
func (s *situation) withUpdates(r reason, id pipeline.TaskID) reason {
	if n := len(s.updates[id]); n > 0 && r.Stage != isOver {
		since := slices.MinFunc(s.updates[id], time.Time.Compare)
		waits := "an update of it waits"
		if n > 1 {
			waits = fmt.Sprintf("%d updates of it wait", n)
		}
		r.Sentence += fmt.Sprintf("; %s in the inbox since %s%s", waits, s.ago(since), s.injectorTrouble())
		r.Next = cmp.Or(s.mend(heartbeat.Injector), r.Next)
	}
	if failed := s.refused[id]; len(failed) > 0 && r.Stage != isOver {
		f := failed[len(failed)-1]
		r.Sentence += fmt.Sprintf("; an update of it failed %s (%s): %s", s.ago(f.Result.At), f.Result.Class, f.Result.Error)
		r.Next = "otm retry " + safe.Quote(f.Name) + ", or remove it from " + safe.Quote(filepath.Join(s.home.Dir, inbox.FailedDir))
	}
	return r
}

// line is the reason with what to do, as one line of text.
func (r *reason) line() string {
	if r.Next == "" {
		return r.Sentence
	}
	return r.Sentence + " → " + r.Next
}

func at(where stage, since time.Time, sentence, next string) reason {
	r := reason{Stage: where, Sentence: sentence, Next: next}
	if !since.IsZero() {
		since = since.UTC()
		r.Since = &since
	}
	return r
}

// unknown is for an id that no record and no row bears.
func (s *situation) unknown(id pipeline.TaskID) (reason, error) {
	if since, ok := s.waiting[id]; ok {
		return at(inInbox, since, "in the inbox since "+s.ago(since)+s.injectorTrouble(), s.mend(heartbeat.Injector)), nil
	}
	if f := s.failed[id]; f != nil {
		next := "otm retry " + safe.Quote(f.Name)
		if f.Result.Class == inbox.Conflict {
			next += " --new-id"
		}
		return at(inFailed, f.Result.At, fmt.Sprintf("failed (%s): %s", f.Result.Class, f.Result.Error), next), nil
	}
	issued, err := s.home.Store.Issued(id)
	if err != nil {
		return reason{}, err
	}
	if issued {
		return at(isUnknown, time.Time{}, "no task bears this id: it was taken by an otm-create that was stopped before it printed it, or the ids jumped over it, as somebody used a higher one", ""), nil
	}
	return at(isUnknown, time.Time{}, "was never issued", "otm list"), nil
}

// comingOnBoard is for a task that does not stand on the board completely.
func (s *situation) comingOnBoard(rec *pipeline.Record) reason {
	since := rec.CreatedAt
	if rec.DropID == "" { // typed, and its row is not shown
		return at(toBoard, since, "typed on the board, and not taken up completely"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
	}
	if f := s.failed[rec.TaskID]; f != nil && f.Result.At.After(lastEvent(rec)) {
		return at(inFailed, f.Result.At, fmt.Sprintf("failed (%s): %s", f.Result.Class, f.Result.Error), "otm retry "+safe.Quote(f.Name))
	}
	if rec.RowID == "" {
		if rec.RowAskedAt != nil {
			return at(toBoard, since, fmt.Sprintf("its row was asked for %s and no answer came; it is looked for on the board before it is made again%s", s.ago(*rec.RowAskedAt), s.injectorTrouble()), s.mend(heartbeat.Injector))
		}
		return at(toBoard, since, "its row could not be made yet"+s.injectorTrouble(), s.mend(heartbeat.Injector))
	}
	made := 0
	for _, step := range rec.Steps {
		if step.RowID != "" {
			made++
		}
	}
	return at(toBoard, since, fmt.Sprintf("%d of its %d steps stand on the board%s", made, len(rec.Steps), s.injectorTrouble()), s.mend(heartbeat.Injector))
}

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
		return at(isBlocked, since, fmt.Sprintf("blocked %s: %s", s.ago(since), orNone(row.Reason, "no reason was given")), "remove the cause, then set it to new on the board, or tell the agent to go on")
	case pipeline.AgentDone:
		return at(toReview, since, "waiting for review for "+age(s.now.Sub(since)), "set it to done on the board, or to new to send it back")
	case pipeline.Done, pipeline.Cancelled, pipeline.Archived:
		return at(isOver, since, string(status)+" "+s.ago(since)+s.setBy(rec, status), "")
	}
	return at(withHuman, since, fmt.Sprintf("%s %s%s: otm leaves it alone", status, s.ago(since), s.setBy(rec, status)), "set it to new on the board to send it out again")
}

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return s
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
	return at(toAgent, since, "waits for the dispatcher's next pass"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
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
