package inject

import (
	"errors"
	"fmt"
	"strings"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// errNotDispatched says that an AI agent's task is still new: its update waits
// until the dispatcher has handed the task out.
var errNotDispatched = errors.New("task is not dispatched yet")

// refusal is why an update cannot apply.
type refusal struct {
	class  inbox.Class
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(class inbox.Class, format string, args ...any) error {
	return &refusal{class, fmt.Sprintf(format, args...)}
}

// decide turns an update into what to write, by the state of the task in its
// record. The error is errNotDispatched or a *refusal. No update applies in part.
func decide(rec *pipeline.Record, person bool, u *drop.Update) (*pipeline.Report, error) {
	from := rec.Status
	if from == pipeline.New && !person {
		return nil, errNotDispatched
	}
	steps, err := findSteps(rec, u.StepsDone)
	if err != nil {
		return nil, err
	}
	report := &pipeline.Report{ID: u.ID, Status: u.Status, Steps: steps}
	if u.Reason != "" {
		report.Reason = &u.Reason
	}
	if u.Result != "" {
		report.Result = &u.Result
	}
	if from == pipeline.AgentDone {
		return report, decideReviewed(rec, report)
	}
	if !from.Active() && from != pipeline.New {
		return nil, refuse(inbox.Conflict, "%s: an update changes nothing any more", whoSet(rec))
	}
	if report.Status == "" && len(u.StepsDone) > 0 && (from == pipeline.Assigned || from == pipeline.New) {
		report.Status = pipeline.InProgress
	}
	if report.Status != "" && !pipeline.CanReport(from, report.Status, person) {
		return nil, refuse(inbox.Conflict, "%s: cannot become %s", whoSet(rec), report.Status)
	}
	if leaves := from == pipeline.Blocked && report.Status != "" && report.Status != from; leaves && report.Reason == nil {
		none := ""
		report.Reason = &none
	}
	return report, nil
}

// decideReviewed allows what may still be reported at agent_done: a reason, a
// result, and what the task shows already.
func decideReviewed(rec *pipeline.Record, report *pipeline.Report) error {
	if report.Status != "" && report.Status != pipeline.AgentDone {
		return refuse(inbox.Conflict, "%s: cannot become %s", whoSet(rec), report.Status)
	}
	if len(report.Steps) > 0 {
		return refuse(inbox.Conflict, "%s: step %q stays open", whoSet(rec), rec.Steps[report.Steps[0]].Title)
	}
	return nil
}

// findSteps returns the indexes of the reported steps that are not ticked yet.
// Equal titles are ticked one at a time, in order.
func findSteps(rec *pipeline.Record, reported []string) ([]int, error) {
	steps := rec.PlainSteps()
	var found []int
	for _, title := range reported {
		i := pipeline.FindStep(steps, title)
		if i < 0 {
			return nil, refuse(inbox.Unmatched, "no step of %v matches %q; %s", rec.TaskID, title, listSteps(steps, title))
		}
		if !steps[i].Done {
			steps[i].Done = true
			found = append(found, i)
		}
	}
	return found, nil
}

func listSteps(steps []pipeline.Step, reported string) string {
	var b strings.Builder
	b.WriteString("its steps are")
	for i, s := range steps {
		fmt.Fprintf(&b, " %d %q", i+1, s.Title)
	}
	if i := pipeline.NearestStep(steps, reported); i >= 0 {
		fmt.Fprintf(&b, "; nearest: %q", steps[i].Title)
	}
	return b.String()
}

// whoSet names the state of a task, who set it and when.
func whoSet(rec *pipeline.Record) string {
	if e := rec.LastMove(rec.Status); e != nil {
		return fmt.Sprintf("%v is %s (%s set it at %s)", rec.TaskID, rec.Status, e.Who, e.At.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return fmt.Sprintf("%v is %s", rec.TaskID, rec.Status)
}
