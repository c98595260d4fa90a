package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"otm/core"
	"otm/internal/explain"
	incidents "otm/internal/incident"
	"otm/pipeline"
)

// Line is a line of a task's history, as people read it.
type Line struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
	Words  bool      `json:"words,omitempty"` // somebody wrote the detail: the line is one of the task's thread
}

// Said is what happened, with its detail.
func (l Line) Said() string {
	if l.Detail == "" {
		return l.What
	}
	return l.What + " (" + l.Detail + ")"
}

// Lines is the history that events tell. Events that say nothing to a person have no
// line.
func Lines(events []core.Event) []Line {
	var lines []Line
	for i := range events {
		e := &events[i]
		if old, ok := e.Data.(core.Imported); ok {
			for _, l := range old.Lines {
				lines = append(lines, Line{At: l.At, Who: l.Who, What: l.What, Detail: l.Detail})
			}
			continue
		}
		for _, said := range say(e) {
			lines = append(lines, Line{e.At, e.By.String(), said[0], said[1], hasWords(e)})
		}
	}
	return lines
}

// hasWords reports whether an event belongs to the thread of its task: somebody wrote a
// message, a question, a result or an answer.
func hasWords(e *core.Event) bool {
	switch data := e.Data.(type) {
	case core.Said, core.Noted:
		return true
	case core.RunFailed:
		return data.Failure.Words != ""
	case core.EditedByPerson:
		return data.Field == pipeline.FieldReason && data.Step == 0
	}
	return false
}

// said is what happened, and its detail.
type said [2]string

// Words puts an event into one line, also one that has no line in a task's history.
func Words(e *core.Event) string {
	if words := HistoryWords(e); words != "" {
		return words
	}
	s := sayMore(e)
	return Line{What: s[0], Detail: s[1]}.Said()
}

// HistoryWords puts an event into one line; "": it has none in a task's history.
func HistoryWords(e *core.Event) string {
	return strings.Join(pipeline.Map(Lines([]core.Event{*e}), Line.Said), "; ")
}

// say puts an event into words.
func say(e *core.Event) []said {
	switch data := e.Data.(type) {
	case core.TaskRequested:
		return requested(e, &data)
	case core.RowFound:
		return []said{{"row found", data.Row}}
	case core.TaskMoved:
		what := "status"
		if e.By.Kind == core.Person || e.By.Kind == core.Board {
			what = "changed status"
		}
		return []said{{what, fmt.Sprintf("%s to %s", data.From, data.To)}}
	case core.StepDone:
		return []said{{ticked(e, &data), data.Title}}
	case core.Noted:
		return words(data.Reason, data.Result)
	case core.Said:
		return []said{{"said", data.String()}}
	case core.ReportFailed:
		return []said{{"update failed", data.Drop + ": " + data.Why}}
	case core.EditedByPerson:
		return []said{edited(&data)}
	case core.Approved:
		return []said{{"approved", ""}}
	case core.StepAdded:
		return []said{{"step added", data.Title}}
	case core.StepGone:
		return []said{{"step deleted", data.Title}}
	case core.RowGone:
		return []said{{"row gone", data.Row}}
	case core.RowBack:
		if data.Archive {
			return []said{{"back from the archive", data.Row}}
		}
		return []said{{"row back", data.Row}}
	case core.BoardWritten:
		if data.Row != "" {
			return []said{{"row created", data.Row}}
		}
	case core.ReconciliationDrift:
		return []said{drifted(&data)}
	case core.Archived:
		return []said{{"archived", ""}}
	case core.IncidentOpened:
		if data.Severity > 0 {
			return []said{{"incident opened", incident(data.Incident, &data.Found, e.At)}}
		}
	case core.IncidentClosed:
		if data.Severity > 0 {
			return []said{{"incident closed", incident(data.Incident, &data.Found, e.At)}}
		}
	}
	return sayRun(e)
}

