package why

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"otm/core"
	"otm/core/outbox"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// stateless is for an id that the store does not know, and that, unless its create
// waits, no row bears.
func stateless(v *view.View, t *view.Task) (draft, error) {
	if c := t.Create; c != nil {
		return at(InInbox, c.At, explain.TaskInInbox, "since", c.At).and(rowTrouble(v, t, heartbeat.Injector)...), nil
	}
	if t.FailedCreate != nil {
		return failed(v, t.FailedCreate), nil
	}
	d, err := nowhere(v, t.ID)
	if err == nil && len(v.Unread) > 0 {
		d = d.plus(explain.FileUnread, "error", v.Unread[0])
	}
	return d, err
}

// nowhere is for an id that stands nowhere.
func nowhere(v *view.View, id pipeline.TaskID) (draft, error) {
	drops, err := inbox.Drops(v.Dir)
	if err != nil {
		return draft{}, err
	}
	if _, settled := drops[id]; settled {
		return at(IsLost, time.Time{}, explain.TaskVanished), nil
	}
	issued, err := counter.Open(v.Dir, nil).Issued(id)
	switch {
	case err != nil:
		return draft{}, err
	case issued:
		return at(IsUnknown, time.Time{}, explain.TaskUnused), nil
	}
	return at(IsUnknown, time.Time{}, explain.TaskUnknown), nil
}

// OfFile finds the reason why a drop failed, and what to do about it.
func OfFile(v *view.View, f *view.Failure) Reason {
	if f.Err != nil {
		return at(InFailed, time.Time{}, explain.DropUnread, "error", f.Err, "path", filepath.Join(v.Dir, inbox.FailedDir, f.Name)).reason(0, v.Now)
	}
	return failed(v, &f.Settled).reason(f.TaskID(), v.Now)
}

// failed is for a drop that failed.
func failed(v *view.View, f *inbox.Settled) draft {
	return draft{stage: InFailed, since: f.Result.At}.and(failure(v, f))
}

// failure says why a drop failed. One that contradicts its task fails again unless that
// changes.
func failure(v *view.View, f *inbox.Settled) explain.Finding {
	code := map[bool]map[inbox.Class]explain.Code{
		false: {inbox.Conflict: explain.CreateConflict, inbox.Invalid: explain.CreateInvalid},
		true:  {inbox.Conflict: explain.UpdateConflict, inbox.Invalid: explain.UpdateInvalid},
	}
	isUpdate := f.Result.Inbox == inbox.TaskUpdates
	other := explain.CreateFailed
	if isUpdate {
		other = explain.UpdateFailed
	}
	return explain.New(cmp.Or(code[isUpdate][f.Result.Class], other), "at", f.Result.At, "class", f.Result.Class, "error", f.Result.Error, "file", f.Name,
		"path", filepath.Join(v.Dir, inbox.FailedDir, f.Name))
}

// comingOnBoard is for a task that does not stand on the board completely.
func comingOnBoard(v *view.View, t *view.Task) draft {
	task := t.State
	if task.DropID == "" { // typed, and its row is not shown
		return at(ToBoard, task.CreatedAt, explain.RowHalfTaken).and(rowTrouble(v, t, heartbeat.Dispatcher)...)
	}
	if f := t.FailedCreate; f != nil && (t.Create == nil || f.Result.At.After(t.LastEvent())) {
		return failed(v, f)
	}
	d := at(ToBoard, task.CreatedAt, explain.RowNotMade)
	p := t.Waits(core.SinkBoard)
	switch {
	case task.RowID != "":
		made := 0
		for _, step := range task.Steps {
			if step.RowID != "" {
				made++
			}
		}
		d = at(ToBoard, task.CreatedAt, explain.StepsMade, "made", made, "all", len(task.Steps))
	case p != nil && !p.AskedAt.IsZero() && v.Now.Sub(p.AskedAt) <= v.Times.SettleAfter:
		d = at(ToBoard, task.CreatedAt, explain.RowComing, "since", p.AskedAt)
	case p != nil && !p.AskedAt.IsZero():
		d = at(ToBoard, task.CreatedAt, explain.RowAsked, "at", p.AskedAt)
	}
	return d.and(undelivered(t)...).and(rowTrouble(v, t, heartbeat.Injector)...)
}

