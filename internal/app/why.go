package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
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

// situation is what is known when a reason is looked for; it serves many
// tasks.
type situation struct {
	home    *Home
	now     time.Time
	rows    map[pipeline.TaskID]*pipeline.Row
	steps   map[string][]*pipeline.Row
	waiting map[pipeline.TaskID]time.Time // creates in the inbox
	dropped []*drop.Create                // the same
	failed  map[pipeline.TaskID]*inbox.Settled
	beats   map[string]*heartbeat.Beat
	snap    *slacklist.Snapshot
}

// situation reads the directory once, and the rows as they were when the board
// was last read.
func (h *Home) situation() (*situation, error) {
	snap, err := slacklist.ReadSnapshot(h.Dir, h.Now())
	if err != nil {
		return nil, err
	}
	return h.situationOf(snap)
}

func (h *Home) situationOf(snap *slacklist.Snapshot) (*situation, error) {
	s := &situation{home: h, now: h.Now(), rows: map[pipeline.TaskID]*pipeline.Row{}, steps: map[string][]*pipeline.Row{},
		waiting: map[pipeline.TaskID]time.Time{}, failed: map[pipeline.TaskID]*inbox.Settled{},
		beats: map[string]*heartbeat.Beat{}, snap: snap}
	for i := range snap.Rows {
		r := &snap.Rows[i]
		if r.Parent != "" {
			s.steps[r.Parent] = append(s.steps[r.Parent], r)
		} else if id := r.Task(); id != 0 && s.rows[id] == nil {
			s.rows[id] = r
		}
	}
	for _, id := range heartbeat.Components {
		if b, err := heartbeat.Read(h.Dir, id); err == nil {
			s.beats[id] = b
		}
	}
	return s, errors.Join(s.readInbox(), s.readFailed())
}

func (s *situation) readInbox() error {
	files, err := s.home.Box.List(inbox.NewTasks)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := s.home.Box.Read(f)
		if err != nil {
			continue // settled meanwhile
		}
		if c, err := drop.ParseCreate(data); err == nil {
			s.waiting[c.Task.ID] = f.Info.ModTime()
			s.dropped = append(s.dropped, c)
		}
	}
	return nil
}

func (s *situation) readFailed() error {
	names, err := s.home.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := s.home.Box.ReadSettled(inbox.FailedDir, name)
		if err != nil || f.Object == nil || f.Result.Inbox != inbox.NewTasks {
			continue
		}
		if id := f.TaskID(); id != 0 {
			s.failed[id] = f
		}
	}
	return nil
}

// why finds the reason for one task.
func (s *situation) why(id pipeline.TaskID) (reason, error) {
	rec, err := s.home.Store.Load(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return reason{}, err
	}
	row := s.rows[id]
	switch {
	case rec == nil && row == nil:
		return s.unknown(id)
	case rec == nil:
		return at(toAgent, time.Unix(row.Created, 0), "stands on the board, but not in otm's records; the next pass takes it up", s.mend(heartbeat.Dispatcher)), nil
	case !rec.OnBoard():
		return s.comingOnBoard(rec), nil
	case rec.ArchivedAt != nil && row == nil:
		return at(isOver, *rec.ArchivedAt, "archived "+s.ago(*rec.ArchivedAt), "otm history "+id.String()), nil
	case rec.GoneAt != nil:
		return at(isLost, *rec.GoneAt, "somebody deleted or archived its row on the board, seen "+s.ago(*rec.GoneAt)+": it is left alone and not made again", "restore the row on the board to go on"), nil
	case row == nil:
		return at(isLost, lastEvent(rec), "its row is not on the board as it was last read: somebody deleted or archived it", "restore the row on the board, or leave it: otm never makes it again"), nil
	}
	return s.byStatus(rec, row), nil
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
		return at(isUnknown, time.Time{}, "the id was taken, but no task bears it: its otm-create was stopped before it had dropped and printed it", ""), nil
	}
	return at(isUnknown, time.Time{}, "was never issued", "otm list"), nil
}

