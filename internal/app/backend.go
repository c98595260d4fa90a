package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"otm/core"
	"otm/core/store"
	"otm/internal/tokens"
	"otm/pipeline"
	"otm/slacklist"
)

// NewAPI makes the HTTP API that is served beside the page. Only the command otm sets it, so
// the others do not link the API.
var NewAPI func(b *Backend) http.Handler

// Backend does what the commands do, for the HTTP API. Errors are those of the commands, and
// *RoleError, *FieldError, *RefusedError, *KeyError, *drop.InvalidError, core.ErrNoTask.
type Backend struct {
	Home *Home
	Log  *slog.Logger

	board sharedSnapshot
}

// NewBackend returns the backend of a data directory.
func NewBackend(h *Home, log *slog.Logger) *Backend {
	return &Backend{Home: h, Log: log}
}

// Request is who asks for a change, and with which key: the same request with the same key
// is carried out once.
type Request struct {
	Token *tokens.Token
	Key   string // "": it is never a repeat
	Sum   string // of what it asks for
	Trace pipeline.Trace
}

// Answer is the result of a request.
type Answer struct {
	TaskID pipeline.TaskID `json:"taskId,omitempty"`
	Agent  string          `json:"agent,omitempty" doc:"The agent that was paused or resumed"`
	Status pipeline.Status `json:"status,omitempty" doc:"To which the request led; absent where the status stayed"`
	// Sequence is 0 where nothing was to be done.
	Sequence int64  `json:"sequence,omitempty" doc:"Number of the last event that the request caused; absent where nothing was to be done"`
	Note     string `json:"note,omitempty" doc:"What else to know now; a repeated request gets none"`
}

// RoleError says that a token does not permit something.
type RoleError struct {
	Token *tokens.Token
	Needs string
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("the token %q has the role %s: this takes %s", e.Token.Name, e.Token.Role, e.Needs)
}

// FieldError says what is wrong with a field of a request.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// RefusedError says that a request contradicts the state of its task.
type RefusedError struct {
	Reason  string
	Allowed []pipeline.Status // the statuses that permit it; empty: it is not refused for the status
	Can     []string          // the commands for the task as it is, the likely ones first
}

func (e *RefusedError) Error() string { return e.Reason }

// KeyError says that a key stands for another request.
type KeyError struct{ Key string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("the key %q was used for another request: give each request a key of its own", e.Key)
}

// keyID is the id of the command for a key. Each token has keys of its own, also if a former one
// had its name. No drop can have the id: see core.DropCommand.
func keyID(t *tokens.Token, key string) string {
	sum := sha256.Sum256([]byte(t.Hash + "\n" + key))
	return "api " + hex.EncodeToString(sum[:])
}

// once carries a request out once: a repeated request gets the answer of the first one. agent
// is the agent whose state it concerns; "": it concerns a task.
func (b *Backend) once(ctx context.Context, r Request, agent string, do func(s *store.Store, c core.Command) (core.Outcome, string, error)) (*Answer, error) {
	s, err := b.Home.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	c := core.Command{Sum: r.Sum, Trace: r.Trace}
	if r.Key != "" {
		c.ID = keyID(r.Token, r.Key)
	}
	if a, err := b.repeated(ctx, s, r, c, agent); a != nil || err != nil {
		return a, err
	}
	o, note, err := do(s, c)
	var refused *core.Refused
	switch {
	case err != nil:
		return nil, err
	case o.Before, errors.As(o.Err, &refused) && refused.Rule == core.RuleOtherDrop: // another request was faster
		return b.repeated(ctx, s, r, c, agent)
	case refused != nil:
		return nil, &RefusedError{Reason: refused.Error(), Allowed: reportable(refused)}
	case errors.Is(o.Err, core.ErrNotYet):
		return nil, &RefusedError{Reason: "the task was not handed out yet"}
	case o.Err != nil:
		return nil, o.Err
	}
	if err := slacklist.TouchChanged(b.Home.Dir); err != nil { // the components look by themselves later
		b.Log.Warn("change not announced", "err", err)
	}
	a := answerOf(agent, o.Events)
	a.Note = note
	if o.Task != nil {
		a.TaskID = o.Task.ID
	}
	return a, nil
}

