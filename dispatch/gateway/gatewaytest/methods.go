package gatewaytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// calls are what a connection may ask after its handshake.
type calls struct{ *conn }

// method is one of them.
type method struct {
	scope string
	do    func(c calls, req request)
}

var methods = map[string]method{
	"health":            {"", calls.health},
	"status":            {"operator.read", calls.status},
	"agents.list":       {"operator.read", calls.agentsList},
	"agents.files.list": {"operator.read", calls.agentsFilesList},
	"skills.status":     {"operator.read", calls.skillsStatus},
	"sessions.list":     {"operator.read", calls.sessionsList},
	"sessions.abort":    {"operator.write", calls.sessionsAbort},
	"tasks.list":        {"operator.read", calls.tasksList},
	"agent.wait":        {"operator.write", calls.agentWait},
	"agent":             {"operator.write", calls.agent},
}

// handle answers one request after the handshake. The caller holds mu.
func (c calls) handle(req request) {
	g := c.p.g
	g.requests = append(g.requests, Request{
		Method: req.Method, Boot: g.boots, Conn: c.number,
		Key: field(req.Params, "idempotencyKey"), AgentID: field(req.Params, "agentId"),
	})
	defer g.note()
	m, known := methods[req.Method]
	known = known && (g.profile.aborts || req.Method != "sessions.abort" && req.Method != "tasks.list")
	switch {
	case c.p.drain:
		c.reply(req.ID, refused(g.o.draining(req.Method)))
	case !known && !c.may("operator.admin"):
		c.reply(req.ID, refused(g.profile.missingScope("operator.admin")))
	case !known:
		c.reply(req.ID, refused(invalid("unknown method: "+req.Method)))
	case !c.may(m.scope):
		c.reply(req.ID, refused(g.profile.missingScope(m.scope)))
	default:
		m.do(c, req)
	}
}

// field returns a string property of an object, empty if there is none.
func field(raw json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	json.Unmarshal(raw, &m)
	return text(m[name])
}

func (c calls) health(req request) {
	var agents []object
	for _, a := range c.p.g.o.Agents {
		agents = append(agents, object{"agentId": a.ID})
	}
	c.reply(req.ID, answer{ok: true, payload: object{"ok": true, "agents": agents}})
}

func (c calls) status(req request) {
	c.reply(req.ID, answer{ok: true, payload: object{"tasks": object{"active": c.p.active}}})
}

func (c calls) agentsList(req request) {
	g := c.p.g
	if _, problem := properties(orEmpty(req.Params), "", nil); problem != "" {
		c.reply(req.ID, refused(invalid("invalid agents.list params: "+problem)))
		return
	}
	agents := []object{}
	for _, a := range g.o.Agents {
		o := object{"id": a.ID, "name": a.Name}
		if g.profile.tellsSession {
			o["workspace"] = a.Workspace
			o["model"] = "mock/m"
		}
		agents = append(agents, o)
	}
	payload := object{"defaultId": g.o.Agents[0].ID, "mainKey": "main", "scope": "per-sender", "agents": agents}
	if g.profile.refusesOwnerless {
		payload["ownership"] = "explicit"
		payload["selectionRequired"] = len(agents) > 1
	}
	c.reply(req.ID, answer{ok: true, payload: payload})
}

// agentsFilesList tells the workspace of an agent, and the files in it that matter.
func (c calls) agentsFilesList(req request) {
	if _, problem := properties(req.Params, "", []string{"agentId"}); problem != "" {
		c.reply(req.ID, refused(invalid("invalid agents.files.list params: "+problem)))
		return
	}
	agent, e := c.p.agentFor(field(req.Params, "agentId"))
	if e != nil {
		c.reply(req.ID, refused(*e))
		return
	}
	c.reply(req.ID, answer{ok: true, payload: object{
		"agentId": agent.ID, "workspace": agent.Workspace, "files": []object{{"name": "AGENTS.md", "missing": true}},
	}})
}

func (c calls) skillsStatus(req request) {
	agent, e := c.p.agentFor(field(req.Params, "agentId"))
	if e != nil {
		c.reply(req.ID, refused(*e))
		return
	}
	skills := []object{}
	for _, s := range agent.Skills {
		skills = append(skills, object{
			"name": s.Name, "eligible": len(s.Missing) == 0, "disabled": false, "missing": object{"bins": s.Missing},
		})
	}
	c.reply(req.ID, answer{ok: true, payload: object{"skills": skills}})
}

func orEmpty(params json.RawMessage) json.RawMessage {
	if params == nil {
		return json.RawMessage("{}")
	}
	return params
}

func (c calls) sessionsList(req request) {
	rows := []object{}
	for key, s := range c.p.sessions {
		rows = append(rows, object{"key": key, "hasActiveRun": s.busy})
	}
	c.reply(req.ID, answer{ok: true, payload: object{"sessions": rows}})
}