// sayRun puts an event about dispatches, wakes and runs into words.
func sayRun(e *core.Event) []said {
	switch data := e.Data.(type) {
	case core.HandedOut:
		if data.Attempt > 1 {
			return []said{{"dispatched again", fmt.Sprintf("%s, attempt %d", data.Agent, data.Attempt)}}
		}
	case core.Acknowledged:
		switch {
		case data.Again || data.By == core.TakenByUpdate:
		case data.By == core.TakenByFile:
			return []said{{"taken", "marked in the dispatch file"}}
		default:
			return []said{{"taken", string(data.By)}}
		}
	case core.TakenAway:
		return []said{{"taken from its agent", data.Agent + ", which is to be told"}}
	case core.Notified:
		if data.Loss {
			return []said{{"told that it was taken away", fmt.Sprintf("%s, %s %s", data.Agent, data.Via, data.Key)}}
		}
		return []said{{"woken", fmt.Sprintf("%s, %s %s", data.Agent, data.Via, data.Key)}}
	case core.WakeFailed:
		if data.Refused != "" {
			return []said{{"wake refused", data.Refused}}
		}
	case core.RunStarted:
		if data.Run > 1 || data.Again {
			return []said{{"run began", fmt.Sprintf("run %d, of %s", data.Run, data.Agent)}}
		}
	case core.RunFailed:
		what := "run failed"
		if data.Failure.Free { // it got on, or asked for a later start: no failure counts
			what = "run ended unfinished"
		}
		return []said{{what, fmt.Sprintf("run %d: %v", data.Run, &data.Failure)}}
	case core.RetryScheduled:
		return []said{{"to be tried again", fmt.Sprintf("run %d, not before %s", data.Run, explain.Time(data.Wait.Until))}}
	case core.RetryAdvised:
		switch {
		case data.Failed != "":
			return []said{{"no advice on the retry", data.Failed}}
		case data.Skip:
			return []said{{"no retry, by advice", data.Text}}
		case data.Text != "":
			return []said{{"advice on the retry", data.Text}}
		}
	case core.CountReset:
		return []said{{"count of failed runs restarted", ""}}
	case core.StartEnded:
		switch { // whether the run of the task failed by it, RunFailed says
		case data.Process:
			return []said{{"ended", "process of " + data.Agent + ": " + data.Exit}}
		case data.Outcome.Failed():
			return []said{{"ended", "turn of " + data.Agent + ": " + data.Exit}}
		}
	}
	return nil
}

// sayMore puts an event into words that has no line in a task's history.
func sayMore(e *core.Event) said {
	switch data := e.Data.(type) {
	case core.AuditPosted:
		return said{"thread begun in the audit channel", data.Link}
	case core.DuplicateSkipped:
		return said{"dropped again, and skipped", data.Drop}
	case core.Noted:
		return said{"reported", data.Drop}
	case core.BoardWritten:
		return said{"written to the board", ""}
	case core.HandedOut:
		return said{"handed out", fmt.Sprintf("%s, attempt %d", data.Agent, data.Attempt)}
	case core.WorkspaceMoved:
		return said{"its agent works elsewhere now", data.Workspace}
	case core.Acknowledged:
		if data.Again {
			return said{"given again", string(data.By)}
		}
		return said{"taken", string(data.By)}
	case core.Queued:
		return said{"waits in the queue of its agent", ""}
	case core.WakeBegun:
		return said{"about to be woken", fmt.Sprintf("%s, %s %s", data.Wake.Agent, data.Wake.Via, data.Wake.Key)}
	case core.WakeFailed:
		return said{"wake not sent", data.Key}
	case core.RunStarted:
		return said{"run began", fmt.Sprintf("run %d, of %s", data.Run, data.Agent)}
	case core.RunSucceeded:
		return said{"run succeeded", fmt.Sprintf("run %d", data.Run)}
	case core.RunPaused:
		return said{"run paused", fmt.Sprintf("run %d", data.Run)}
	case core.RunCanceled:
		return said{"run ended", fmt.Sprintf("run %d, as the task was taken away", data.Run)}
	case core.StartUnknown:
		return said{"nobody knows how the run ended", data.Key}
	case core.StartEnded:
		return said{"ended", "turn of " + data.Agent + ": " + cmp.Or(data.Exit, string(data.Outcome), "nobody saw how")}
	case core.AgentChanged:
		return agentChanged(&data)
	case core.RetryAdvised:
		return said{"no advice on the retry", ""}
	case core.Started:
		return started(&data)
	case core.StepRepeated:
		return said{"step reported again", fmt.Sprintf("step %d, by %s", data.Step, data.Drop)}
	case core.DayEnded:
		return said{"a day with incidents ended", explain.Time(data.To)}
	case core.IncidentOpened:
		return said{"worth noting", incident(data.Incident, &data.Found, e.At)}
	case core.IncidentClosed:
		return said{"no longer worth noting", incident(data.Incident, &data.Found, e.At)}
	case core.IncidentCorrected:
		switch {
		case data.Did != "":
			return said{data.Did, fmt.Sprintf("I-%d", data.Incident)}
		case data.Cause != "":
			return said{"cause of an incident", fmt.Sprintf("I-%d: %s", data.Incident, data.Cause)}
		}
		return said{"incident became worse", incident(data.Incident, &data.Found, e.At)}
	case core.Imported:
		return said{"taken over from format 1", ""}
	}
	return said{e.Type(), ""}
}

