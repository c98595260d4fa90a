package app

import (
	"errors"
	"fmt"
	"log/slog"

	"otm/dispatch/gateway"
	"otm/internal/safe"
	"otm/pipeline"
)

// gatewayConfig is how to reach the configured gateway.
func gatewayConfig(h *Home, log *slog.Logger) gateway.Config {
	return gateway.Config{
		URL: h.Config.Gateway.URL, Version: h.Version, Log: log, Now: h.Now,
		Token: func() (string, error) { return h.Config.GatewayToken(h.Getenv) },
	}
}

// gatewayAdvice is what an operator can do about each refusal.
var gatewayAdvice = map[gateway.Reason]string{
	gateway.ReasonTokenWrong:      "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names, or into its environment variable",
	gateway.ReasonTokenMissing:    "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names, or into its environment variable",
	gateway.ReasonTokenUnreadable: "the file that gateway.token_file of otm.toml names must be readable",
	gateway.ReasonPairing:         "OTM must reach the gateway on loopback, which asks for no pairing: run OTM on its machine, or make a tunnel (ssh -L 18789:127.0.0.1:18789 HOST) and use ws://127.0.0.1:18789",
	gateway.ReasonScope:           "the token must be allowed operator.write; then restart OTM",
	gateway.ReasonProtocol:        "this version of the gateway is too old or too new for otm",
	gateway.ReasonSignature:       "set the clock of this machine: signatures are good for two minutes",
	gateway.ReasonEndpoint:        "check gateway.url of otm.toml",
	gateway.ReasonRefused:         "see what the gateway logged: openclaw logs",
}

// adviceOn returns what an operator can do about a gateway that refuses us; "" if
// nothing in particular.
func adviceOn(err error) string {
	var refused *gateway.Error
	if !errors.As(err, &refused) {
		return ""
	}
	return gatewayAdvice[refused.Reason]
}

// adviceUnknownAgent is what to do about an agent that the gateway does not have.
func adviceUnknownAgent(a *pipeline.Agent) string {
	return fmt.Sprintf("add it: openclaw agents add %s; or name another one with gateway_agent in [agents.%s] of otm.toml",
		safe.Quote(a.GatewayAgent), a.Name)
}