// sessionsAbort ends a turn that is queued or running.
func (c calls) sessionsAbort(req request) {
	e := c.p.known[field(req.Params, "runId")]
	if e == nil || e.turn == nil || e.final != nil {
		e := invalid("session mutation target is unavailable")
		e.Details = object{"code": "SESSION_MUTATION_TARGET_REQUIRED", "method": req.Method}
		c.reply(req.ID, refused(e))
		return
	}
	e.turn.aborted = true
	e.turn.cancel()
	c.reply(req.ID, answer{ok: true, payload: object{"ok": true, "abortedRunId": e.runID, "status": "aborted"}})
}

// tasksList tells runs of an agent, the newest first, also those of former processes.
func (c calls) tasksList(req request) {
	if _, problem := properties(orEmpty(req.Params), "", nil, "status", "agentId", "sessionKey", "limit", "cursor", "sortBy"); problem != "" {
		c.reply(req.ID, refused(invalid("invalid tasks.list params: "+problem)))
		return
	}
	rows := []object{}
	for _, e := range slices.Backward(c.p.g.ledger) {
		if agent := field(req.Params, "agentId"); agent != "" && agent != e.agentID {
			continue
		}
		row := object{"taskId": uuid(), "runId": e.runID, "agentId": e.agentID, "sessionKey": e.sessionKey, "createdAt": e.acceptedAt, "status": "queued"}
		switch {
		case e.cutOff:
			row["status"], row["error"] = "cancelled", "Task execution process exited before restart."
		case e.final != nil:
			row["status"] = map[string]string{"ok": "completed", "timeout": "timed_out"}[e.status]
			if row["status"] == "" {
				row["status"] = "failed"
			}
		case !e.startedAt.IsZero():
			row["status"] = "running"
		}
		if !e.endedAt.IsZero() {
			row["endedAt"] = e.endedAt.UnixMilli()
		}
		rows = append(rows, row)
	}
	c.reply(req.ID, answer{ok: true, payload: object{"tasks": rows}})
}

// knownFor is how long agent.wait knows a run after its end.
const knownFor = 10 * time.Minute

// agentWait answers when the run ends, or after its timeout. A run that is
// unknown is not told from one that runs.
func (c calls) agentWait(req request) {
	g := c.p.g
	m, problem := properties(req.Params, "", []string{"runId"}, "timeoutMs")
	if problem != "" {
		c.reply(req.ID, refused(invalid("invalid agent.wait params: "+problem)))
		return
	}
	timeout := 30 * time.Second
	var ms int64
	if m["timeoutMs"] != nil && json.Unmarshal(m["timeoutMs"], &ms) == nil {
		timeout = time.Duration(ms) * time.Millisecond
	}
	runID := text(m["runId"])
	e := c.p.known[runID]
	if e != nil && e.final != nil && g.now().Sub(e.endedAt) > knownFor {
		e = nil
	}
	g.wg.Go(func() { c.waitFor(req.ID, runID, e, timeout) })
}

func (c calls) waitFor(id json.RawMessage, runID string, e *entry, timeout time.Duration) {
	var done chan struct{}
	if e != nil {
		done = e.done
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	payload := object{"runId": runID, "status": "timeout"}
	select {
	case <-c.ctx.Done():
		return
	case <-timer.C:
	case <-done:
	}
	c.p.g.mu.Lock()
	defer c.p.g.mu.Unlock()
	if e != nil && e.final != nil {
		payload["status"] = e.status
		if e.turn != nil && e.turn.aborted {
			payload["status"] = "error" // though the second response says timeout
		}
		payload["endedAt"] = e.endedAt.UnixMilli()
		if !e.startedAt.IsZero() {
			payload["startedAt"] = e.startedAt.UnixMilli()
		}
	}
	c.reply(id, answer{ok: true, payload: payload})
}

// mainSession is where all turns of an agent go that name no session.
func mainSession(agentID string) string { return "agent:" + agentID + ":main" }

// sessionFor files a session key under an agent, or says why not.
func (p Profile) sessionFor(agentID, key string) (string, *wireError) {
	if key == "" {
		return mainSession(agentID), nil
	}
	owner := ""
	if rest, ok := strings.CutPrefix(key, "agent:"); ok {
		owner, _, _ = strings.Cut(rest, ":")
	}
	switch {
	case owner == agentID:
		return key, nil
	case owner == "" && p.ownsSessions:
		return "agent:" + agentID + ":" + key, nil
	case p.ownsSessions:
		e := invalid(fmt.Sprintf("Multiple agents are configured, but session agent resolution has no explicit owner. "+
			"The agent-scoped session key belongs to %q, not %q.", owner, agentID))
		return "", &e
	}
	// 2026.3.13 takes a key without a prefix for one of an agent "main".
	e := invalid(fmt.Sprintf("invalid agent params: agent %q does not match session key agent %q", agentID, cmp.Or(owner, "main")))
	return "", &e
}