// comingOnBoard is for a task that does not stand on the board completely.
func (s *situation) comingOnBoard(rec *pipeline.Record) reason {
	since := rec.CreatedAt
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
		next := "add [agents." + safe.Quote(row.Assignee) + "] to " + safe.Quote(filepath.Join(s.home.Dir, "otm.toml"))
		if near := s.home.Config.Agents.Nearest(row.Assignee); near != "" {
			next += ", or assign it to " + near
		}
		return at(toAgent, since, fmt.Sprintf("unknown agent %q", row.Assignee), next)
	case !agent.Person && !isDir(agent.Workspace):
		return at(toAgent, since, fmt.Sprintf("the workspace of %s is missing: %s", agent.Name, agent.Workspace), "mkdir -p "+safe.Quote(agent.Workspace))
	}
	return at(toAgent, since, "waits for the dispatcher's next pass"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// assigned is for a task that stands in its agent's dispatch file.
func (s *situation) assigned(rec *pipeline.Record, row *pipeline.Row, agent *pipeline.Agent, since time.Time) reason {
	name := row.Assignee
	if agent != nil {
		name = agent.Name
	}
	if d := rec.Dispatch; d != nil && d.TakenAt != nil {
		return at(atWork, *d.TakenAt, fmt.Sprintf("taken by %s %s, nothing reported yet", name, s.ago(*d.TakenAt)), s.silence(rec, agent))
	}
	if agent == nil {
		return at(toAgent, since, fmt.Sprintf("unknown agent %q", row.Assignee), "assign it to somebody who is configured")
	}
	next := "otm next --agent " + safe.Quote(agent.Name)
	wake := s.lastWake(agent)
	dispatched := fmt.Sprintf("dispatched to %s %s", name, s.ago(since))
	switch {
	case agent.Trigger == pipeline.TriggerNone:
		return at(toTake, since, dispatched+", not taken: it looks by itself", "tell "+name+" to run: "+next)
	case s.busyWith(agent, rec.TaskID) != 0:
		return at(toTake, since, fmt.Sprintf("%s, waiting behind %v, at which %s works", dispatched, s.busyWith(agent, rec.TaskID), name), "")
	case wake == nil:
		return at(toTake, since, dispatched+", not woken yet"+s.trouble(heartbeat.Dispatcher), s.mend(heartbeat.Dispatcher))
	case wake.Refused != "":
		return at(toTake, since, fmt.Sprintf("%s; the wake was refused %s: %s", dispatched, s.ago(wake.AskedAt), wake.Refused), "mend that; the next pass wakes again")
	case wake.Accepted == nil:
		return at(toTake, since, fmt.Sprintf("%s; no answer to the wake of %s", dispatched, s.ago(wake.AskedAt)), "is the gateway running?")
	case wake.Exit != "":
		return at(toTake, since, fmt.Sprintf("%s; woken %s, ended (%s) and not taken", dispatched, s.ago(*wake.Accepted), wake.Exit), "look into the agent's log; it should run: "+next)
	}
	return at(toTake, since, fmt.Sprintf("%s, woken %s, not taken", dispatched, s.ago(*wake.Accepted)), fmt.Sprintf("it is woken again after %v; by hand: %s", s.home.Config.Times.RewakeAfter, next))
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
	sentence := fmt.Sprintf("%s is at it, %d of %d steps open, last heard %s", orNone(row.Assignee, "somebody"), open, len(steps), s.ago(heard))
	if open > 0 {
		return at(atWork, heard, sentence, s.silence(rec, agent))
	}
	if rec.Dispatch != nil && rec.Dispatch.AllTicked {
		return at(atWork, heard, "sent back with all steps ticked: the agent has to say agent_done by itself, last heard "+s.ago(heard), s.silence(rec, agent))
	}
	return at(atWork, heard, "all steps are done; waits for the completion detector"+s.trouble(heartbeat.Detector), s.mend(heartbeat.Detector))
}

// silence says what to do about an agent that has not been heard of.
func (s *situation) silence(rec *pipeline.Record, agent *pipeline.Agent) string {
	if agent == nil || agent.Person || s.now.Sub(dispatch.LastHeard(rec)) < s.home.Config.Times.SilentAfter {
		return ""
	}
	return "look at the agent; it is woken again if other tasks wait, or set this one to new on the board"
}

// lastWake is the last wake of an agent, for whichever of its tasks.
func (s *situation) lastWake(agent *pipeline.Agent) *pipeline.Wake {
	var last *pipeline.Wake
	for id, row := range s.rows {
		if a := s.home.Config.Agents.Assigned(row.Assignee); a == nil || a.Name != agent.Name {
			continue
		}
		rec, err := s.home.Store.Load(id)
		if err != nil {
			continue
		}
		for i := range rec.Wakes {
			if w := &rec.Wakes[i]; w.Agent == agent.Name && (last == nil || w.AskedAt.After(last.AskedAt)) {
				last = w
			}
		}
	}
	return last
}

// busyWith is the other task that an agent has taken and not finished; 0 where
// there is none.
func (s *situation) busyWith(agent *pipeline.Agent, but pipeline.TaskID) pipeline.TaskID {
	for id, row := range s.rows {
		if a := s.home.Config.Agents.Assigned(row.Assignee); id == but || a == nil || a.Name != agent.Name || !row.CurrentStatus().Active() {
			continue
		}
		rec, err := s.home.Store.Load(id)
		if err == nil && rec.Dispatch != nil && rec.Dispatch.TakenAt != nil && rec.Unfinished() {
			return id
		}
	}
	return 0
}

// injectorTrouble says what keeps the injector.
func (s *situation) injectorTrouble() string {
	for _, l := range s.snap.Limits {
		if l.Method == "slackLists.items.create" || l.Method == "slackLists.items.list" {
			return fmt.Sprintf("; the board has limited %s until %s", l.Method, l.Until.UTC().Format("15:04:05Z"))
		}
	}
	return s.trouble(heartbeat.Injector)
}

// trouble says that a component is stale or in trouble; "" where it is well.
func (s *situation) trouble(id string) string {
	b := s.beats[id]
	switch state := heartbeat.Judge(b, s.now); {
	case b == nil:
		return "; " + id + " has never run here"
	case state == heartbeat.Yellow, state == heartbeat.Red:
		return fmt.Sprintf("; %s has not run since %s", id, s.ago(b.LastRun))
	case b.Result != heartbeat.Success:
		return "; " + id + " says: " + b.Details
	}
	return ""
}

// mend is what to do about a component that does not run; "" where it does.
func (s *situation) mend(id string) string {
	switch heartbeat.Judge(s.beats[id], s.now) {
	case heartbeat.NotInstalled, heartbeat.Red, heartbeat.Yellow:
		return "otm up"
	}
	return ""
}

func (s *situation) ago(t time.Time) string { return age(s.now.Sub(t)) + " ago" }

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
