package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// board checks that the board answers, lets us work, and has what is needed. v
// may be nil.
func (d *doctor) board(ctx context.Context, v *view.View) {
	where, err := d.home.boards().find()
	if errors.Is(err, errNoBoard) {
		d.say("board", explain.BoardNotRunning, "start", startCommand(d.home.Dir, d.home.Getenv))
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
	d.list(in, where.ListID, v)
	d.otherDirectory()
}

// list checks that the list has what is needed, and takes what is written. v
// may be nil.
func (d *doctor) list(in *slacklist.Inspection, id string, v *view.View) {
	for _, f := range in.Findings {
		code := explain.ListLacks
		if f.Optional {
			code = explain.ListLacksSome
		}
		d.say("list", code, "error", f.MissingError, "hint", missingHint(f.MissingError))
	}
	room := view.Board{Snapshot: &slacklist.Snapshot{Count: in.Rows, Limit: in.Limit}}
	switch {
	case room.Full():
		d.say("room", explain.ListFullAt, "rows", in.Rows, "limit", in.Limit)
	case room.NearlyFull():
		d.say("room", explain.ListNearlyFull, "rows", in.Rows, "limit", in.Limit)
	case room.RowLimit() > 0:
		d.say("room", explain.RoomLimited, "rows", in.Rows, "limit", in.Limit)
	default:
		d.say("room", explain.RoomOK, "rows", in.Rows)
	}
	// We have just read it. That Slack knows no such list when a component writes
	// means that it is shared for reading only (C22).
	readOnly := v != nil && (v.Component(heartbeat.Injector).Has(explain.ListReadOnly) ||
		v.Component(heartbeat.Dispatcher).Has(explain.ListReadOnly) || v.Component(heartbeat.Detector).Has(explain.ListReadOnly))
	switch {
	case readOnly:
		d.say("list", explain.ListReadOnly)
	case len(in.Findings) == 0:
		code := explain.ListOK
		if d.home.Config.Slack.ListID == "" {
			code = explain.ListOKEmbedded
		}
		d.say("list", code, "list", id, "title", in.Title)
	}
}

// otherDirectory looks for tasks on the board that our token made and that this
// directory does not know: two directories on one list disturb each other.
func (d *doctor) otherDirectory() {
	snap, err := d.home.snapshot()
	if err != nil || snap.Self == "" {
		return
	}
	foreign := 0
	for i := range snap.Rows {
		row := &snap.Rows[i]
		if row.Parent != "" || row.Task() == 0 || row.CreatedBy != snap.Self {
			continue
		}
		if rec, err := recordOf(d.home.Store, row.Task()); err == nil && (rec == nil || rec.RowID != "" && rec.RowID != row.ID) {
			foreign++
		}
	}
	if foreign > 0 {
		d.say("list", explain.ListShared, "n", foreign)
	}
}

// agents checks each agent: what status counts about it, and besides that its
// workspace can be written to and its command found. v may be nil.
func (d *doctor) agents(v *view.View) {
	agents := d.home.Config.Agents
	if len(agents) == 0 {
		d.say("agents", explain.NoAgents, "config", filepath.Join(d.home.Dir, "otm.toml"))
		return
	}
	if v == nil { // the inboxes cannot be read: the agents can be looked at all the same
		v = &view.View{Sources: viewSources(d.home, nil)}
	}
	for i := range agents {
		a := &agents[i]
		if a.Person {
			continue
		}
		found := v.AgentProblems(a)
		if len(found) == 0 {
			if f := checkAgent(a); f != nil {
				found = append(found, *f)
			}
		}
		for _, f := range found {
			d.add("agents", f)
		}
		if len(found) == 0 {
			d.say("agents", explain.AgentOK, "agent", a.Name, "trigger", triggerWords(a.Trigger), "path", a.Workspace)
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
