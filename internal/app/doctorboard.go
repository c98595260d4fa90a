package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"otm/dispatch"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// board checks that the board answers, lets us work, and has what is needed.
func (d *doctor) board(ctx context.Context) {
	where, err := d.home.boards().find()
	if errors.Is(err, errNoBoard) {
		d.say("board", explain.BoardNotRunning, "start", d.home.startCommand())
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
	var be *pipeline.BoardError
	if errors.As(err, &be) && !be.Credentials && be.Class == pipeline.Transient {
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
	in, err := client.Inspect(ctx, d.home.Config.Agents)
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
	agents := d.home.Config.Agents
	for i := range agents {
		a := &agents[i]
		if a.Person || v != nil && len(v.AgentProblems(a)) > 0 {
			continue
		}
		if f := checkAgent(a); f != nil {
			d.add("agents", *f)
		}
	}
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
			f := explain.New(explain.WorkspaceLocked, "agent", a.Name, "path", a.Workspace, "error", err)
			return &f, nil
		}
		os.Remove(probe)
		return dispatch.CommandProblem(a), nil
	})
	if err != nil {
		f := explain.New(explain.WorkspaceSilent, "agent", a.Name, "path", a.Workspace)
		return &f
	}
	return found
}
