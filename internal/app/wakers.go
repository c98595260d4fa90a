package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/task"
	"otm/slacklist"
)

// wakers are the ways to wake agents that the configuration needs. stop ends
// their connections.
func (h *Home) wakers(log *slog.Logger) (wakers map[pipeline.Trigger]dispatch.Waker, stop func()) {
	wakers = map[pipeline.Trigger]dispatch.Waker{}
	stop = func() {}
	for _, a := range h.Config.Agents {
		switch {
		case a.Person || wakers[a.Trigger] != nil:
		case a.Trigger == pipeline.TriggerExec:
			x := &dispatch.Exec{Dir: h.Dir, LogDir: h.LogDir(), PathDir: h.pathDir(), Secrets: h.Config.SecretEnv()}
			wakers[a.Trigger], h.waitAgents = x, x.Wait
		case a.Trigger == pipeline.TriggerGateway:
			client := h.gatewayClient(log, func(e gateway.End) { h.runEnded(log, e) })
			wakers[a.Trigger] = &gatewayWaker{client}
			stop = func() { client.Close() }
		}
	}
	return wakers, stop
}

func (h *Home) pathDir() string {
	if h.PathDir != "" {
		return h.PathDir
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}

// messageDir is the data directory as messages to agents name it: "" where
// they find it without.
func (h *Home) messageDir() string {
	onlyHome := func(key string) string { // agents need not have what else is set here
		if key == "HOME" {
			return h.Getenv(key)
		}
		return ""
	}
	if usual, err := config.DefaultDir(onlyHome); err == nil && usual == h.Dir {
		return ""
	}
	return h.Dir
}

// gatewayWaker wakes agents over the OpenClaw gateway.
type gatewayWaker struct{ client *gateway.Client }

// Wake implements dispatch.Waker.
func (g *gatewayWaker) Wake(ctx context.Context, r dispatch.Request) error {
	_, err := g.client.Run(ctx, r.Agent.GatewayAgent, r.Message, r.Key)
	var refused *gateway.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gateway.ErrLost):
		return fmt.Errorf("%w: %s%w", dispatch.ErrLost, cmp.Or(advice(err), adviceLost), err)
	case errors.As(err, &refused) && refused.UnknownAgent():
		return fmt.Errorf("%w: the gateway knows no agent %q: name the one that is meant with gateway_agent in [agents.%s] of otm.toml",
			dispatch.ErrRefused, r.Agent.GatewayAgent, r.Agent.Name)
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %w", dispatch.ErrRefused, err)
	case errors.Is(err, gateway.ErrOperator):
		return fmt.Errorf("%w: %s%w", dispatch.ErrRefused, advice(err), err)
	}
	return fmt.Errorf("%s%w", cmp.Or(advice(err), adviceUnsent), err)
}

// What to do where the gateway said nothing. Both pass by themselves once it
// answers again.
const (
	adviceUnsent = "start the gateway, or wait until it has started: openclaw gateway status; the wake is sent again by itself; "
	adviceLost   = "nothing to do unless it goes on, as the wake is asked for again under the same key; if it does: openclaw gateway status; "
)

// advice says what an operator can do about a gateway that lets us do nothing;
// "" where that is nothing in particular.
func advice(err error) string {
	if errors.Is(err, gateway.ErrTooLarge) {
		return "restart the gateway, as it sends more than we take: openclaw gateway restart; "
	}
	var auth *gateway.AuthError
	if !errors.As(err, &auth) {
		return ""
	}
	switch auth.Reason {
	case gateway.ReasonTokenWrong, gateway.ReasonTokenMissing:
		return "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names, or into its environment variable; "
	case gateway.ReasonTokenUnreadable:
		return "the file that gateway.token_file of otm.toml names must be readable; "
	case gateway.ReasonPairing:
		if auth.RequestID != "" {
			return "approve us at the gateway: openclaw devices approve " + safe.Quote(auth.RequestID) + "; "
		}
		return "use a loopback URL for the gateway, where no pairing is asked for; "
	case gateway.ReasonScope:
		return "the token must be allowed operator.write; "
	case gateway.ReasonProtocol:
		return "this version of the gateway is too old or too new for otm; "
	case gateway.ReasonSignature:
		return "set the clock of this machine: signatures are good for two minutes; "
	case gateway.ReasonEndpoint:
		return "check gateway.url of otm.toml; "
	case gateway.ReasonRefused:
		return "look for what the gateway says of it: openclaw logs; "
	}
	return ""
}

// runEnded records the end of a run that the gateway reported, and has the
// dispatcher look at once.
func (h *Home) runEnded(log *slog.Logger, e gateway.End) {
	end := dispatch.RunEnd{Key: e.RunID, At: h.Now(), Outcome: outcomeOf(e.Status), Detail: e.Message}
	if end.Outcome.Failed() {
		log.Warn("run failed at the gateway", "run", e.RunID, "err", e.Message)
	}
	if err := dispatch.RecordEnd(context.Background(), h.Store, end, h.Now()); err != nil {
		log.Warn("end of a run not recorded", "run", e.RunID, "err", err)
		return
	}
	if err := slacklist.TouchChanged(h.Dir); err != nil {
		log.Warn("dispatcher not told of the end of a run", "run", e.RunID, "err", err)
	}
}

func outcomeOf(s gateway.Status) pipeline.Outcome {
	switch s {
	case gateway.StatusOK:
		return pipeline.OutcomeOK
	case gateway.StatusTimeout:
		return pipeline.OutcomeTimeout
	}
	return pipeline.OutcomeFailed
}

// Ended implements dispatch.Waker.
func (g *gatewayWaker) Ended(ctx context.Context, key string) (dispatch.RunEnd, bool, error) {
	state, err := g.client.Wait(ctx, key)
	return dispatch.RunEnd{Key: key, At: state.EndedAt, Outcome: outcomeOf(state.Status)}, state.Ended, err
}

// Running implements dispatch.Waker: a gateway shows nothing of a busy agent.
func (g *gatewayWaker) Running(string) bool { return false }

// runExecHelper is what a binary does that was started to hold an agent's
// process.
func runExecHelper(s cli.Streams) int {
	open := func(dir string) pipeline.Records { return task.Open(dir, nil) }
	ended := func(dir string) { slacklist.TouchChanged(dir) }
	return dispatch.RunHelper(s.In, s.Out, nowFunc, open, ended)
}
