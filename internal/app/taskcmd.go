package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/outbox"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/engine"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// taskCommand is a command for tasks: people and reviewers have it, and the page a button.
type taskCommand struct {
	name, short, long string
	from              []pipeline.Status // the statuses in which it works
	to                pipeline.Status   // "": the status stays
	value             string            // what --to takes; "": it has no --to
	reason            string            // what --reason says; "": it has no --reason
	optional          bool              // --reason may be left out
	told              bool              // the agent reads the reason
	steps             bool              // --add-step and --drop-step
	resets            bool              // --reset restarts the count of failed runs
}

var (
	unfinished = []pipeline.Status{pipeline.New, pipeline.Pending, pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Rejected, pipeline.Failed, pipeline.Dormant}
	begun      = []pipeline.Status{pipeline.Pending, pipeline.Assigned, pipeline.InProgress, pipeline.Blocked}
)

// taskCommands are all of them.
var taskCommands = []taskCommand{
	{name: "accept", short: "Accept the result of tasks", from: []pipeline.Status{pipeline.AgentDone}, to: pipeline.Done,
		long: "A task that was given to a person is done with it, whatever its status: nobody else\nreports on it."},
	{name: "reject", short: "Reject the result of tasks, and let them rest", from: []pipeline.Status{pipeline.AgentDone}, to: pipeline.Rejected, reason: "what is not good enough", steps: true,
		long: "The task rests at rejected until otm rework sends it back or otm cancel ends it."},
	{name: "rework", short: "Send tasks back to their agent", from: []pipeline.Status{pipeline.AgentDone, pipeline.Rejected, pipeline.Blocked}, to: pipeline.New, reason: "what is to be done: the agent reads it", told: true, steps: true,
		long: "The agent is woken for the task again, and otm next shows it the reason."},
	{name: "cancel", short: "Cancel tasks", from: unfinished, to: pipeline.Cancelled, reason: "why it is no longer wanted",
		long: "If an agent works on one of them now, OTM ends its process, or tells it at the gateway."},
	{name: "requeue", short: "Hand tasks out again that failed or wait for a retry", from: []pipeline.Status{pipeline.Failed, pipeline.Pending}, to: pipeline.New, resets: true,
		long: "A failed task gets one more run, with --reset as many as a new one. A pending one\nneed not wait for its retry."},
	{name: "release", short: "Take tasks from their agent, and hand them out again", from: begun, to: pipeline.New,
		long: "If the agent works on one of them now, OTM ends its process, or tells it at the gateway."},
	{name: "reopen", short: "Open finished or cancelled tasks again", from: []pipeline.Status{pipeline.Done, pipeline.AgentDone, pipeline.Cancelled}, to: pipeline.New, reason: "why: the agent reads it", optional: true, told: true},
	{name: "dormant", short: "Set tasks aside", from: []pipeline.Status{pipeline.New, pipeline.Pending, pipeline.Assigned, pipeline.Blocked, pipeline.AgentDone, pipeline.Rejected, pipeline.Failed}, to: pipeline.Dormant, reason: "why", optional: true,
		long: "OTM leaves them alone until otm activate. For people only."},
	{name: "activate", short: "Hand tasks out again that were set aside", from: []pipeline.Status{pipeline.Dormant}, to: pipeline.New,
		long: "For people only."},
	{name: "stop", short: "Stop the agent's work on tasks, and set them aside", from: []pipeline.Status{pipeline.Assigned, pipeline.InProgress}, to: pipeline.Dormant, reason: "why", optional: true,
		long: "OTM ends the process in which the agent works on the task now, with all that it\nstarted: by SIGTERM, and by SIGKILL 10 seconds later. Nobody works on the task until otm\nactivate. An agent at the gateway is told, and its turn is aborted where the gateway can;\nwhat it reports is refused. For people only."},
	{name: "block", short: "Hold tasks up", from: []pipeline.Status{pipeline.New, pipeline.Pending, pipeline.Assigned, pipeline.InProgress, pipeline.AgentDone}, to: pipeline.Blocked, reason: "what holds it up"},
	{name: "unblock", short: "Answer blocked agents, and let them go on", from: []pipeline.Status{pipeline.Blocked}, to: pipeline.InProgress, reason: "the answer: the agent reads it", optional: true, told: true,
		long: "The agent is woken at once. otm next shows it the answer, which may also stand after\nthe ids: otm unblock T-00035 'Green.'"},
	{name: "assign", short: "Give tasks to another agent", from: unfinished, value: "AGENT"},
	{name: "priority", short: "Change the priority of tasks", from: unfinished, value: "PRIORITY"},
}