// reportable lists the statuses that permit a report; none: it was not refused for the status.
func reportable(r *core.Refused) (in []pipeline.Status) {
	switch r.Rule {
	case core.RuleMove, core.RuleOver, core.RuleStepsStay:
		for _, s := range pipeline.Statuses {
			if s != r.From && (s.Active() || s == pipeline.New && r.By.Kind == core.Worker) {
				in = append(in, s)
			}
		}
	}
	return in
}

// repeated returns the answer to a request that was carried out before; nil: it was not.
func (b *Backend) repeated(ctx context.Context, s *store.Store, r Request, c core.Command, agent string) (*Answer, error) {
	if c.ID == "" {
		return nil, nil
	}
	done, did, err := s.Did(ctx, c.ID)
	switch {
	case err != nil || !did:
		return nil, err
	case done.Sum != c.Sum:
		return nil, &KeyError{r.Key}
	}
	f := core.EventFilter{Task: done.Task, Archived: true}
	if done.Task == 0 {
		f.Agent = agent
	}
	events, err := s.Events(ctx, f)
	if err != nil {
		return nil, err
	}
	a := answerOf(agent, slices.DeleteFunc(events, func(e core.Event) bool { return e.Cause != c.ID }))
	a.TaskID = done.Task
	return a, nil
}

func answerOf(agent string, events []core.Event) *Answer {
	a := &Answer{Agent: agent}
	for i := range events {
		a.Sequence = events[i].Seq
		switch e := events[i].Data.(type) {
		case core.TaskRequested:
			a.Status = e.Status
		case core.TaskMoved:
			a.Status = e.To
		}
	}
	return a
}

// do carries out a command on a task, and brings it to the files of agents. The board is left
// to the components: it may be slow.
func (b *Backend) do(ctx context.Context, s *store.Store, c core.Command) (core.Outcome, string, error) {
	outcomes, err := s.Do(ctx, c)
	if err != nil {
		return core.Outcome{}, "", err
	}
	if len(outcomes[0].Events) > 0 {
		shown(ctx, b.Home, c.Task)
	}
	return outcomes[0], "", nil
}

// Token returns the token with a secret; nil: there is none, or it was revoked.
func (b *Backend) Token(secret string) (*tokens.Token, error) {
	return tokens.Open(b.Home.Dir).Find(secret)
}

// bound returns the only agent for whom a bot's token acts: the one for whom it was made, or
// else the one whose name it has. nil: there is none. The error is a *RoleError: the token was
// made for an agent that is no longer known.
func (b *Backend) bound(t *tokens.Token) (*pipeline.Agent, error) {
	if t.Role != tokens.Bot {
		return nil, nil
	}
	a := aiNamed(b.Home, cmp.Or(t.Agent, t.Name))
	if a == nil && t.Agent != "" {
		return nil, &RoleError{t, "the agent " + t.Agent + ", for whom it was made, and who is not known here now"}
	}
	return a, nil
}

// aiNamed returns the AI agent of a name; nil: none is known.
func aiNamed(h *Home, name string) *pipeline.Agent {
	if a := h.Agents().Named(name); a != nil && !a.Person {
		return a
	}
	return nil
}

// steerer returns for whom a token steers tasks and agents. The error is a *RoleError.
func (b *Backend) steerer(t *tokens.Token) (core.Actor, error) {
	switch a, err := b.bound(t); {
	case err != nil:
		return core.Actor{}, err
	case t.Role.Steers():
		return core.ByPerson(t.Name), nil
	case a != nil && slices.Contains(b.Home.Config.Reviewers, a.Name):
		return core.ByReviewer(a.Name), nil
	}
	return core.Actor{}, &RoleError{t, "an operator, an owner, or a bot with the name of an agent that [review] agents names"}
}

// agent returns the AI agent that a request names, or else the one that its token is bound
// to; nil: neither. The error is a *RoleError or a *FieldError.
func (b *Backend) agent(t *tokens.Token, name string) (*pipeline.Agent, error) {
	if t.Role == tokens.Viewer {
		return nil, &RoleError{t, "a bot, an operator or an owner"}
	}
	own, err := b.bound(t)
	if name == "" || err != nil {
		return own, err
	}
	a := b.Home.Agents().Named(name)
	switch {
	case a == nil:
		return nil, &FieldError{"agent", noAgent(b.Home, name, "do you mean %s?")}
	case a.Person:
		return nil, &FieldError{"agent", fmt.Errorf("%s is a person: this is for AI agents", a.Name)}
	case own != nil && own != a:
		return nil, &RoleError{t, "the token of a bot that is called " + a.Name}
	}
	return a, nil
}
