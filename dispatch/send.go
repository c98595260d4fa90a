package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
)

// sendWake wakes an agent.
func (wg *waking) sendWake(ctx context.Context, a *pipeline.Agent, waker Waker, pl plan) wakeResult {
	first := pl.tasks[0]
	begin := core.BeginWake{Tasks: idsOf(pl.tasks), AskedAt: wg.askedAfter(pl.wake)}
	var again *core.Wake
	if pl.action == resend {
		first, again = pl.of, pl.wake
		others := slices.DeleteFunc(begin.Tasks, func(id pipeline.TaskID) bool { return id == first.ID })
		begin.Tasks = append([]pipeline.TaskID{first.ID}, others...)
	}
	r := Request{Run: first.Runs.Next(), File: filepath.Join(a.Workspace, FileName)}
	return wg.send(ctx, a, waker, first, again, begin, r, pl.why)
}

// send notes a wake that first is to hold, sends it, and notes the answer. If we crash in
// between, the next pass sends it again under its key. again is the wake if it was sent before;
// nil: it is a new one.
func (wg *waking) send(ctx context.Context, a *pipeline.Agent, waker Waker, first *core.Task, again *core.Wake, begin core.BeginWake, r Request, why string) wakeResult {
	wakeCtx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	open := again != nil && again.MaybeQueued() // an earlier try
	if err := waker.Ready(wakeCtx, a); err != nil {
		return wg.notAccepted(ctx, a, stillOpen(open, err))
	}
	begin.Version, begin.Via = first.Version, a.Trigger
	if again != nil {
		begin.Key = again.Key
	}
	c := core.Command{At: wg.Now(), By: by(), Task: first.ID, Agent: a.Name, Do: begin}
	begun, err := core.DoOne(ctx, wg.Store, c) // before it is sent
	switch {
	case errors.Is(err, core.ErrOutdated): // the task changed since the wake was planned
		return wakeResult{due: wg.Now().Add(soonAgain)}
	case err != nil:
		return wakeResult{failed: notWoken(explain.AgentStateWrong, a, err)}
	}
	var w core.Wake
	for _, e := range begun.Events {
		if data, ok := e.Data.(core.WakeBegun); ok {
			w = data.Wake
		}
	}
	crash.Point("wake.before")
	r.Agent, r.Key, r.Task, r.Trace = a, w.Key, first.ID, first.Trace.Child(w.Key)
	if r.Message == "" {
		r.Message = message(a.Name, w.Tasks, wg.MessageDir)
	}
	wakeErr := waker.Wake(wakeCtx, r)
	crash.Point("wake.after")
	return wg.answered(ctx, a, first.ID, w, stillOpen(open, wakeErr), why)
}

// tellLoss tells the agent that a task was taken from it. The message is a wake of its own: it
// begins a turn.
func (wg *waking) tellLoss(ctx context.Context, s *situation, waker Waker, pl plan) wakeResult {
	_, last := s.lastWake()
	begin := core.BeginWake{Tasks: []pipeline.TaskID{pl.lost.ID}, AskedAt: wg.askedAfter(last), Loss: true}
	r := Request{Run: pl.lost.Runs.Number(), Message: lossMessage(pl.lost, s.agent.Name, wg.MessageDir), Abort: turnsOn(s, pl.lost)}
	return wg.send(ctx, s.agent, waker, pl.lost, pl.wake, begin, r, pl.why)
}

// stillOpen is the error of a wake of which an earlier try may still be queued.
func stillOpen(open bool, err error) error {
	if open && err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w before: %w", ErrLost, err)
	}
	return err
}

// askedAfter is the time of a wake that comes after last. It is now, unless the
// clock was set back a little: times give the order of wakes.
func (wg *waking) askedAfter(last *core.Wake) time.Time {
	now := wg.Now()
	if last == nil || last.AskedAt.Before(now) || last.AskedAt.After(now.Add(wg.Times.RewakeAfter)) {
		return now
	}
	return last.AskedAt.Add(1)
}

// retryWake is the pause before a wake that was not accepted is sent again.
const retryWake = 15 * time.Second

