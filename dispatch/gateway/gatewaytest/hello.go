package gatewaytest

import (
	"fmt"
	"strings"
	"time"
)

// hello is the payload of hello-ok, shaped and sized like the real one. The
// caller holds mu.
func (c greeting) hello(deviceToken string) object {
	g := c.p.g
	server := object{"version": g.profile.Version, "connId": uuid()}
	if g.profile.bootID {
		server["bootId"] = c.p.bootID
		server["buildId"] = "fake"
	}
	hello := object{
		"type": "hello-ok", "protocol": g.profile.Protocol, "server": server,
		"features": object{
			"methods": g.profile.methodNames(),
			"events":  []string{"agent", "chat", "presence", "tick", "shutdown", "health"},
		},
		"snapshot": object{
			"presence": []any{}, "health": object{}, "stateVersion": object{"presence": 1, "health": 2},
			"uptimeMs": time.Since(c.p.began).Milliseconds(),
			"sessionDefaults": object{
				"defaultAgentId": g.o.Agents[0].ID, "mainKey": "main",
				"mainSessionKey": mainSession(g.o.Agents[0].ID), "scope": "per-sender",
			},
		},
		"policy": object{"maxPayload": frameLimit, "maxBufferedBytes": 2 * frameLimit, "tickIntervalMs": 30000},
	}
	auth := object{"role": "operator", "scopes": c.scopes}
	if g.profile.tellsScopes {
		auth["method"] = "token"
		hello["auth"] = auth
	}
	if deviceToken != "" {
		auth["deviceToken"] = deviceToken
		hello["auth"] = auth
	}
	if g.padHello > 0 {
		hello["padding"] = strings.Repeat("x", g.padHello)
	}
	return hello
}

// methodNames fills the list up to the length that makes the size.
func (p Profile) methodNames() []string {
	names := []string{"health", "status", "agents.list", "agent", "agent.wait", "sessions.list"}
	if p.aborts {
		names = append(names, "sessions.abort", "tasks.list")
	}
	for i := len(names); i < p.methodCount; i++ {
		names = append(names, fmt.Sprintf("plugin.feature%03d.get", i))
	}
	return names
}
