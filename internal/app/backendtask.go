package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"otm/core"
	"otm/core/store"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/inject"
)

// Create makes a task. On return the store has it; the components bring it to the board.
func (b *Backend) Create(ctx context.Context, r Request, t pipeline.Task) (*Answer, error) {
	if _, err := b.agent(r.Token, ""); err != nil {
		return nil, err
	}
	if err := drop.CheckTask(&t); err != nil {
		return nil, err
	}
	switch a := b.Home.Agents().Named(t.Agent); {
	case a != nil:
		t.Agent = a.Name
	case len(b.Home.Agents()) > 0 && !pipeline.IsSharedQueue(t.Agent):
		return nil, &FieldError{"agent", noAgent(b.Home, t.Agent, "do you mean %s?")}
	}
	if types := b.Home.Config.Types; !types.Has(t.Type) {
		return nil, &FieldError{"type", fmt.Errorf("there are %s", strings.Join(pipeline.Texts(types.All()), ", "))}
	}
	switch known, err := b.Home.Counter.Known(t.Parent); {
	case err != nil:
		return nil, err
	case !known:
		return nil, &FieldError{"parent", fmt.Errorf("there is no task %v", t.Parent)}
	}
	return b.once(ctx, r, "", func(s *store.Store, c core.Command) (o core.Outcome, _ string, err error) {
		if t.ID, err = b.Home.Counter.TakeOne(ctx); err != nil {
			return o, "", err
		}
		c.ID = cmp.Or(c.ID, pipeline.NewDropID())
		c.At, c.By, c.Task = b.Home.Now(), core.Component("otm"), t.ID
		c.Do = core.Request{Task: t, CreatedAt: c.At, Claims: r.Token.Name}
		return b.do(ctx, s, c)
	})
}

// Report carries out what an agent reports.
func (b *Backend) Report(ctx context.Context, r Request, u drop.Update) (*Answer, error) {
	a, err := b.agent(r.Token, u.By)
	if err != nil {
		return nil, err
	}
	if u.By = ""; a != nil {
		u.By = a.Name
	}
	if err := drop.CheckUpdate(&u); err != nil {
		return nil, err
	}
	return b.once(ctx, r, "", func(s *store.Store, c core.Command) (o core.Outcome, _ string, err error) {
		t, err := s.Task(ctx, u.TaskID)
		if err != nil {
			return o, "", err
		}
		now := b.Home.Now()
		u.ID, u.Trace = pipeline.NewDropID(), c.Trace
		report := inject.CommandOf(&u, inbox.File{Name: inbox.NewName(now, u.ID)}, t, b.Home.Agents(), b.Home.Config.Types, now)
		report.ID, report.Sum = cmp.Or(c.ID, report.ID), c.Sum
		if r.Token.Role.Steers() {
			report.By.Via = r.Token.Name
		}
		return b.do(ctx, s, report)
	})
}

// Say writes a message on a task, of an agent or else of a person.
func (b *Backend) Say(ctx context.Context, r Request, id pipeline.TaskID, agent string, m pipeline.Message) (*Answer, error) {
	a, err := b.agent(r.Token, agent)
	by := core.ByPerson(r.Token.Name)
	switch {
	case err != nil:
		return nil, err
	case a != nil:
		by = core.ByAgent(a.Name)
	case !r.Token.Role.Steers():
		return nil, &FieldError{"agent", errors.New("is missing: a bot speaks for an agent")}
	}
	m.Tag = cmp.Or(m.Tag, pipeline.TagNote)
	if err := drop.CheckMessage(&m); err != nil {
		return nil, err
	}
	if err := checkMessage(b.Home, &m); err != nil {
		return nil, &FieldError{"mentions", err}
	}
	return b.once(ctx, r, "", func(s *store.Store, c core.Command) (core.Outcome, string, error) {
		c.At, c.By, c.Task, c.Do = b.Home.Now(), by, id, core.Say{Message: m}
		return b.do(ctx, s, c)
	})
}