// answered notes the answer to a wake, durably.
func (wg *waking) answered(ctx context.Context, a *pipeline.Agent, first pipeline.TaskID, w core.Wake, wakeErr error, why string) wakeResult {
	now := wg.Now()
	settle := core.SettleWake{Key: w.Key, Answer: core.WakeUnsent}
	switch {
	case wakeErr == nil:
		settle.Answer = core.WakeAccepted
	case errors.Is(wakeErr, ErrRefused):
		settle.Answer, settle.Refused = core.WakeRefused, wakeErr.Error()
	}
	if !errors.Is(wakeErr, ErrLost) { // else it may be queued
		c := core.Command{At: now, By: by(), Task: first, Also: w.Tasks[1:], Agent: a.Name, Do: settle}
		// The answer is noted even if the dispatcher stops.
		if _, err := core.DoOne(context.WithoutCancel(ctx), wg.Store, c); err != nil {
			return wakeResult{failed: notWoken(explain.AgentStateWrong, a, err)}
		}
	}
	if wakeErr != nil {
		return wg.notAccepted(ctx, a, wakeErr)
	}
	wg.Log.Info("woke agent", "agent", a.Name, "via", w.Via, "run", w.Key, "tasks", w.Tasks, "why", why)
	return wakeResult{woken: 1}
}

// notAccepted is the result of a wake that was not accepted.
func (wg *waking) notAccepted(ctx context.Context, a *pipeline.Agent, wakeErr error) wakeResult {
	r := wakeResult{due: wg.Now().Add(retryWake)}
	switch {
	case ctx.Err() != nil: // the dispatcher stops: the next one resumes the wake
	case errors.Is(wakeErr, errBusy): // a pass follows the end of its process
	case errors.Is(wakeErr, ErrRefused) && !errors.Is(wakeErr, ErrLost):
		r.due = time.Time{}
		if r.failed = CommandProblem(a); r.failed == nil {
			r.failed = notWoken(explain.WakeBarred, a, wakeErr)
		}
	default:
		r.failed = notWoken(explain.WakeFailed, a, wakeErr)
	}
	return r
}

// Request is one wake.
type Request struct {
	Agent   *pipeline.Agent
	Key     string // idempotency key and run id
	Task    pipeline.TaskID
	Run     int // the number of the task's run that is to begin, or to go on
	Trace   pipeline.Trace
	Message string
	File    string // the agent's dispatch file
	// Abort are the keys of turns at the gateway that are to end before the agent hears the
	// message: the task in which they work was taken from it.
	Abort []string
}

// Errors of a Waker. Any other error means that the wake was not queued.
var (
	// ErrLost: the request was sent and no answer came. The wake may be queued.
	ErrLost = errors.New("no answer to the wake")
	// ErrRefused: the agent cannot be woken until a person changes something.
	ErrRefused = errors.New("wake refused")

	// ErrGoesOn: the run is known to go on.
	ErrGoesOn = errors.New("it goes on")

	// errBusy: the agent is at work and needs no wake.
	errBusy = errors.New("its process is running")
)

// Waker wakes agents.
type Waker interface {
	// Wake returns nil once the wake is accepted, which does not mean that the
	// agent runs. Sending the same key again within minutes wakes once.
	Wake(ctx context.Context, r Request) error
	// Ready returns nil if an agent can be woken now, as far as can be known without
	// sending anything. Its errors are those of Wake.
	Ready(ctx context.Context, a *pipeline.Agent) error
	// Ended asks how the run of an accepted wake of an agent ended. If ended is false, the
	// run goes on or is not known. If it is known to go on, the error is ErrGoesOn.
	Ended(ctx context.Context, a *pipeline.Agent, key string) (end core.EndStart, ended bool, err error)
}

// maxNamed is how many tasks a message names.
const maxNamed = 20

// message is the text of a wake. It contains no title, project or other text from
// a drop.
func message(agent string, tasks []pipeline.TaskID, dir string) string {
	names := make([]string, 0, len(tasks))
	for _, id := range tasks {
		if len(names) == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(tasks)-maxNamed))
			break
		}
		names = append(names, id.String())
	}
	noun := "Task"
	if len(tasks) > 1 {
		noun = "Tasks"
	}
	return fmt.Sprintf("%s %s dispatched. Check %s and execute it: run \"%s\", do that one task to its end, "+
		"report with otm-update, then run it again; stop at \"no task waiting\".",
		noun, strings.Join(names, ", "), FileName, nextLine(agent, dir))
}

// nextLine is the command by which an agent takes its next task.
func nextLine(agent, dir string) string {
	line := "otm next --agent " + safe.Quote(agent)
	if dir != "" {
		line += " --dir '" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return line
}

// taskOfKey returns the task in a key; false: it is no key of ours.
func taskOfKey(key string) (pipeline.TaskID, bool) {
	parts := strings.SplitN(key, "-", 4) // otm, T, the number, the rest
	if len(parts) < 4 || parts[0] != "otm" {
		return 0, false
	}
	id, err := pipeline.ParseTaskID(parts[1] + "-" + parts[2])
	return id, err == nil
}

// wakeTimeout bounds one wake, retries included.
const wakeTimeout = 20 * time.Second