// taskCommandNamed returns the command of a name; nil: there is none.
func taskCommandNamed(name string) *taskCommand {
	return pipeline.Find(taskCommands, func(tc *taskCommand) bool { return tc.name == name })
}

// edits returns what the command changes, by the flags --to and --reason.
func (tc *taskCommand) edits(h *Home, id, value, reason string) (core.Edits, error) {
	e := core.Edits{From: tc.from, Accept: tc.to == pipeline.Done}
	if tc.to != "" {
		e.Status = &tc.to
	}
	switch reason = strings.TrimSpace(reason); {
	case reason == "" && tc.reason != "" && !tc.optional:
		return e, cli.Errorf(cli.Usage, "--reason is missing (%s)", tc.reason).Hint("%s", tc.line(id))
	case reason == "" && tc.name == "unblock":
		e.Reason = &reason // the question is answered without words
	case reason != "":
		if err := checkReason(reason); err != nil {
			return e, err
		}
		e.Reason = &reason
	}
	switch {
	case tc.value == "":
	case value == "":
		return e, cli.Errorf(cli.Usage, "--to is missing").Hint("%s", tc.line(id))
	case tc.name == "assign" && pipeline.IsSharedQueue(value):
		e.Agent = new(pipeline.SharedQueue)
	case tc.name == "assign":
		a := h.Agents().Named(value)
		if a == nil {
			return e, noAgent(h, value, "--to %s")
		}
		e.Agent = &a.Name
	default:
		p, ok := pipeline.ParsePriority(value)
		if !ok {
			near := cmp.Or(pipeline.Nearest(strings.ToLower(value), pipeline.Texts(pipeline.Priorities)), string(pipeline.High))
			return e, cli.Errorf(cli.Usage, "--to %q: there is %s", value, strings.Join(pipeline.Texts(pipeline.Priorities), ", ")).Hint("otm priority %s --to %s", id, near)
		}
		e.Priority = &p
	}
	return e, nil
}

// checkReason refuses a reason that no agent may report.
func checkReason(reason string) error {
	if strings.Trim(reason, "….") == "" { // as a hint that was pasted has it
		return cli.Errorf(cli.Usage, "the reason %q has no words", reason).Hint("write them in its place")
	}
	if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: reason}); err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	return nil
}

// addSteps adds and removes steps with edits. It refuses a title that no step may have.
func addSteps(e *core.Edits, add, remove []string) error {
	e.AddSteps, e.DropSteps = add, remove
	return drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.InProgress, StepsDone: add})
}

// suit adapts edits to their task. A person's own task may be accepted before agent_done,
// and an unblocked task that nobody has is handed out.
func (tc *taskCommand) suit(h *Home, t *core.Task, e core.Edits) core.Edits {
	switch a := h.Agents().Assigned(t.Agent); {
	case tc.name == "accept" && a != nil && a.Person:
		e.From = append([]pipeline.Status{pipeline.New, pipeline.AgentDone}, begun...)
	case tc.name == "unblock" && t.Dispatch == nil:
		e.Status = new(pipeline.New)
	}
	return e
}

// line is the command line for a task.
func (tc *taskCommand) line(id string) string { return tc.lineWith(id, "") }

// lineWith is line with the reason that somebody typed for the agent.
func (tc *taskCommand) lineWith(id, reason string) string {
	line := "otm " + tc.name + " " + id
	if tc.value != "" {
		line += " --to " + tc.value
	}
	switch {
	case tc.told && reason != "":
		line += " --reason " + safe.Quote(reason)
	case tc.reason != "" && !tc.optional:
		line += " --reason '…'"
	}
	return line
}

