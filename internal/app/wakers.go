package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/dispatch/gateway"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/install"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/slacklist"
)

// newWakers returns the ways to wake agents that the configuration needs. A
// resident keeps its connection to the gateway. stop ends it.
func newWakers(h *Home, tasks core.Store, log *slog.Logger, resident bool) (wakers map[pipeline.Trigger]dispatch.Waker, stop func()) {
	wakers = map[pipeline.Trigger]dispatch.Waker{}
	stop = func() {}
	for _, a := range h.Config.Agents {
		if a.Trigger == pipeline.TriggerExec && wakers[a.Trigger] == nil {
			x := &dispatch.Exec{Dir: h.Dir, LogDir: h.LogDir(), PathDir: pathDir(h), Secrets: h.Config.SecretEnv(), Store: h.Config.Store.URL, Died: func() { slacklist.TouchChanged(h.Dir) }}
			wakers[a.Trigger], h.waitAgents = x, x.Wait
		}
	}
	if h.Config.UsesGateway() {
		wakers[pipeline.TriggerGateway], stop = newGatewayWaker(h, tasks, log, resident)
	} else if resident {
		os.Remove(dispatch.LinkPath(h.Dir)) // of a former configuration
	}
	return wakers, stop
}

// pathDir is the folder that is put in front of the PATH of agents.
func pathDir(h *Home) string { return cmp.Or(h.PathDir, install.Folder()) }

// messageDir is the data directory for messages to agents; "" if agents find it by
// themselves.
func messageDir(h *Home) string {
	onlyHome := func(key string) string { // agents may lack the rest of our environment
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
type gatewayWaker struct {
	client *gateway.Client
	notes  *gatewayNotes
}

func newGatewayWaker(h *Home, tasks core.Store, log *slog.Logger, resident bool) (w *gatewayWaker, stop func()) {
	n := &gatewayNotes{dir: h.Dir, tasks: tasks, log: log, now: h.Now}
	cfg := gatewayConfig(h, log)
	cfg.OnEnd = n.ended
	ctx, cancel := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	if resident {
		n.list = &agentList{dir: h.Dir, log: log, asked: n.listed, tell: n.tell, due: make(chan struct{}, 1)}
		n.link, _ = dispatch.ReadLink(h.Dir) // without it, its outages are forgotten
		n.turned = n.link.Since
		if n.link.Up {
			n.link.Since = time.Time{} // whether it was up since its process ended is not known
		}
		cfg.OnLink = n.linked
	}
	client := gateway.New(cfg)
	if resident {
		kept.Go(func() { n.list.keep(ctx, client) })
	}
	return &gatewayWaker{client, n}, func() {
		cancel()
		client.Close()
		kept.Wait()
	}
}

// agentList keeps the list of the gateway's agents in the data directory.
type agentList struct {
	dir   string
	log   *slog.Logger
	asked func() bool // called after each answer, or without one; true: the dispatcher is to look
	tell  func()      // has the dispatcher look
	due   chan struct{}
}

// ask has the gateway asked soon.
func (l *agentList) ask() {
	select {
	case l.due <- struct{}{}:
	default: // it is to be asked already
	}
}

// keep asks the gateway whenever that is due, until ctx ends. What it answers replaces the
// list; without an answer the list stays.
func (l *agentList) keep(ctx context.Context, client *gateway.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.due:
		}
		agents, err := client.Workspaces(ctx)
		changed := false
		if err == nil {
			list := pipeline.Map(agents, func(a gateway.Agent) config.Listed { return config.Listed{ID: a.ID, Workspace: a.Workspace} })
			changed, err = config.WriteList(l.dir, list)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Debug("agents of the gateway not known", "err", err)
		}
		if l.asked() || changed {
			l.tell()
		}
	}
}

// What an operator can do if the gateway said nothing. Both pass by themselves
// when it answers again.
const (
	adviceUnsent = "start the gateway, or wait until it has started: openclaw gateway status; the wake is sent again by itself"
	adviceLost   = "nothing to do unless it goes on, as the wake is repeated under the same key; if it does: openclaw gateway status"
)

// Wake implements dispatch.Waker. A turn that cannot be aborted goes on before the message.
func (g *gatewayWaker) Wake(ctx context.Context, r dispatch.Request) error {
	for _, key := range r.Abort {
		err := g.client.Abort(ctx, key)
		g.notes.log.Info("asked the gateway to abort a turn", "agent", r.Agent.Name, "run", key, "err", err)
	}
	return wakeError(r.Agent, g.client.Run(ctx, r.Agent.GatewayAgent, r.Message, r.Key))
}

// Ready implements dispatch.Waker: the gateway can be reached, and admits us.
func (g *gatewayWaker) Ready(ctx context.Context, a *pipeline.Agent) error {
	return wakeError(a, g.client.Connect(ctx))
}

// wakeError says what to do about an error of the client.
func wakeError(a *pipeline.Agent, err error) error {
	var refused *gateway.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gateway.ErrLost):
		return fmt.Errorf("%w: %s; %w", dispatch.ErrLost, cmp.Or(adviceOn(err), adviceLost), err)
	case errors.Is(err, gateway.ErrLater):
		return fmt.Errorf("the gateway takes no runs at the moment: it is starting or going down; the wake is sent again in 15 s, nothing to mend; %w", err)
	case !errors.As(err, &refused):
		return fmt.Errorf("%s; %w", cmp.Or(adviceOn(err), adviceUnsent), err)
	case refused.Reason == gateway.ReasonUnknownAgent:
		return fmt.Errorf("%w: the gateway knows no agent %q: %s", dispatch.ErrRefused, a.GatewayAgent, adviceUnknownAgent(a))
	case adviceOn(err) == "":
		return fmt.Errorf("%w: %w", dispatch.ErrRefused, err)
	}
	return fmt.Errorf("%w: %s; %w", dispatch.ErrRefused, adviceOn(err), err)
}