// undelivered says which effects of a task failed to be delivered, and why.
func undelivered(t *view.Task) []explain.Finding {
	var found []explain.Finding
	for _, p := range t.Pending {
		if p.Error != "" {
			found = append(found, outbox.Finding(p))
		}
	}
	return found
}

// withUpdates adds the last message on a task, and what is to be said about its updates
// that did not reach the board.
func withUpdates(v *view.View, d draft, t *view.Task) draft {
	if d.stage == IsOver {
		return d
	}
	if t.State != nil && t.State.LastMessage != nil {
		m := t.State.LastMessage
		d = d.plus(explain.LastSaid, "by", m.By.String(), "at", m.At, "text", core.Excerpt(m.String()))
	}
	if n := len(t.Updates); n > 0 {
		since := slices.MinFunc(t.Updates, time.Time.Compare)
		d = d.plus(explain.UpdatesWait, "n", n, "since", since).and(trouble(v, t, heartbeat.Injector)...)
		limit, _ := usual(InInbox, v.Times)
		d.late = d.late || v.Now.Sub(since) > limit
	}
	if n := len(t.FailedUpdates); n > 0 {
		f := t.FailedUpdates[n-1]
		d = d.and(failure(v, f))
		d.late = d.late || t.State == nil || !heardAfter(t.State, f.Result.At)
	}
	return d
}

// heardAfter reports whether an agent said something about a task after a time that did
// not fail.
func heardAfter(task *core.Task, t time.Time) bool {
	for _, h := range task.Heard {
		if h.At.After(t) {
			return true
		}
	}
	return false
}

// typed is for a row that a person typed and that is no task yet. Its state is
// that of its adoption, if that has begun.
func typed(v *view.View, t *view.Task, row *pipeline.Row) draft {
	task := t.State
	since := v.LastEdit(row)
	status := row.CurrentStatus()
	switch {
	case status.Over():
		return at(IsOver, since, explain.RowOver, "status", status)
	case row.Odd:
		return at(ToAgent, since, explain.RowOdd)
	case row.Title == "":
		return at(WithHuman, since, explain.RowUntitled)
	case row.Assignee == "":
		return at(WithHuman, since, explain.RowUnassigned)
	case row.TaskID != "" && row.Task() == 0:
		return at(ToAgent, since, explain.RowBadID, "cell", row.TaskID)
	case v.Agents.Assigned(row.Assignee) == nil && !pipeline.IsSharedQueue(row.Assignee):
		return at(ToAgent, since, explain.RowStranger, "name", row.Assignee, "config", configPath(v), "names", view.AgentNames(v))
	case task == nil && row.Task() != 0 && status != pipeline.New:
		return at(ToAgent, since, explain.RowNoRecord, "status", status).and(trouble(v, t, heartbeat.Dispatcher)...)
	case status != pipeline.New:
		return at(ToAgent, since, explain.RowNotNew, "status", status)
	}
	still := v.Times.AdoptAfter
	wait := since.Add(still).Sub(v.Now)
	switch {
	case 0 < wait && wait <= 2*still: // else the board's clock is not ours
		return at(ToAgent, since, explain.RowSettling, "since", since, "still", still)
	case task == nil:
		return at(ToAgent, since, explain.RowTyped).and(rowTrouble(v, t, heartbeat.Dispatcher)...)
	}
	return at(ToAgent, since, explain.RowHalfTaken).and(rowTrouble(v, t, heartbeat.Dispatcher)...)
}

// unknownAgent is for a task whose agent is not configured.
func unknownAgent(v *view.View, row *pipeline.Row, since time.Time) draft {
	near := v.Agents.Nearest(row.Assignee)
	code := explain.AgentUnknown
	if near != "" {
		code = explain.AgentGuessed
	}
	return at(ToAgent, since, code, "name", row.Assignee, "config", configPath(v), "near", near, "names", view.AgentNames(v))
}

// withoutAgent adds that nobody can work on a task, as its agent is not configured.
func withoutAgent(v *view.View, d draft, t *view.Task) draft {
	if name := t.Row.Assignee; len(v.Agents) == 0 || t.Agent != nil || name == "" || pipeline.IsSharedQueue(name) || !t.Status().NeedsAgent() {
		return d
	}
	return d.and(unknownAgent(v, t.Row, d.since).findings...).isLate()
}