// Steering has the arguments of a command for a task.
type Steering struct {
	_         struct{} `additionalProperties:"false"`
	Reason    string   `json:"reason,omitempty" doc:"What the flag --reason of the command says"`
	To        string   `json:"to,omitempty" doc:"The new agent or priority"`
	AddSteps  []string `json:"addSteps,omitempty" doc:"Titles of steps to add"`
	DropSteps []string `json:"dropSteps,omitempty" doc:"Numbers or titles of steps to remove"`
	Reset     bool     `json:"reset,omitempty" doc:"As many retries as a new task has"`
}

// Steered is a command for a task, as the API shows it.
type Steered struct{ Name, Short, Needs string }

// TaskCommands are the commands for tasks.
func TaskCommands() (all []Steered) {
	for _, tc := range taskCommands {
		is := Steered{Name: tc.name, Short: tc.short}
		switch {
		case tc.value != "":
			is.Needs = "to"
		case tc.reason != "" && !tc.optional:
			is.Needs = "reason"
		}
		all = append(all, is)
	}
	return all
}

// asked returns the edits that a request asks for. The error is a *FieldError.
func (tc *taskCommand) asked(h *Home, id pipeline.TaskID, s Steering) (core.Edits, error) {
	for _, f := range []struct {
		name              string
		takes, given, has bool
	}{
		{"reason", tc.reason != "", strings.TrimSpace(s.Reason) != "", !tc.optional},
		{"to", tc.value != "", s.To != "", true},
		{"addSteps", tc.steps, len(s.AddSteps) > 0, false},
		{"dropSteps", tc.steps, len(s.DropSteps) > 0, false},
		{"reset", tc.resets, s.Reset, false},
	} {
		switch {
		case f.given && !f.takes:
			return core.Edits{}, &FieldError{f.name, fmt.Errorf("%s takes none", tc.name)}
		case f.takes && f.has && !f.given:
			return core.Edits{}, &FieldError{f.name, errors.New("is missing")}
		}
	}
	e, err := tc.edits(h, id.String(), s.To, s.Reason)
	if err != nil {
		field := "reason"
		if tc.value != "" {
			field = "to"
		}
		return e, &FieldError{field, err}
	}
	e.Reset = s.Reset
	if err := addSteps(&e, s.AddSteps, s.DropSteps); err != nil {
		return e, &FieldError{"addSteps", err}
	}
	return e, nil
}

// Steer carries out a command on a task.
func (b *Backend) Steer(ctx context.Context, r Request, name string, id pipeline.TaskID, asked Steering) (*Answer, error) {
	h, tc := b.Home, taskCommandNamed(name)
	by, err := b.steerer(r.Token)
	if err != nil {
		return nil, err
	}
	edits, err := tc.asked(h, id, asked)
	if err != nil {
		return nil, err
	}
	return b.once(ctx, r, "", func(s *store.Store, c core.Command) (o core.Outcome, _ string, err error) {
		t, err := s.Task(ctx, id)
		if err != nil {
			return o, "", err
		}
		// The board may be slow, and others work on it: the components write it. What a person
		// did there meanwhile stands, whatever is asked for now.
		e, err := newEngine(ctx, h, "otm", nil, b.Log)
		if err != nil {
			return o, "", err
		}
		c.By, c.Task = by, id
		is, err := tc.one(ctx, h, e, c, edits)
		refused, _ := errors.AsType[*core.Refused](is.outcome.Err)
		other := refused != nil && refused.Rule == core.RuleOtherDrop // Backend.once answers that
		if err == nil && is.Error != "" && !other {
			err = &RefusedError{Reason: is.TaskID + " " + is.Error, Allowed: is.For, Can: is.Can}
		}
		if is.outcome.Task == nil { // nothing was to be done
			is.outcome.Task = t
		}
		return is.outcome, is.Note, err
	})
}
