package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The memory of idempotency keys: five minutes after the run's end, at most a
// thousand keys, gone with the process.
const (
	keyFor   = 5 * time.Minute
	keyLimit = 1000
)

// entry is what the gateway remembers of a run.
type entry struct {
	runID      string
	agentID    string
	sessionKey string
	acceptedAt int64
	turn       *turn // nil if it was never queued
	startedAt  time.Time
	endedAt    time.Time
	status     string        // how it ended
	cutOff     bool          // by a crash
	final      *answer       // the second response; nil until the end
	done       chan struct{} // closed with it
}

// agentParams are the parameters of the method agent that matter here.
type agentParams struct {
	Message        string  `json:"message"`
	AgentID        string  `json:"agentId"`
	SessionKey     string  `json:"sessionKey"`
	IdempotencyKey string  `json:"idempotencyKey"`
	Timeout        float64 `json:"timeout"` // seconds
}

// agentProperties are the optional ones that both versions know; 2026.9.6 has
// more.
var agentProperties = []string{
	"agentId", "sessionKey", "timeout", "label", "extraSystemPrompt", "thinking",
	"lane", "deliver", "to", "replyTo", "sessionId", "channel", "accountId", "threadId", "attachments",
	"bestEffortDeliver", "inputProvenance",
}

func (p Profile) parseAgent(raw json.RawMessage) (agentParams, string) {
	var params agentParams
	m, problem := properties(orEmpty(raw), "", []string{"message", "idempotencyKey"}, agentProperties...)
	if problem != "" {
		return params, problem
	}
	for _, name := range []string{"message", "idempotencyKey"} {
		if text(m[name]) == "" {
			return params, p.tooShort("/" + name)
		}
	}
	if err := json.Unmarshal(raw, &params); err != nil {
		return params, err.Error()
	}
	return params, ""
}

// agent is the method agent. The caller holds mu.
func (c calls) agent(req request) {
	g := c.p.g
	fault := g.takeFault()
	switch fault.kind {
	case noAnswer:
		return
	case dropUnqueued:
		c.cut(fault.cut)
		return
	case unavailable:
		c.reply(req.ID, refused(g.o.draining(req.Method)))
		return
	}
	p, problem := g.profile.parseAgent(req.Params)
	if problem != "" {
		c.reply(req.ID, refused(invalid("invalid agent params: "+problem)))
		return
	}
	if g.profile.guardsResets && isReset(p.Message) && !c.may("operator.admin") {
		c.reply(req.ID, refused(g.profile.missingScope("operator.admin")))
		return
	}
	// The key comes before all else: it answers for any message and agent.
	if e := c.p.remembered(p.IdempotencyKey); e != nil {
		c.repeated(req, e, fault)
		return
	}
	agent, e := c.p.agentFor(p.AgentID)
	if e != nil {
		c.reply(req.ID, refused(*e))
		return
	}
	if agent == nil {
		c.acceptAndFail(req, p, "Pass --to <E.164>, --session-id, or --agent to choose a session", fault)
		return
	}
	session, e := g.profile.sessionFor(agent.ID, p.SessionKey)
	if e != nil {
		c.reply(req.ID, refused(*e))
		return
	}
	p.AgentID, p.SessionKey = agent.ID, session
	if strings.TrimSpace(p.Message) == "" {
		c.acceptAndFail(req, p, "Message (--message) is required", fault)
		return
	}
	if fault.kind == acceptThenFail {
		c.acceptAndFail(req, p, "refused after acceptance", fault)
		return
	}
	c.admitRun(req, p, agent, fault)
}

// isReset reports whether a message is a command that resets the session.
func isReset(message string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(message), " ")
	return word == "/new" || word == "/reset"
}

// remembered returns the entry of a key that is not forgotten yet.
func (p *process) remembered(key string) *entry {
	e := p.keys[key]
	if e == nil || e.final == nil || p.g.now().Sub(e.endedAt) <= keyFor {
		return e
	}
	delete(p.keys, key)
	return nil
}

// agentFor finds an agent. Without an id and with several agents it returns
// the refusal of 2026.9.6, or nothing, as 2026.3.13 accepts at first.
func (p *process) agentFor(id string) (*Agent, *wireError) {
	agents := p.g.o.Agents
	folded := strings.ToLower(strings.TrimSpace(id))
	switch {
	case folded == "" && len(agents) == 1:
		return &agents[0], nil
	case folded == "" && p.g.profile.refusesOwnerless:
		e := invalid(`Multiple agents are configured, but session key "main" has no explicit owner. Pass agentId or use an agent-prefixed session key.`)
		return nil, &e
	case folded == "":
		return nil, nil
	}
	i := slices.IndexFunc(agents, func(a Agent) bool { return a.ID == folded })
	if i < 0 {
		e := invalid(fmt.Sprintf("invalid agent params: unknown agent id %q", id))
		return nil, &e
	}
	return &agents[i], nil
}