// stranger is for a row that is no task's: typed, or copied with its id.
func stranger(v *view.View, t *view.Task) draft {
	row := t.Row
	if id := row.Task(); id != 0 && !row.CurrentStatus().Over() {
		return at(ToAgent, v.LastEdit(row), explain.RowCopied, "other", id)
	}
	return typed(v, t, row)
}

// withOddRow adds what is wrong with the row of a task.
func withOddRow(v *view.View, d draft, t *view.Task) draft {
	title := ""
	if t.Other != nil {
		title = t.Other.Title
	}
	switch changed := t.Row.Task() != t.ID; {
	case changed && t.Other != nil:
		d = d.plus(explain.RowIDTaken, "title", title)
	case changed:
		d = d.plus(explain.RowIDChanged).and(trouble(v, t, heartbeat.Dispatcher)...)
	case t.Other != nil:
		d = d.plus(explain.RowIDTwice, "title", title)
	}
	if !t.State.GoneAt.IsZero() {
		d = d.plus(explain.RowBack).and(trouble(v, t, heartbeat.Dispatcher)...)
	}
	return d
}

// withoutRow is for a task whose row is not on the board. A board that was
// exchanged in otm.toml looks the same: no task says of which board its row is.
//
// A snapshot that was read before the row was made, or so soon after that a walk
// need not show it, says nothing about the row.
func withoutRow(v *view.View, t *view.Task) draft {
	task := t.State
	over := task.Status.Finished()
	switch {
	case !task.ArchivedAt.IsZero():
		return at(IsOver, task.ArchivedAt, explain.TaskArchived, "at", task.ArchivedAt)
	case !task.GoneAt.IsZero() && over:
		return at(IsOver, task.GoneAt, explain.RowGoneOver, "status", task.Status, "at", task.GoneAt)
	case !task.GoneAt.IsZero():
		return withBearer(at(IsLost, task.GoneAt, explain.RowGone, "at", task.GoneAt), t)
	case over:
		return at(IsOver, t.LastEvent(), explain.RowAwayOver, "status", task.Status)
	}
	if made := task.CreatedAt; !v.WalkAt.After(made.Add(v.Times.SettleAfter)) {
		return at(ToBoard, made, explain.RowComing, "since", made).and(trouble(v, t, heartbeat.Injector)...)
	}
	return withBearer(at(IsLost, t.LastEvent(), explain.RowAway), t)
}

// withBearer adds that another row bears the id of a task whose own row is gone: a person
// may have typed it to bring the task back, and it becomes none while it has that id.
func withBearer(d draft, t *view.Task) draft {
	if t.Other == nil {
		return d
	}
	return d.plus(explain.RowIDTwice, "title", t.Other.Title)
}

// byStatus is for a task that stands on the board.
func byStatus(v *view.View, t *view.Task) draft {
	status := t.Status()
	since := t.Since(status)
	by := ""
	if t.State.Status == status && t.State.StatusBy.Kind != "" {
		by = ", set by " + t.State.StatusBy.String()
	}
	switch s := t.State; {
	case core.Claimable(s, v.Now) && pipeline.IsSharedQueue(t.AgentName()):
		if s.Wait != nil && s.Wait.Until.After(since) {
			since = s.Wait.Until
		}
		return at(ToClaim, since, explain.InSharedQueue, "since", since)
	case s.Queued():
		return held(v, toTake(v, t, explain.Queued, t.Since(pipeline.Pending)), t)
	case s.Wait != nil && s.Status == pipeline.Pending:
		return toRetry(v, t)
	}
	switch status {
	case pipeline.New:
		return isNew(v, t, since)
	case pipeline.Assigned:
		if isPersons(t) {
			return personsTurn(t, since)
		}
		return held(v, assigned(v, t, since), t)
	case pipeline.InProgress:
		return held(v, inProgress(v, t, since), t)
	case pipeline.Blocked:
		if s := t.State; s.Question != "" && s.Answered && s.StatusBy.Kind != core.Person && s.StatusBy.Kind != core.Board {
			return at(IsBlocked, since, explain.NotSentOn, "since", since, "question", s.Question, "reason", s.Reason, "agent", s.Agent)
		}
		return at(IsBlocked, since, explain.Blocked, "since", since, "reason", cmp.Or(t.Row.Reason, t.State.Reason, "no reason was given"))
	case pipeline.Failed:
		if run := t.State.Runs.Last(); run != nil && run.Ending == core.EndFailed {
			return at(IsDead, since, explain.DeadLetter, "at", run.Ended, "n", run.Number, "how", howDead(run), "look", look(t.ID, run))
		}
		return at(IsDead, since, explain.SetFailed, "at", since, "by", by, "reason", cmp.Or(t.Row.Reason, t.State.Reason, "nobody said why"))
	case pipeline.AgentDone:
		return at(ToReview, since, explain.ToReview, "since", since)
	case pipeline.Done, pipeline.Cancelled, pipeline.Archived:
		return at(IsOver, since, explain.IsOver, "status", status, "since", since, "by", by)
	case pipeline.Rejected:
		return at(WithHuman, since, explain.Rejected, "since", since, "by", by)
	}
	return at(WithHuman, since, explain.SetAside, "status", status, "since", since, "by", by)
}

