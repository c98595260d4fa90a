package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"otm/dispatch/gateway"
	"otm/internal/safe"
	"otm/pipeline"
)

// gateway checks that the gateway is there, lets us wake, and knows the agents.
func (d *doctor) gateway(ctx context.Context) {
	h := d.home
	var mine []*pipeline.Agent
	for i := range h.Config.Agents {
		if a := &h.Config.Agents[i]; !a.Person && a.Trigger == pipeline.TriggerGateway {
			mine = append(mine, a)
		}
	}
	if len(mine) == 0 {
		return
	}
	client := gateway.New(gatewayConfig(h, slog.New(slog.DiscardHandler)))
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	hello, err := client.Hello(ctx)
	if err == nil && hello.Scopes == nil { // only a call shows what 2026.3.13 allows
		_, _, err = client.Wait(ctx, "otm-doctor")
	}
	switch {
	case err != nil:
		d.say("gateway", bad, cmp.Or(adviceOn(err), "openclaw gateway status"), "%s: %v", h.Config.Gateway.URL, err)
		return
	case !hello.MayWrite():
		d.say("gateway", bad, "use a token that is allowed operator.write", "the token may not run agents")
		return
	}
	d.say("gateway", fine, "", "%s, version %s", h.Config.Gateway.URL, hello.Version)
	d.gatewayAgents(ctx, client, mine)
}

// gatewayAgents compares our agents with those of the gateway.
func (d *doctor) gatewayAgents(ctx context.Context, client *gateway.Client, mine []*pipeline.Agent) {
	known, err := client.Agents(ctx)
	if err != nil {
		d.say("gateway", poor, "openclaw agents list", "its agents are not known: %v", err)
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
			d.say("gateway", bad, adviceUnknownAgent(a), "it knows no agent %q; it has %s", a.GatewayAgent, strings.Join(names, ", "))
		case elsewhere(ws, a.Workspace):
			d.say("gateway", poor, fmt.Sprintf("workspace = %q   # in [agents.%s] of otm.toml", ws, a.Name), "%s works in %s, and will not see its dispatch file in %s", a.GatewayAgent, ws, a.Workspace)
		}
	}
	mine = slices.DeleteFunc(mine, func(a *pipeline.Agent) bool { _, ok := workspaces[a.GatewayAgent]; return !ok })
	d.gatewaySkills(ctx, client, mine)
}

// gatewaySkills looks for agents that have our skill and are not told of it.
func (d *doctor) gatewaySkills(ctx context.Context, client *gateway.Client, agents []*pipeline.Agent) {
	troubles, err := skillTroubles(ctx, client, agents)
	if err != nil {
		d.say("gateway", poor, "openclaw skills check", "whether the agents have the skill %s is not known: %v", skillName, err)
	}
	for _, t := range troubles {
		switch {
		case len(t.Missing) > 0:
			d.say("gateway", bad,
				fmt.Sprintf("ln -s %s/otm* ~/.local/bin/   # or put that folder on the PATH of the gateway's service; then: openclaw gateway restart", safe.Quote(d.home.pathDir())),
				"%s has the skill %s and is not told of it: the gateway process does not find %s on its PATH", t.Agent.GatewayAgent, skillName, strings.Join(t.Missing, ", "))
		case t.Disabled:
			d.say("gateway", poor, "openclaw config set skills.entries."+skillName+".enabled true", "%s has the skill %s, which is disabled in openclaw.json", t.Agent.GatewayAgent, skillName)
		default:
			d.say("gateway", poor, "openclaw skills info "+skillName, "%s has the skill %s, and the gateway does not take it for eligible", t.Agent.GatewayAgent, skillName)
		}
	}
}

// elsewhere reports whether the workspace that the gateway names is another
// folder than ours. A folder that is missing here proves nothing: the agent may
// never have run, or its gateway may be on another machine. 2026.3.13 names none.
func elsewhere(theirs, ours string) bool {
	a, err := os.Stat(theirs)
	if err != nil {
		return false
	}
	b, err := os.Stat(ours)
	return err == nil && !os.SameFile(a, b)
}