// Ended implements dispatch.Waker.
func (g *gatewayWaker) Ended(ctx context.Context, a *pipeline.Agent, key string) (core.EndStart, bool, error) {
	end, ended, goesOn, err := g.client.Ended(ctx, a.GatewayAgent, key)
	if goesOn {
		err = dispatch.ErrGoesOn
	}
	return startEnd(end), ended, err
}

func startEnd(e gateway.End) core.EndStart {
	end := core.EndStart{Key: e.RunID, Ended: e.At, Outcome: core.OutcomeFailed, Detail: e.Message, LastWords: e.LastWords, RetryAfter: e.RetryAfter}
	switch e.Status {
	case gateway.StatusOK:
		end.Outcome, end.Detail = core.OutcomeOK, "" // the message says why a run failed
	case gateway.StatusTimeout:
		end.Outcome = core.OutcomeTimeout
	}
	return end
}

// gatewayNotes writes into the data directory what the gateway reports by itself,
// and has the dispatcher look at once.
type gatewayNotes struct {
	dir   string
	tasks core.Store
	log   *slog.Logger
	now   func() time.Time
	link  dispatch.Link // as last written
	list  *agentList

	turned time.Time       // when the link of the former dispatcher changed last; zero: not known
	server *gateway.Server // the process that was reached last
	mu     sync.Mutex      // guards what follows
	seen   []dispatch.Start
	starts []dispatch.Start // those after which the gateway was asked for its agents
}

// listed has the starts that were seen noted, and reports whether there are any: by now it is
// known which agents the gateway has.
func (n *gatewayNotes) listed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starts, n.seen = append(n.starts, n.seen...), nil
	return len(n.starts) > 0
}

// takeStarts returns the starts of the gateway that are to be noted, once.
func (n *gatewayNotes) takeStarts() []dispatch.Start {
	n.mu.Lock()
	defer n.mu.Unlock()
	starts := n.starts
	n.starts = nil
	return starts
}

// reached notes who answers at the gateway. 2026.3.13, which has no boot id, forgets its
// runs when it ends, whoever follows it; 2026.9.6 goes on with its own.
func (n *gatewayNotes) reached(s *gateway.Server) {
	before := n.server
	n.server = s
	start := dispatch.Start{What: core.StartedGateway, Version: s.Version}
	switch {
	case before == nil && (s.BootID != "" || n.turned.IsZero() || !s.Began().After(n.turned)):
		return // as far as we know it is the one that the former dispatcher reached
	case before == nil:
		start.Lost = s.Began()
	case !s.Restarted(before):
		return
	case s.BootID == "" || before.BootID == "":
		start.Lost = n.now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, start)
}

// ended notes the end of a run.
func (n *gatewayNotes) ended(e gateway.End) {
	end := startEnd(e)
	news, err := dispatch.RecordEnd(context.Background(), n.tasks, end, n.now())
	if end.Outcome.Failed() && (news || err != nil) {
		n.log.Warn("run failed at the gateway", "run", end.Key, "err", end.Detail)
	}
	if err != nil {
		n.log.Warn("end of a run not recorded", "run", end.Key, "err", err)
	} else if news {
		n.tell()
	}
}

// linked notes that the connection was made, was lost or could not be made.
func (n *gatewayNotes) linked(s *gateway.Server, err error) {
	if err == nil {
		n.reached(s)
		n.list.ask()
	}
	was := n.link
	link := was.Turned(err == nil, n.now())
	link.Reason, link.Error, link.Next = "", "", adviceOn(err)
	if refused, ok := errors.AsType[*gateway.Error](err); ok {
		link.Reason = string(refused.Reason)
	}
	if err != nil {
		link.Error = err.Error()
	}
	if link.Since.Equal(was.Since) && link.Reason == was.Reason && link.Error == was.Error {
		return
	}
	n.link = link
	if err := dispatch.WriteLink(n.dir, link); err != nil {
		n.log.Warn("state of the gateway not written", "err", err)
	}
	if link.Up == was.Up && link.Reason == was.Reason && !was.Since.IsZero() {
		return
	}
	if !link.Up {
		n.log.Warn("gateway not reached", "since", link.Since, "err", link.Error)
	}
	n.tell()
}

// tell has the dispatcher look.
func (n *gatewayNotes) tell() {
	if err := slacklist.TouchChanged(n.dir); err != nil {
		n.log.Warn("dispatcher not told of a change at the gateway", "err", err)
	}
}

// runExecHelper is the main function of a process that holds an agent's process.
func runExecHelper(s cli.Streams) int {
	ended := func(dir string) { slacklist.TouchChanged(dir) }
	return dispatch.RunHelper(s.In, s.Out, nowFunc, openHelperStore, ended)
}

// gatewayConfig is how to reach the configured gateway.
func gatewayConfig(h *Home, log *slog.Logger) gateway.Config {
	return gateway.Config{
		URL: h.Config.Gateway.URL, Version: h.Version, Log: log,
		Token: func() (string, error) { return h.Config.Gateway.ReadToken(h.Getenv) },
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