// remember makes the entry for a new run.
func (p *process) remember(params agentParams) *entry {
	e := &entry{
		runID: params.IdempotencyKey, agentID: params.AgentID, sessionKey: params.SessionKey,
		acceptedAt: p.g.now().UnixMilli(), done: make(chan struct{}),
	}
	if len(p.keys) >= keyLimit {
		p.forgetOldest()
	}
	p.keys[e.runID] = e
	p.known[e.runID] = e
	p.g.ledger = append(p.g.ledger, e)
	return e
}

func (p *process) forgetOldest() {
	var oldest *entry
	for _, e := range p.keys {
		if e.final != nil && (oldest == nil || e.endedAt.Before(oldest.endedAt)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(p.keys, oldest.runID)
	}
}

// accepted is the first response to a run.
func (p Profile) accepted(e *entry, status string) answer {
	payload := object{"runId": e.runID, "status": status}
	if status == "accepted" {
		payload["acceptedAt"] = e.acceptedAt
	}
	if p.tellsSession {
		payload["sessionKey"] = e.sessionKey
		payload["agentId"] = e.agentID
	}
	return answer{ok: true, payload: payload}
}

// admitRun queues a run and accepts it.
func (c calls) admitRun(req request, p agentParams, agent *Agent, fault Fault) {
	e := c.p.remember(p)
	c.first(req.ID, c.p.g.profile.accepted(e, "accepted"), fault)
	if fault.kind == acceptNeverRun {
		return
	}
	limit := c.p.g.profile.RunLimit
	if p.Timeout > 0 {
		limit = time.Duration(p.Timeout * float64(time.Second))
	}
	t := &turn{
		entry: e, key: e.runID, agent: agent, message: p.Message, limit: limit, fault: fault, conn: c.conn, id: req.ID, run: -1,
	}
	t.ctx, t.cancel = context.WithCancel(c.p.ctx)
	// A key that stands in the session's transcript already is not run again
	// by 2026.9.6: the turn fails before the model is called.
	t.stale = !c.p.g.profile.rerunsForgotten && c.p.g.transcripts[p.SessionKey][p.IdempotencyKey]
	e.turn = t
	c.p.enqueue(t)
}

// acceptAndFail accepts and refuses at once; nothing is executed.
func (c calls) acceptAndFail(req request, p agentParams, words string, fault Fault) {
	e := c.p.remember(p)
	c.first(req.ID, c.p.g.profile.accepted(e, "accepted"), fault)
	if !c.p.g.profile.newerSchemaWords {
		words = "Error: " + words
	}
	a := failed(e.runID, words)
	c.p.end(e, a, "error")
	c.second(req.ID, a, fault)
}

// failed is the second response to a run that failed: payload and error.
func failed(runID, words string) answer {
	return answer{
		payload: object{"runId": runID, "status": "error", "summary": words},
		err:     &wireError{Code: "UNAVAILABLE", Message: words},
	}
}

// repeated answers a key that the gateway remembers.
func (c calls) repeated(req request, e *entry, fault Fault) {
	switch {
	case e.final != nil:
		c.first(req.ID, *e.final, fault)
	case c.p.g.profile.tellsInFlight:
		c.first(req.ID, c.p.g.profile.accepted(e, "in_flight"), fault)
	default:
		c.first(req.ID, c.p.g.profile.accepted(e, "accepted"), fault)
	}
	if fault.kind == dropExecuted {
		c.cut(fault.cut)
	}
}

// first sends the first response to a run's request, unless the fault is that
// it gets lost.
func (c calls) first(id json.RawMessage, a answer, fault Fault) {
	switch fault.kind {
	case neverDelivered, dropExecuted:
	case dropQueued:
		c.cut(fault.cut)
	case acceptDropBefore:
		c.reply(id, a)
		c.cut(fault.cut)
	default:
		c.p.g.ordered(func() { c.reply(id, a) })
	}
}

// second sends the second response, unless the fault is that it gets lost.
func (c calls) second(id json.RawMessage, a answer, fault Fault) {
	switch fault.kind {
	case neverDelivered:
	case dropExecuted, acceptDropAfter:
		c.cut(fault.cut)
	default:
		c.reply(id, a)
	}
}

// end makes a the run's outcome.
func (p *process) end(e *entry, a answer, status string) {
	e.final, e.status, e.endedAt = &a, status, p.g.now()
	close(e.done)
	p.g.note()
}
