package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// board checks that the board answers, lets us work, and has what is needed.
func (d *doctor) board(ctx context.Context) {
	where, err := findBoard(d.home)
	if errors.Is(err, errNoBoard) {
		d.say("board", explain.BoardNotRunning, "start", d.home.startOf("otm board"))
		return
	}
	if err != nil {
		d.failed("board", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	client := slacklist.New(where)
	id, err := client.Identify(ctx)
	if be, ok := errors.AsType[*pipeline.BoardError](err); ok && !be.Credentials && be.Class == pipeline.Transient {
		d.say("board", explain.BoardSilent, "url", where.URL, "error", err)
		return
	}
	if err != nil {
		d.failed("board", err)
		return
	}
	if lacks := id.MissingScopes(); len(lacks) > 0 {
		d.say("board", explain.ScopesMissing, "scopes", strings.Join(lacks, ", "))
	} else {
		d.say("board", explain.BoardOK, "url", where.URL, "name", id.Name, "team", id.Team)
	}
	in, err := client.Inspect(ctx, d.home.Config.Agents, d.home.Config.Types)
	if err != nil {
		d.failed("board", err)
		return
	}
	d.check("list", explain.New(explain.ListOK, "list", where.ListID, "title", in.Title), func() {
		for _, f := range in.Findings {
			code := explain.ListLacks
			if f.Optional {
				code = explain.ListLacksSome
			}
			d.say("list", code, "error", f.MissingError, "hint", missingHint(f.MissingError))
		}
	})
}

// agents checks that each agent's workspace can be written to and its command be
// found, unless the state tells of the agent already. v may be nil.
func (d *doctor) agents(v *view.View) {
	agents := d.home.Agents()
	for i := range agents {
		a := &agents[i]
		if a.Person || !concerned(v, a) || v != nil && len(v.AgentProblems(a)) > 0 {
			continue
		}
		if f := checkAgent(a); f != nil {
			d.add("agents", *f)
		}
	}
}

// concerned reports whether it matters here how an agent is. v may be nil.
func concerned(v *view.View, a *pipeline.Agent) bool {
	return a.Source == pipeline.SourceOTM || v != nil && view.Concerns(v, a)
}

// triggerWords says how an agent comes to its tasks.
func triggerWords(t pipeline.Trigger) string {
	switch t {
	case "":
		return "person"
	case pipeline.TriggerNone:
		return "starts by itself (trigger none)"
	}
	return string(t)
}

// checkAgent returns what is wrong with an agent whose workspace is there; nil:
// nothing is.
func checkAgent(a *pipeline.Agent) *explain.Finding {
	found, err := patience.Read(a.Workspace, patience.Reader, nil, func() (*explain.Finding, error) {
		probe := filepath.Join(a.Workspace, durable.TempPrefix+"doctor")
		if err := durable.ReplaceVolatile(probe, nil); err != nil {
			return new(explain.New(explain.WorkspaceLocked, "agent", a.Name, "path", a.Workspace, "error", err)), nil
		}
		os.Remove(probe)
		return dispatch.CommandProblem(a), nil
	})
	if err != nil {
		return new(explain.New(explain.WorkspaceSilent, "agent", a.Name, "path", a.Workspace))
	}
	return found
}

// gateway checks that the gateway is there, lets us wake, and knows the agents. v may be nil.
func (d *doctor) gateway(ctx context.Context, v *view.View) {
	h := d.home
	if !h.Config.UsesGateway() {
		return
	}
	var mine []*pipeline.Agent
	agents := h.Agents()
	for i := range agents {
		if a := &agents[i]; !a.Person && a.Trigger == pipeline.TriggerGateway && concerned(v, a) {
			mine = append(mine, a)
		}
	}
	client := gateway.New(gatewayConfig(h, slog.New(slog.DiscardHandler)))
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	version, err := client.Hello(ctx)
	if err == nil { // only a call shows whether we may run agents
		_, _, err = client.Wait(ctx, "otm-doctor")
	}
	if err != nil {
		d.say("gateway", explain.GatewayBad, "url", h.Config.Gateway.URL, "error", err, "hint", cmp.Or(adviceOn(err), "openclaw gateway status"))
		return
	}
	d.say("gateway", explain.GatewayOK, "url", h.Config.Gateway.URL, "version", version)
	d.gatewayAgents(ctx, client, mine)
}

// gatewayAgents compares our agents with those of the gateway.
func (d *doctor) gatewayAgents(ctx context.Context, client *gateway.Client, mine []*pipeline.Agent) {
	known, err := client.Agents(ctx)
	if err != nil {
		d.say("gateway", explain.GatewayNoList, "error", err)
		return
	}
	workspaces := map[string]string{}
	var names []string
	for _, a := range known {
		workspaces[a.ID] = a.Workspace
		names = append(names, a.ID)
	}
	for _, a := range mine {
		ws, ok := workspaces[a.GatewayAgent]
		switch {
		case !ok:
			d.say("gateway", explain.GatewayNoAgent, "name", a.GatewayAgent, "names", strings.Join(names, ", "), "hint", adviceUnknownAgent(a))
		case elsewhere(ws, a.Workspace):
			d.say("gateway", explain.GatewayOther, "name", a.GatewayAgent, "agent", a.Name, "theirs", ws, "ours", a.Workspace)
		}
		if ok {
			d.gatewaySkill(ctx, client, a.GatewayAgent)
		}
	}
}

// skillName is the name of our skill, in its front matter.
const skillName = "otm"

// gatewaySkill says why an agent that has our skill is not told of it. An agent without
// the skill is no trouble: its AGENTS.md may do instead.
func (d *doctor) gatewaySkill(ctx context.Context, client *gateway.Client, name string) {
	skill, has, err := client.Skill(ctx, name, skillName)
	code := explain.SkillIneligible
	switch {
	case err != nil:
		d.say("gateway", explain.SkillUnknown, "name", name, "skill", skillName, "error", err)
		return
	case !has || skill.Eligible:
		return
	case len(skill.Missing.Bins) > 0:
		code = explain.SkillPath
	case skill.Disabled:
		code = explain.SkillDisabled
	}
	d.say("gateway", code, "name", name, "skill", skillName, "missing", strings.Join(skill.Missing.Bins, ", "), "path", pathDir(d.home))
}

// elsewhere reports whether the workspace that the gateway names is another
// folder than ours. A folder that is missing here proves nothing: the agent may
// never have run, or its gateway may be on another machine. 2026.3.13 names none.
func elsewhere(theirs, ours string) bool {
	a, err := statPatiently(theirs)
	if err != nil {
		return false
	}
	b, err := statPatiently(ours)
	return err == nil && !os.SameFile(a, b)
}
