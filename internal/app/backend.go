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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"otm/core"
	"otm/core/store"
	"otm/dispatch"
	"otm/internal/tokens"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/inject"
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
	switch known, err := b.issued(t.Parent); {
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

// issued reports whether an id was given out, or a drop that waits bears it. 0, which is no
// task, counts as given out.
func (b *Backend) issued(id pipeline.TaskID) (bool, error) {
	if issued, err := b.Home.Counter.Issued(id); issued || err != nil {
		return issued, err
	}
	return b.Home.Counter.InInbox(id)
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
		if err == nil && is.Error != "" && !isOther(is.outcome.Err) {
			err = &RefusedError{Reason: is.TaskID + " " + is.Error, Allowed: is.For, Can: is.Can}
		}
		if is.outcome.Task == nil { // nothing was to be done
			is.outcome.Task = t
		}
		return is.outcome, is.Note, err
	})
}

func isOther(err error) bool {
	var refused *core.Refused
	return errors.As(err, &refused) && refused.Rule == core.RuleOtherDrop
}

// Pause pauses an agent until Resume.
func (b *Backend) Pause(ctx context.Context, r Request, name, reason string) (*Answer, error) {
	reason, err := pauseReason(reason)
	if err != nil {
		return nil, &FieldError{"reason", err}
	}
	return b.steerAgent(ctx, r, name, func(c core.Command, a *pipeline.Agent) (steeredAgent, error) {
		return pause(ctx, b.Home, c, a, reason)
	})
}

// Resume ends a pause, and has an agent started again.
func (b *Backend) Resume(ctx context.Context, r Request, name string) (*Answer, error) {
	return b.steerAgent(ctx, r, name, func(c core.Command, a *pipeline.Agent) (steeredAgent, error) {
		return resume(ctx, b.Home, c, a, true)
	})
}

func (b *Backend) steerAgent(ctx context.Context, r Request, name string, do func(core.Command, *pipeline.Agent) (steeredAgent, error)) (*Answer, error) {
	by, err := b.steerer(r.Token)
	if err != nil {
		return nil, err
	}
	a, err := aiAgent(b.Home, name, "this")
	switch {
	case err != nil:
		return nil, &FieldError{"path.agent", err}
	case by.Kind == core.Reviewer && by.Name == a.Name:
		return nil, &RoleError{r.Token, "somebody else than the agent itself"}
	}
	return b.once(ctx, r, a.Name, func(_ *store.Store, c core.Command) (core.Outcome, string, error) {
		c.By = by
		is, err := do(c, a)
		return is.outcome, is.Text, err
	})
}

// Next takes the next task of an agent; nil: none waits, or a person has paused the agent.
func (b *Backend) Next(ctx context.Context, t *tokens.Token, name string, another bool) (*dispatch.Taken, *Paused, error) {
	a, err := b.agent(t, name)
	var wrong *FieldError
	switch {
	case errors.As(err, &wrong):
		return nil, nil, &FieldError{"path.agent", wrong.Err}
	case err != nil:
		return nil, nil, err
	}
	d, taken, err := take(ctx, b.Home, a, another)
	var paused *dispatch.PausedError
	switch {
	case errors.As(err, &paused):
		return nil, pausedOf(paused), nil
	case err != nil || taken == nil:
		return nil, nil, err
	}
	mentions, readTo, err := d.Mentions(ctx, a.Name)
	if err != nil {
		return nil, nil, err
	}
	taken.Messages = append(taken.Messages, mentions...)
	return taken, nil, d.MentionsRead(ctx, a.Name, readTo)
}

// Retry puts a failed drop back into its inbox. The error may be ErrNotFailed.
func (b *Backend) Retry(ctx context.Context, t *tokens.Token, file string, newID bool) (Retried, error) {
	if _, err := b.steerer(t); err != nil {
		return Retried{}, err
	}
	r, err := retryOne(ctx, b.Home, file, newID)
	switch {
	case errors.Is(err, errIsUpdate):
		err = &FieldError{"newId", err}
	case errors.Is(err, inbox.ErrNoInbox):
		err = &RefusedError{Reason: err.Error()}
	}
	return r, err
}

// Tag notes the cause of an incident. The error may be core.ErrNoIncident.
func (b *Backend) Tag(ctx context.Context, t *tokens.Token, incident, cause string) error {
	by, err := b.steerer(t)
	if err != nil {
		return err
	}
	id, err := parseIncident(incident)
	if err != nil {
		return &FieldError{"path.id", err}
	}
	if err := checkReason(cause); err != nil {
		return &FieldError{"cause", err}
	}
	return tag(ctx, b.Home, by, id, cause)
}

// sharedSnapshot is the board as it was last read, for many readers: its file is read once.
type sharedSnapshot struct {
	mu    sync.Mutex
	stamp string // of the file; "": it was not read
	last  *slacklist.Snapshot
}

func (s *sharedSnapshot) read(h *Home) (*slacklist.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, _ := os.Stat(filepath.Join(h.boardDir(), "snapshot.json")) // absent: the board was not read yet
	stamp := stampOf(info)
	if s.stamp == stamp {
		return s.last, nil
	}
	snap, err := slacklist.ReadSnapshot(h.Dir)
	if err == nil {
		s.stamp, s.last = stamp, snap
	}
	return snap, err
}

// View loads the directory, see loadView.
func (b *Backend) View(ctx context.Context, countOnly bool) (*view.View, error) {
	snap, err := b.board.read(b.Home)
	if err != nil {
		return nil, err
	}
	v, err := loadView(ctx, b.Home, snap, countOnly)
	if err == nil {
		v.IDs() // it reads the live tasks at once: a process that stays has them in memory
	}
	return v, err
}

// Tasks returns at most limit tasks after an id, in the order of ids. status and agent select,
// where they are given. Without a status, tasks that are over are left out unless all is set.
// more reports whether others follow.
func (b *Backend) Tasks(ctx context.Context, status pipeline.Status, agent string, all bool, after pipeline.TaskID, limit int) (cards []view.Card, more bool, err error) {
	s, err := b.Home.OpenStore(ctx)
	if err != nil {
		return nil, false, err
	}
	tasks, err := s.Tasks(ctx, core.Filter{Live: !all && !status.Over()})
	cards = []view.Card{}
	for _, t := range tasks {
		switch {
		case t.ID <= after, agent != "" && !core.SameAgent(t.Agent, agent), status != "" && t.Status != status, status == "" && !all && t.Status.Over():
			continue
		case len(cards) == limit:
			return cards, true, nil
		}
		cards = append(cards, view.CardOf(t, b.Home.Config.Types))
	}
	return cards, false, err
}

// Task returns a task as otm show has it.
func (b *Backend) Task(ctx context.Context, id pipeline.TaskID) (*Shown, error) {
	v, err := b.View(ctx, false)
	if err != nil {
		return nil, err
	}
	s, t, err := shownOf(v, id)
	switch {
	case err != nil:
		return nil, err
	case t.Row == nil && t.State == nil && s.Why.Stage == why.IsUnknown:
		return nil, core.ErrNoTask
	}
	if s.Task == nil && t.State != nil {
		card := t.Card()
		s.Task = &card
	}
	return &s, nil
}
