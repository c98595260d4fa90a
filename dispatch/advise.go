package dispatch

import (
	"cmp"
	"context"
	"strings"
	"time"

	"otm/core"
	"otm/internal/hook"
	"otm/pipeline"
)

// Question is what the command of [retry] advise is told of a failed run, as JSON.
type Question struct {
	TaskID    pipeline.TaskID   `json:"taskId"`
	Title     string            `json:"title"`
	Type      pipeline.Type     `json:"type"`
	Priority  pipeline.Priority `json:"priority"`
	Project   string            `json:"project,omitempty"`
	Context   string            `json:"context,omitempty"`
	Steps     []AdviseStep      `json:"subtasks"`
	Agent     string            `json:"agent"`
	Run       int               `json:"run"`        // the one that failed
	Try       int               `json:"try"`        // how many runs failed in a row
	Retries   int               `json:"maxRetries"` // of the type
	NextRunAt time.Time         `json:"nextRunAt"`
	BeganAt   time.Time         `json:"beganAt"`
	EndedAt   time.Time         `json:"endedAt"`
	core.Failure
}

// AdviseStep is a step of the task.
type AdviseStep struct {
	Title string `json:"title"`
	Done  bool   `json:"done"`
}

func questionOn(t *core.Task, run *core.Run, types pipeline.Types) Question {
	q := Question{
		TaskID: t.ID, Title: t.Title, Type: t.Type, Priority: t.Priority, Project: t.Project, Context: t.Context, Steps: []AdviseStep{},
		Agent: run.Agent, Run: run.Number, Try: t.Runs.Tries(t.CountFrom), Retries: types.Rules(t.Type).MaxRetries, NextRunAt: t.Wait.Until,
		BeganAt: run.Began, EndedAt: run.Ended, Failure: run.Failure,
	}
	for _, s := range t.Steps {
		q.Steps = append(q.Steps, AdviseStep{s.Title, s.Done})
	}
	return q
}

// maxAdvising is how many questions are asked at once. The others wait for a later pass; a
// retry waits for no answer.
const maxAdvising = 4

// adviseRetries asks for advice on the retries that wait. It does not wait for the answers.
// If we crash before an answer is noted, the next dispatcher asks again.
func (rn *run) adviseRetries(ctx context.Context) {
	if rn.Advise == nil {
		return
	}
	for _, t := range rn.tasks {
		run := core.AwaitsAdvice(t, rn.Now())
		if run == nil || !rn.mayAsk(t.ID) {
			continue
		}
		q := questionOn(t, run, rn.Types)
		rn.wakers.Go(func() { rn.adviseOn(ctx, q) })
	}
}

// mayAsk notes that a question on a task is under way, unless one is already, or too many are.
func (d *Dispatcher) mayAsk(id pipeline.TaskID) bool {
	d.adviseMu.Lock()
	defer d.adviseMu.Unlock()
	if len(d.advising) >= maxAdvising || d.advising[id] {
		return false
	}
	if d.advising == nil {
		d.advising = map[pipeline.TaskID]bool{}
	}
	d.advising[id] = true
	return true
}

// adviseOn asks for advice, and notes the answer with the failed run.
func (d *Dispatcher) adviseOn(ctx context.Context, q Question) {
	defer func() {
		d.adviseMu.Lock()
		delete(d.advising, q.TaskID)
		d.adviseMu.Unlock()
		d.Answered() // others may wait for their turn
	}()
	// The answer to an earlier question may have been noted since the pass read the task.
	t, err := d.Store.Task(ctx, q.TaskID)
	if err != nil || t == nil {
		return // a later pass asks
	}
	if run := core.AwaitsAdvice(t, d.Now()); run == nil || run.Number != q.Run {
		return
	}
	advice, err := d.Advise(ctx, q)
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("no advice on a retry", "task", q.TaskID, "run", q.Run, "err", err)
		advice = core.Advice{Failed: err.Error()}
	}
	if ctx.Err() == nil { // else the dispatcher stops, and the next one asks again
		c := core.Command{At: d.Now(), By: by(), Task: q.TaskID, Do: core.AdviseRetry{Run: q.Run, Advice: advice}}
		if _, err := d.Store.Do(context.WithoutCancel(ctx), c); err != nil {
			d.Log.Warn("advice on a retry not noted", "task", q.TaskID, "err", err)
		}
	}
}

// Adviser runs the command of [retry] advise.
type Adviser struct {
	Command []string
	Dir     string        // the data directory
	PathDir string        // in front of its PATH
	Secrets []string      // environment variables that it does not get
	Limit   time.Duration // for one answer; zero: adviseLimit
}

// adviseLimit is less than the first pause before a retry.
const adviseLimit = 20 * time.Second

// Ask asks the command, which gets the question on its stdin. What it prints is an
// instruction for the agent of the next run; SKIP, alone or followed by the reason, means
// that no retry makes sense. The error says why there is no answer.
func (a *Adviser) Ask(ctx context.Context, q Question) (core.Advice, error) {
	c := hook.Command{
		Line: a.Command, Dir: a.Dir, Limit: cmp.Or(a.Limit, adviseLimit),
		Env: append(hook.Environment(a.PathDir, a.Secrets), "OTM_DIR="+a.Dir, "OTM_TASK_ID="+q.TaskID.String()),
	}
	answer, _, err := c.Run(ctx, q)
	if err != nil {
		return core.Advice{}, err
	}
	return readAdvice(answer), nil
}

// readAdvice reads an answer.
func readAdvice(text string) core.Advice {
	text = strings.TrimSpace(text)
	if why, skip := strings.CutPrefix(text, "SKIP"); skip && (why == "" || strings.ContainsAny(why[:1], " \t\r\n:.,")) {
		return core.Advice{Skip: true, Text: strings.TrimLeft(why, " \t\r\n:.,")}
	}
	return core.Advice{Text: text}
}