// command is otm accept, and so on.
func (tc *taskCommand) command(s cli.Streams) *cobra.Command {
	var value, reason string
	var add, remove []string
	var reset bool
	on := "in " + strings.Join(pipeline.Texts(tc.from), ", ")
	if slices.Equal(tc.from, unfinished) {
		on = "that are not done, cancelled or archived"
	}
	c := &cobra.Command{
		Use:     tc.name + " ID...",
		Short:   tc.short,
		Long:    strings.TrimSpace(tc.short + ".\nWorks on tasks " + on + ".\n" + tc.long),
		Example: "  " + tc.line("T-00035"),
		Args:    words(1, many, "no task is named", tc.line("T-00035")),
	}
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, args []string) error {
		args, reason, err := tc.words(args, reason)
		if err != nil {
			return err
		}
		var ids []pipeline.TaskID
		for i := range args {
			id, err := taskArg(args[i:])
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		edits, err := tc.edits(h, ids[0].String(), value, reason)
		if err != nil {
			return err
		}
		edits.Reset = reset
		if err := addSteps(&edits, add, remove); err != nil {
			return cli.Errorf(cli.Usage, "--add-step: %w", err)
		}
		if _, err := as.actor(); err != nil { // after what is wrong with the line, so that its hint is right
			return err
		}
		return tc.all(ctx, as, ids, edits)
	})
	if tc.value != "" {
		c.Flags().StringVar(&value, "to", "", "the new "+strings.ToLower(tc.value)+" (required)")
	}
	if tc.reason != "" {
		required := " (required)"
		if tc.optional {
			required = ""
		}
		c.Flags().StringVar(&reason, "reason", "", tc.reason+required)
	}
	if tc.steps {
		c.Flags().StringArrayVar(&add, "add-step", nil, "a step to add; repeat it for more")
		c.Flags().StringArrayVar(&remove, "drop-step", nil, "number or title of a step to remove; repeat it for more")
	}
	if tc.resets {
		c.Flags().BoolVar(&reset, "reset", false, "as many retries as a new task has")
	}
	jsonFlag(c, "print the result of each task as one JSON array")
	return c
}

// words splits the arguments into ids and the answer of otm unblock, which may follow the
// ids in place of --reason.
func (tc *taskCommand) words(args []string, reason string) (ids []string, answer string, err error) {
	last := len(args) - 1
	if tc.name != "unblock" || reason != "" || last == 0 {
		return args, reason, nil
	}
	id, err := pipeline.ParseTaskID(args[last])
	switch {
	case err != nil && !strings.HasPrefix(strings.ToLower(args[last]), "t-"):
		return args[:last], args[last], nil
	case strings.Trim(args[last], "0123456789") == "": // 42 may be what somebody asked for
		return nil, "", cli.Errorf(cli.Usage, "%s may be a task or the answer", args[last]).
			Hint("%s %v", tc.line(strings.Join(args[:last], " ")), id).Hint("%s --reason %s", tc.line(strings.Join(args[:last], " ")), args[last])
	}
	return args, "", nil
}

// steered is the result of a command for one task.
type steered struct {
	TaskID string            `json:"taskId"`
	From   pipeline.Status   `json:"from,omitempty"`
	Status pipeline.Status   `json:"status,omitempty"`
	Note   string            `json:"note,omitempty"`
	Error  string            `json:"error,omitempty"`
	Can    []string          `json:"possible,omitempty"` // the commands for the task as it is, the likely ones first
	Next   []string          `json:"next,omitempty"`     // the lines to paste
	For    []pipeline.Status `json:"allowed,omitempty"`  // of a command that was refused: the statuses that permit it

	changed string // beside the status, for people
	outcome core.Outcome
}

// all does it to each task. A task that is refused does not stop the others.
func (tc *taskCommand) all(ctx context.Context, as *acting, ids []pipeline.TaskID, edits core.Edits) error {
	h := as.h
	e, err := newEngine(ctx, h, "otm", h.board(h.stderrLog("otm")), h.stderrLog("otm"))
	if err != nil {
		return err
	}
	if err := e.Refresh(ctx, pipeline.StatusAge); err != nil { // what people changed there comes first
		h.Warn("the board is not read: %v", err)
	}
	results, failed := []steered{}, 0
	for _, id := range ids {
		by, err := as.actor()
		if err != nil {
			return err
		}
		r, err := tc.one(ctx, h, e, core.Command{By: by, Task: id}, edits)
		if err != nil {
			return err
		}
		if r.Error != "" {
			failed++
		}
		results = append(results, r)
	}
	err = h.answer(results, func() error { return printSteered(h, results) })
	if err != nil || failed == 0 {
		return err
	}
	return someFailed(failed, len(results))
}

