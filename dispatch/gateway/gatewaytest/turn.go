package gatewaytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// session is a queue of turns; one runs at a time.
type session struct {
	queue []*turn
	busy  bool
}

// turn is a run that is queued or running.
type turn struct {
	entry   *entry
	key     string // the caller's; of a resumed turn not the run id
	agent   *Agent
	message string
	limit   time.Duration
	fault   Fault
	stale   bool // ends in an error without calling the agent
	resumed bool
	run     int // index in the gateway's runs, -1 until it is executed

	// conn gets the second response under id; nil for a resumed turn.
	conn *conn
	id   json.RawMessage

	ctx     context.Context
	cancel  context.CancelFunc
	aborted bool // guarded by the gateway's mu
}

// enqueue adds t to its session, in order of arrival. The caller holds mu.
func (p *process) enqueue(t *turn) {
	s := p.sessions[t.entry.sessionKey]
	if s == nil {
		s = &session{}
		p.sessions[t.entry.sessionKey] = s
	}
	s.queue = append(s.queue, t)
	p.active++
	if !s.busy {
		s.busy = true
		p.g.wg.Go(func() { p.work(s) })
	}
}

// work runs the turns of a session until there are none.
func (p *process) work(s *session) {
	for {
		p.g.mu.Lock()
		if p.dead || len(s.queue) == 0 {
			s.busy = false
			p.g.mu.Unlock()
			return
		}
		t := s.queue[0]
		s.queue = s.queue[1:]
		p.g.mu.Unlock()
		p.execute(t)
	}
}

// execute runs one turn to its end.
func (p *process) execute(t *turn) {
	defer t.cancel()
	select {
	case p.lane <- struct{}{}:
		defer func() { <-p.lane }()
	case <-p.ctx.Done():
		return
	}
	if t.stale || t.fault.kind == okWithoutWork || t.ctx.Err() != nil {
		p.finish(t, nil)
		return
	}
	if !p.begin(t) {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.limit)
	defer cancel()
	err := t.agent.turn(ctx, p.runOf(t))
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	p.finish(t, err)
}

// begin records that the agent is given the message: from here on the run is
// executed.
func (p *process) begin(t *turn) bool {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.dead {
		return false
	}
	e := t.entry
	e.startedAt = g.now()
	t.run = g.record(Run{
		RunID: e.runID, Key: t.key, AgentID: e.agentID, SessionKey: e.sessionKey, Message: t.message,
		Boot: g.boots, Resumed: t.resumed, StartedAt: e.startedAt,
	})
	if g.transcripts[e.sessionKey] == nil {
		g.transcripts[e.sessionKey] = map[string]bool{}
	}
	g.transcripts[e.sessionKey][e.runID] = true
	p.running[t] = struct{}{}
	p.lifecycle(e, object{"phase": "start"})
	return true
}

func (p *process) runOf(t *turn) Run {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	return p.g.runs[t.run]
}

// finish makes the outcome known, unless the process died meanwhile.
func (p *process) finish(t *turn, err error) {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.dead {
		return
	}
	delete(p.running, t)
	p.active--
	a, status := g.profile.outcome(t, err)
	if t.run >= 0 {
		g.runs[t.run].Status = status
		p.lifecycle(t.entry, object{"phase": "end", "aborted": t.aborted, "terminalReply": object{"text": t.agent.words()}})
	}
	p.end(t.entry, a, status)
	if t.conn != nil {
		calls{t.conn}.second(t.id, a, t.fault)
	}
}

// outcome is the second response, and the run's status.
func (p Profile) outcome(t *turn, err error) (answer, string) {
	payload := object{"runId": t.entry.runID}
	status := "ok"
	switch {
	case t.stale:
		status = "error"
		payload["summary"] = "failed"
		payload["result"] = object{"payloads": []object{{"text": "Agent run failed"}}}
	case t.aborted:
		status = "timeout"
		payload["summary"], payload["stopReason"] = "aborted", "rpc"
	case err != nil && p.hidesFailure:
		payload["summary"] = "completed"
		payload["result"] = object{"payloads": []object{{"text": "400 " + err.Error()}}}
	case errors.Is(err, context.DeadlineExceeded):
		status = "timeout"
		payload["summary"], payload["timeoutPhase"] = "aborted", "provider"
	case err != nil:
		return failed(t.entry.runID, err.Error()), "error"
	default:
		payload["summary"] = "completed"
		// The real one carries the tool list: 4 to 8 kB at least.
		payload["result"] = object{"payloads": []object{{"text": t.agent.words(), "mediaUrl": nil}}, "meta": strings.Repeat("m", 4096)}
	}
	payload["status"] = status
	return answer{ok: true, payload: payload}, status
}

// lifecycle sends an event about a run to all clients. The caller holds mu.
func (p *process) lifecycle(e *entry, data object) {
	for c := range p.conns {
		c.event("agent", object{
			"runId": e.runID, "agentId": e.agentID, "sessionKey": e.sessionKey, "stream": "lifecycle", "data": data,
		})
	}
}

func (a *Agent) words() string { return cmp.Or(a.Says, "RIG_OK") }

// resume queues the turns that a crash cut off, under new run ids and without
// second responses. The caller holds mu.
func (p *process) resume() {
	for _, old := range p.g.interrupted {
		e := p.remember(agentParams{
			IdempotencyKey: uuid(), AgentID: old.entry.agentID, SessionKey: old.entry.sessionKey,
		})
		t := &turn{
			entry: e, key: old.key, agent: old.agent, message: old.message, limit: old.limit, resumed: true, run: -1,
		}
		t.ctx, t.cancel = context.WithCancel(p.ctx)
		e.turn = t
		p.enqueue(t)
	}
	p.g.interrupted = nil
}

// turn lets the agent do what it does.
func (a *Agent) turn(ctx context.Context, run Run) error {
	if a.Delay > 0 && !sleep(ctx, a.Delay) {
		return ctx.Err()
	}
	switch {
	case a.Do != nil:
		return a.Do(ctx, run)
	case len(a.Command) > 0:
		return a.command(ctx, run)
	}
	return nil
}

// command runs the agent's program, with the environment that a real agent's
// shell has.
func (a *Agent) command(ctx context.Context, run Run) error {
	fill := strings.NewReplacer("{message}", run.Message, "{agent}", run.AgentID, "{dir}", a.Workspace)
	args := make([]string, len(a.Command))
	for i, arg := range a.Command {
		args[i] = fill.Replace(arg)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = a.Workspace
	cmd.Env = append(os.Environ(), "OPENCLAW_SHELL=exec")
	cmd.Stdin = strings.NewReader(run.Message)
	cmd.WaitDelay = 5 * time.Second // for children that hold its output open
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, output.Bytes()[:min(output.Len(), 500)])
	}
	return nil
}