// incident names an incident and says what was found.
func incident(id int64, f *core.Found, at time.Time) string {
	found := incidents.Finding(f)
	return fmt.Sprintf("I-%d: %s", id, explain.Sentence(&found, at))
}

// started says what started, and what was there.
func started(s *core.Started) said {
	what := "the " + s.What + " started"
	if s.Version != "" {
		what += ", version " + s.Version
	}
	there := []string{explain.Count(len(s.Agents), "agent", "agents")}
	for _, some := range []struct {
		say   string
		names []string
	}{{"added", s.Added}, {"removed", s.Removed}} {
		if len(some.names) > 0 {
			there = append(there, some.say+" "+strings.Join(some.names, ", "))
		}
	}
	for _, status := range pipeline.Statuses {
		if n := s.Tasks[status]; n > 0 {
			there = append(there, fmt.Sprintf("%d %s", n, status))
		}
	}
	if len(s.Runs) > 0 {
		there = append(there, explain.Count(len(s.Runs), "open run", "open runs"))
	}
	if len(s.Wakes) > 0 {
		there = append(there, explain.Count(len(s.Wakes), "outstanding wake", "outstanding wakes"))
	}
	if len(s.Lost) > 0 {
		there = append(there, explain.Count(len(s.Lost), "run was lost", "runs were lost"))
	}
	return said{what, strings.Join(there, "; ")}
}

// agentChanged says why the state of an agent changed, and what keeps it from being started
// now.
func agentChanged(c *core.AgentChanged) said {
	what := map[core.AgentChange]string{
		core.StartJudged: "a run ended", core.Reconfigured: "its configuration or program changed", core.Resumed: "resumed", core.Paused: "paused",
		core.Forgiven: "its failures are forgotten", core.Observed: "looked at", core.Answered: "the gateway answered a wake",
	}[c.Why]
	s := &c.State
	var now []string
	if c.Why == core.Paused && s.Paused != nil {
		now = append(now, s.Paused.Reason)
	}
	if s.Failures > 0 {
		now = append(now, fmt.Sprintf("%d failed in a row", s.Failures))
	}
	if !s.LeftAlone.IsZero() {
		now = append(now, "left alone")
	}
	if !s.NextStart.IsZero() {
		now = append(now, "not started before "+explain.Time(s.NextStart))
	}
	return said{cmp.Or(what, string(c.Why), "changed"), strings.Trim(strings.Join(now, ", "), ", ")}
}

func requested(e *core.Event, r *core.TaskRequested) []said {
	all := []said{{"typed on the board", ""}}
	switch {
	case r.Drop != "" && r.Claims != "":
		all[0] = said{"dropped", fmt.Sprintf("%s, which claims to be by %q", r.Drop, r.Claims)}
	case r.Drop != "":
		all[0] = said{"dropped", r.Drop}
	case r.Claims != "":
		all[0] = said{"created", fmt.Sprintf("over the API, with the token %q", r.Claims)}
	}
	if r.Drop != "" && r.Status != pipeline.New {
		all = append(all, said{"status", fmt.Sprintf("%s to %s", pipeline.New, r.Status)}, said{"reason", r.Reason})
	}
	return all
}

func ticked(e *core.Event, d *core.StepDone) string {
	switch {
	case !d.Done:
		return "opened a step again"
	case e.By.Kind == core.Agent || e.By.Kind == core.Worker:
		return "step done"
	}
	return "ticked a step"
}

func words(reason, result *string) []said {
	var all []said
	if reason != nil && *reason != "" {
		all = append(all, said{"reason", *reason})
	}
	if result != nil {
		all = append(all, said{"result", *result})
	}
	return all
}

func edited(p *core.EditedByPerson) said {
	switch {
	case p.Step != 0:
		return said{"renamed a step", p.From + " to " + p.To}
	case p.Field == pipeline.FieldAssignee:
		return said{"assigned", "to " + p.To}
	case p.Field == pipeline.FieldReason && p.Means != "":
		return said{p.Means, p.To}
	case p.Field == pipeline.FieldReason:
		return said{"reason", p.To}
	}
	return said{"changed " + string(p.Field), "to " + p.To}
}

func drifted(f *core.ReconciliationDrift) said {
	var fields []string
	for _, field := range f.Fields {
		if field == pipeline.FieldTaskID {
			return said{"task id written back", f.Was}
		}
		fields = append(fields, string(field))
	}
	for _, step := range f.Steps {
		fields = append(fields, fmt.Sprintf("title of step %d", step))
	}
	return said{"repaired", strings.Join(fields, ", ")}
}