// toRetry is for a task that waits for its next run. It begins when the task and its agent need
// wait no more.
func toRetry(v *view.View, t *view.Task) draft {
	run, until := t.State.Runs.Last(), t.State.Wait.Until
	if !t.State.Wait.Waits(v.Now) || run == nil {
		if wrong := missing(v, t); wrong != nil {
			return draft{stage: ToAgent, since: until}.and(*wrong).isLate()
		}
		return at(ToAgent, until, explain.WaitsForPass).and(trouble(v, t, heartbeat.Dispatcher)...)
	}
	var more []explain.Finding
	stopped := false // somebody, or OTM, keeps the agent from being started
	if t.Agent != nil {
		h := v.Agent(t.Agent).Outlook.Health
		stopped = h.AgentState != nil && (h.Paused != nil || !h.LeftAlone.IsZero())
		if at := h.NextRun(t.State, v.Now); at.After(until) {
			until = at
			if !stopped {
				more = append(more, explain.New(explain.AgentHeld, "agent", t.Agent.Name))
			}
		}
	}
	ended := "failed"
	if run.Free {
		ended = "ended unfinished"
	}
	d := at(ToRetry, run.Ended, explain.RetryWaits, "run", run.Number, "ended", ended, "at", run.Ended, "how", run.Failure.String(), "until", until, "look", look(t.ID, run))
	if pipeline.IsSharedQueue(t.AgentName()) {
		d.findings[0].Code = explain.RetryClaim
	}
	if run.Ending == core.EndCanceled {
		d = at(ToRetry, run.Ended, explain.RetryTaken, "run", run.Number, "at", run.Ended, "agent", run.Agent, "until", until)
	}
	if wrong := missing(v, t); wrong != nil { // that run cannot begin
		more = append(more, *wrong)
	}
	d = d.and(more...).and(trouble(v, t, heartbeat.Dispatcher)...)
	if stopped {
		return held(v, d, t)
	}
	return d
}

// look says where to read why a run failed.
func look(id pipeline.TaskID, run *core.Run) string {
	if run.Log == "" {
		return "otm show " + id.String()
	}
	return "tail " + safe.Quote(run.Log)
}

// isNew is for a task that was not handed out.
func isNew(v *view.View, t *view.Task, since time.Time) draft {
	switch {
	case t.Row.Assignee == "":
		return at(WithHuman, since, explain.Unassigned, "names", view.AgentNames(v))
	case pipeline.IsSharedQueue(t.AgentName()): // a person has just put it there
	case t.Agent == nil:
		return unknownAgent(v, t.Row, since)
	}
	if wrong := missing(v, t); wrong != nil {
		return draft{stage: ToAgent, since: since}.and(*wrong)
	}
	return held(v, at(ToAgent, since, explain.WaitsForPass).and(trouble(v, t, heartbeat.Dispatcher)...), t)
}

// missing is what is wrong with the workspace of a task's agent; nil: nothing is.
func missing(v *view.View, t *view.Task) *explain.Finding {
	if t.Agent == nil || t.Agent.Person {
		return nil
	}
	return v.Workspace(t.Agent)
}

// howDead says why a run failed after which no other one follows.
func howDead(run *core.Run) string {
	how := run.Failure.String()
	if run.Advice != nil && run.Advice.Skip {
		how += "; no retry, by advice"
		if run.Advice.Text != "" {
			how += ": " + run.Advice.Text
		}
	}
	return how
}