// one carries out the command on one task. It sets the time and the action of c. The error is
// one of the store.
func (tc *taskCommand) one(ctx context.Context, h *Home, e *engine.Engine, c core.Command, edits core.Edits) (steered, error) {
	r := steered{TaskID: c.Task.String()}
	t, err := e.Task(ctx, c.Task)
	switch {
	case errors.Is(err, core.ErrNoTask):
		r.Error = "is no task that OTM knows"
		return r, nil
	case err != nil:
		return r, err
	}
	r.From, r.Status = t.Status, t.Status
	switch {
	case !t.ArchivedAt.IsZero():
		r.Error = "is archived: otm history " + r.TaskID + " shows it; drop a new task instead"
		return r, nil
	case !t.GoneAt.IsZero() && tc.name != "cancel":
		r.Error = "has no row on the board: somebody deleted or archived it; restore it there, or drop a new task instead; otm cancel closes it"
		return r, nil
	case tc.to != "" && t.Status == tc.to && (edits.Reason == nil || *edits.Reason == ""):
		r.Note = "is " + string(t.Status) + " already"
		return r, nil
	}
	edits = tc.suit(h, t, edits)
	c.At, c.Do = h.Now(), edits
	outcome, undelivered, err := change(ctx, e, c)
	if err != nil {
		return r, err
	}
	r.outcome = outcome
	var refused *core.Refused
	errors.As(outcome.Err, &refused)
	switch {
	case refused != nil && (refused.Rule == core.RuleMoved || refused.Rule == core.RuleMove):
		r.For = slices.DeleteFunc(slices.Clone(edits.From), func(s pipeline.Status) bool {
			return edits.Status != nil && !permits(s, *edits.Status, c.By)
		})
		r.Error = "is as it was: " + refused.Error()
		if refused.Rule == core.RuleMoved {
			r.Error = fmt.Sprintf("is %s: otm %s is for %s", refused.From, tc.name, strings.Join(pipeline.Texts(edits.From), ", "))
		}
		r.Can, r.Next = tc.instead(refused, edits)
		if n := len(reportsOn(h, t.ID)); n > 0 { // it may be what the command is for
			r.Error += "; " + explain.Count(n, "report on it waits", "reports on it wait") + " in the inbox"
			if !isResident(h, heartbeat.Injector) {
				r.Next = []string{h.startOf(heartbeat.Injector)} // what the task is then decides what is possible
			}
		}
	case outcome.Err != nil:
		r.Error = "is as it was: " + outcome.Err.Error()
	case undelivered != nil:
		r.Note = "the change is recorded, and the board may not show it yet: " + undelivered.Error()
	}
	for _, more := range []string{goesOn(h, outcome), refusedReports(h, outcome)} {
		if more != "" {
			r.Note = strings.TrimPrefix(r.Note+"; "+more, "; ")
		}
	}
	switch {
	case outcome.Err != nil:
	case edits.Status != nil:
		r.Status = *edits.Status
	case edits.Agent != nil:
		r.changed = fmt.Sprintf("  agent %s → %s", t.Agent, *edits.Agent)
	default:
		r.changed = fmt.Sprintf("  priority %s → %s", t.Priority, *edits.Priority)
	}
	return r, nil
}

// permits reports whether somebody may move a task from one status to another.
func permits(from, to pipeline.Status, by core.Actor) bool {
	_, ok := core.Permitted(from, to, by.Kind)
	return ok
}

// canceled reports whether a command canceled a run.
func canceled(o core.Outcome) bool {
	return slices.ContainsFunc(o.Events, func(e core.Event) bool { _, ok := e.Data.(core.RunCanceled); return ok })
}

// refusedReports says that reports on a run wait that a command canceled; "": none does.
func refusedReports(h *Home, o core.Outcome) string {
	if !canceled(o) || isResident(h, heartbeat.Injector) {
		return "" // what waits has come just now
	}
	n := len(reportsOn(h, o.Task.ID))
	if n == 0 {
		return ""
	}
	return explain.Count(n, "report on it waits", "reports on it wait") + " in the inbox, and what belongs to the run that this ended will be refused"
}

// goesOn says what becomes of an agent whose run a command canceled, where OTM does not end
// it now; "": it does, or there is nothing to end.
func goesOn(h *Home, o core.Outcome) string {
	if !canceled(o) {
		return ""
	}
	a := h.Agents().Named(o.Task.Runs.Last().Agent)
	switch {
	case a == nil:
	case a.Trigger == pipeline.TriggerGateway:
		return a.Name + " is told at the gateway; its turn may go on there, and what it reports on this run is refused"
	case dispatch.ProcessRuns(h.Dir, a.Name) && !isResident(h, heartbeat.Dispatcher):
		end := "otm-dispatcher --once"
		if _, err := findBoard(h); err != nil { // a single pass needs one
			end = h.startOf(heartbeat.Dispatcher)
		}
		return fmt.Sprintf("no dispatcher is running; this ends the process of %s: %s", a.Name, end)
	}
	return ""
}

// maxNext bounds the lines that a refusal gives.
const maxNext = 3

// instead returns what works on a task for which the command was refused: the names of the
// commands that who asked may use, and the likely ones as lines. A command for few statuses
// is likelier than one for many.
func (tc *taskCommand) instead(r *core.Refused, edits core.Edits) (names, lines []string) {
	var can []*taskCommand
	for i := range taskCommands {
		other := &taskCommands[i]
		if slices.Contains(other.from, r.From) && (other.to == "" || slices.Contains(r.Allowed, other.to)) {
			can = append(can, other)
		}
	}
	slices.SortStableFunc(can, func(a, b *taskCommand) int { return len(a.from) - len(b.from) })
	words := ""
	if tc.told && edits.Reason != nil { // somebody else was first, and the words are not to be typed again
		words = *edits.Reason
	}
	if words != "" && !r.From.Finished() {
		lines = append(lines, fmt.Sprintf("otm say %v %s   # tells its agent as well", r.Task, safe.Quote(words)))
	}
	for _, other := range can {
		if names = append(names, other.name); len(lines) < maxNext {
			lines = append(lines, other.lineWith(r.Task.String(), words))
		}
	}
	return names, lines
}

func printSteered(h *Home, results []steered) error {
	for _, r := range results {
		switch {
		case r.Error != "":
			e := cli.Errorf(cli.Failed, "%s %s", r.TaskID, r.Error)
			for _, line := range r.Next {
				e.Hint("%s", line)
			}
			h.Report(e)
		case r.From != r.Status:
			fmt.Fprintf(h.Out, "%s  %s → %s\n", r.TaskID, r.From, r.Status)
		default:
			fmt.Fprintf(h.Out, "%s  %s%s\n", r.TaskID, r.Status, r.changed)
		}
		if r.Note != "" {
			h.Warn("%s: %s", r.TaskID, r.Note)
		}
	}
	return nil
}

// self is the name of the user of the system who runs the command.
func self() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return human
}

// errAway says that the board has no row of a task any more.
var errAway = errors.New("somebody deleted or archived its row")

// change carries a command out on a task, and brings it to the board. undelivered is why
// the board does not show it yet. The error is one of the store.
func change(ctx context.Context, e *engine.Engine, c core.Command) (o core.Outcome, undelivered, err error) {
	id := c.Task
	outcomes, err := e.Do(ctx, c)
	if err != nil {
		return core.Outcome{}, nil, err
	}
	if outcomes[0].Err != nil {
		return outcomes[0], nil, nil
	}
	left, err := e.Deliver(ctx, id)
	var waits *outbox.LeftError
	if undelivered = cmp.Or(err, left[id]); errors.As(undelivered, &waits) && waits.Err == nil && waits.Pending.Error == "" {
		undelivered = nil // another process is about to write it
	}
	if t, err := e.Task(ctx, id); err == nil && t.Away() {
		undelivered = errAway
	}
	return outcomes[0], undelivered, nil
}
