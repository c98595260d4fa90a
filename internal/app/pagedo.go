package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/page"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// human is who a person on the page is, in histories.
const human = "human"

// Do implements page.Source.
func (p *pageSource) Do(ctx context.Context, a page.Action) (*page.Answer, error) {
	switch {
	case a.Do == "create":
		return p.create(ctx, a)
	case a.Do == "retry":
		return nil, p.retry(ctx, a)
	case a.Do == "pause", a.Do == "resume":
		text, err := p.steerAgent(ctx, a)
		return &page.Answer{Text: text}, refusalOf(err)
	case a.Do == "say":
		return nil, refusalOf(p.say(ctx, a))
	case a.Do == "edit", a.Do == "tick", taskCommandNamed(a.Do).onPage():
		return nil, refusalOf(p.changeRow(ctx, a))
	}
	return nil, &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
}

// create drops a task, as otm-create does. If we crash before the drop is
// published, an id is lost.
func (p *pageSource) create(ctx context.Context, a page.Action) (*page.Answer, error) {
	t := pipeline.Task{Title: strings.TrimSpace(a.Title), Agent: a.Agent, Project: a.Project, Steps: a.Steps, Priority: pipeline.Normal, Type: pipeline.Action}
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(cmp.Or(a.Priority, string(pipeline.Normal))); !ok {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
	}
	if t.Type, _ = pipeline.ParseType(cmp.Or(a.Type, string(pipeline.Action))); !p.home.Config.Types.Has(t.Type) {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no type %q", a.Type)}
	}
	if err := drop.CheckTask(&t); err != nil {
		return nil, &page.Refusal{Reason: err.Error()}
	}
	known, err := p.configured(t.Agent)
	if err != nil {
		return nil, err
	}
	if known != nil {
		t.Agent = known.Name
	}
	if t.ID, err = p.home.Counter.TakeOne(ctx); err != nil {
		return nil, refusalOf(err)
	}
	c := &drop.Create{ID: pipeline.NewDropID(), CreatedAt: p.home.Now(), Task: t, By: human}
	if err := p.home.Box.Publish(inbox.NewTasks, inbox.NewName(c.CreatedAt, c.ID), c.Encode()); err != nil {
		return nil, err
	}
	return &page.Answer{ID: t.ID.String()}, nil
}

// steerAgent pauses or resumes an agent, as the commands do, and says what came of it.
func (p *pageSource) steerAgent(ctx context.Context, a page.Action) (string, error) {
	agent, err := aiAgent(p.home, a.Agent, "otm "+a.Do)
	if err != nil {
		return "", err
	}
	var is steeredAgent
	if a.Do == "pause" {
		is, err = pause(ctx, p.home, core.Command{By: core.ByPerson(human)}, agent, "")
	} else {
		is, err = resume(ctx, p.home, core.Command{By: core.ByPerson(human)}, agent, true)
	}
	if err != nil {
		return "", err
	}
	return agent.Name + ": " + is.Text, slacklist.TouchChanged(p.home.Dir)
}

// configured finds an agent; nil if no agent at all is configured, and for the shared
// queue. The error is a *page.Refusal.
func (p *pageSource) configured(name string) (*pipeline.Agent, error) {
	agents := p.home.Agents()
	if len(agents) == 0 || pipeline.IsSharedQueue(name) {
		return nil, nil
	}
	if a := agents.Named(name); a != nil {
		return a, nil
	}
	e := noAgent(p.home, name, "do you mean %s?")
	return nil, &page.Refusal{Reason: e.Error(), Hint: e.Hints[0]}
}

// retry puts a failed file back into its inbox.
func (p *pageSource) retry(ctx context.Context, a page.Action) error {
	if a.Name != filepath.Base(a.Name) || !inbox.Delivered(a.Name) {
		return &page.Refusal{Reason: fmt.Sprintf("%q is no name of a failed file", a.Name)}
	}
	_, err := retryOne(ctx, p.home, a.Name, a.NewID)
	if errors.Is(err, ErrNotFailed) {
		return &page.Refusal{Reason: "the file is no longer among those that failed"}
	}
	if err != nil {
		return &page.Refusal{Reason: "not put back: " + err.Error()}
	}
	return nil
}

// refusalOf words an error of the board or the data directory for a person at
// the page. It returns an unknown error as it is.
func refusalOf(err error) error {
	var refusal *page.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	if be, ok := errors.AsType[*pipeline.BoardError](err); ok && be.RowGone {
		return errGone
	}
	known := Explain(err)
	if known == nil && !errors.As(err, &known) {
		return err
	}
	r := &page.Refusal{Reason: known.Error()}
	switch {
	case pipeline.MaybeApplied(err):
		r.Hint = "it may have taken effect all the same: look before you try again"
	case len(known.Hints) > 0:
		r.Hint = known.Hints[0]
	}
	return r
}

// editsOf turns an action into edits. The error is a *page.Refusal.
func (p *pageSource) editsOf(a page.Action) (core.Edits, error) {
	switch tc := taskCommandNamed(a.Do); {
	case a.Do == "tick":
		return core.Edits{Steps: []core.StepEdit{{Row: a.Row, Done: &a.Done}}}, nil
	case tc == nil:
		return p.edited(a)
	case strings.TrimSpace(a.Reason) == "" && tc.reason != "" && !tc.optional:
		return core.Edits{}, &page.Refusal{Reason: "say " + tc.reason}
	default:
		e, err := tc.edits(p.home, "", "", a.Reason)
		if err == nil && tc.steps {
			err = addSteps(&e, a.Steps, a.Drop)
		}
		if err != nil {
			return e, &page.Refusal{Reason: err.Error()}
		}
		e.Reset = a.Reset && tc.resets
		return e, nil
	}
}

// onPage reports whether the page has a button for the command; it assigns, and sets
// priorities, by an edit.
func (tc *taskCommand) onPage() bool { return tc != nil && tc.value == "" }

// pageCommands are the buttons of tasks.
func pageCommands() (all []page.Command) {
	for i := range taskCommands {
		if tc := &taskCommands[i]; tc.onPage() {
			all = append(all, page.Command{Name: tc.name, From: tc.from, Reason: tc.reason, Optional: tc.optional, Steps: tc.steps, Resets: tc.resets})
		}
	}
	return all
}

// edited turns an edit of several fields into edits.
func (p *pageSource) edited(a page.Action) (e core.Edits, err error) {
	if e.Status, err = chosen("status", a.Status, pipeline.ParseStatus); err != nil {
		return e, err
	}
	if e.Priority, err = chosen("priority", a.Priority, pipeline.ParsePriority); err != nil {
		return e, err
	}
	if a.Agent != "" {
		name := pipeline.CleanName(a.Agent)
		known, err := p.configured(a.Agent)
		switch {
		case err != nil:
			return e, err
		case known != nil:
			name = known.Name
		case !pipeline.ValidAgentName(name):
			return e, &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", a.Agent)}
		}
		e.Agent = &name
	}
	if a.Reason != "" {
		reason := strings.TrimSpace(a.Reason)
		if err := checkReason(reason); err != nil {
			return e, &page.Refusal{Reason: err.Error()}
		}
		e.Reason = &reason
	}
	if e.Status == nil && e.Agent == nil && e.Priority == nil && e.Reason == nil {
		return e, &page.Refusal{Reason: "nothing was to be changed"}
	}
	return e, nil
}

// chosen returns the word of a closed list that somebody chose; nil: nothing was.
func chosen[T any](list, word string, parse func(string) (T, bool)) (*T, error) {
	if word == "" {
		return nil, nil
	}
	value, ok := parse(word)
	if !ok {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no %s %q", list, word)}
	}
	return &value, nil
}

// errNoTask says that a row, or the row of a step, is no task's.
var errNoTask = &page.Refusal{Reason: "OTM has not made a task of this row yet", Hint: "change it on the list, where somebody typed it"}

// taskOf returns the task of a row, or of the row of a step. The error is a *page.Refusal
// if the row is none.
func (p *pageSource) taskOf(ctx context.Context, row string, step bool) (*core.Task, error) {
	v, err := p.view(ctx, true)
	if err != nil {
		return nil, err
	}
	r := v.Row(row)
	if r == nil || (r.Parent != "") != step || step && v.Row(r.Parent) == nil {
		return nil, errGone
	}
	t := v.OfRow(v.Row(cmp.Or(r.Parent, r.ID))).State
	switch {
	case v.Err() != nil:
		return nil, v.Err()
	case t == nil, step && !slices.ContainsFunc(t.Steps, func(s core.Step) bool { return s.RowID == row }):
		return nil, errNoTask
	case t.Away():
		return nil, errGone
	}
	return t, nil
}

// say writes a message of the person on the task of a row.
func (p *pageSource) say(ctx context.Context, a page.Action) error {
	m := pipeline.Message{Text: strings.TrimSpace(a.Text)}
	if err := checkMessage(p.home, &m); err != nil {
		return &page.Refusal{Reason: err.Error()}
	}
	t, err := p.taskOf(ctx, a.Row, false)
	if err == nil {
		_, err = sayOn(ctx, p.home, core.Command{At: p.home.Now(), By: core.ByPerson(human), Task: t.ID, Do: core.Say{Message: m}})
	}
	return err
}

// changeRow carries out what was asked for on the task of a row, or of the row of a step,
// and brings it to the board.
func (p *pageSource) changeRow(ctx context.Context, asked page.Action) error {
	edits, err := p.editsOf(asked)
	if err != nil {
		return err
	}
	e, err := newEngine(ctx, p.home, "otm", p.board, p.log)
	if err != nil {
		return err
	}
	if err := e.Refresh(ctx, pipeline.StatusAge); err != nil { // what people did on the list comes first
		return err
	}
	t, err := p.taskOf(ctx, asked.Row, len(edits.Steps) > 0)
	if err != nil {
		return err
	}
	if tc := taskCommandNamed(asked.Do); tc != nil {
		edits = tc.suit(p.home, t, edits)
	}
	outcome, undelivered, err := change(ctx, e, core.Command{At: p.home.Now(), By: core.ByPerson(human), Task: t.ID, Do: edits})
	if err != nil {
		return err
	}
	var refused *core.Refused
	switch err := outcome.Err; {
	case errors.As(err, &refused) && refused.Rule == core.RuleMoved:
		return &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", refused.From, strings.Join(pipeline.Texts(edits.From), " or "))}
	case err != nil:
		return &page.Refusal{Reason: err.Error()}
	}
	for _, ev := range outcome.Events {
		p.log.InfoContext(ctx, "changed on the page", "task", t.ID, "who", ev.By.String(), "what", ev.Type())
	}
	if errors.Is(undelivered, errAway) {
		return errGone
	}
	if undelivered != nil {
		return fmt.Errorf("it is done, and the board may not show it yet: %w", undelivered)
	}
	if t, err := e.Task(ctx, t.ID); err == nil && t.Away() {
		return errGone // as the delivery found out
	}
	return nil
}

// pageSource is what the page shows of a data directory, and does in it.
type pageSource struct {
	home  *Home
	board *boardSource
	log   *slog.Logger
	// look reads the embedded board as it is now; nil: the page shows a Slack List as it
	// was when it was last read.
	look func(context.Context) (*slacklist.Snapshot, error)
}

// newPageSource returns the source for a Slack List; connect makes it that of
// the embedded board.
func newPageSource(h *Home, log *slog.Logger) *pageSource {
	return &pageSource{home: h, board: h.board(log), log: log}
}

// createCommand makes a first task for the first agent that is no person, or
// else the first of all; "" if there is no agent.
func createCommand(agents pipeline.Agents, dir string) string {
	if len(agents) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(agents, func(a pipeline.Agent) bool { return !a.Person }))
	command := "otm-create --title 'Build the login page' --agent " + safe.Quote(agents[i].Name)
	if dir != "" {
		command += " --dir " + safe.Quote(dir)
	}
	return command
}

// view loads the directory. With countOnly, files in the inboxes and in failed/
// are counted and not read.
func (p *pageSource) view(ctx context.Context, countOnly bool) (*view.View, error) {
	if p.look == nil {
		return loadView(ctx, p.home, nil, countOnly)
	}
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	return loadView(ctx, p.home, snap, countOnly)
}

// choosable are the statuses that a person may choose. Pending is OTM's: who chooses it
// sets the task aside.
func choosable() []pipeline.Status {
	return slices.DeleteFunc(slices.Clone(pipeline.Statuses), func(s pipeline.Status) bool { return s == pipeline.Pending })
}

// State implements page.Source.
func (p *pageSource) State(ctx context.Context) (*page.State, error) {
	v, err := p.view(ctx, true)
	if err != nil {
		return nil, err
	}
	s := &page.State{Tasks: []view.Card{}, Rest: page.Rest{
		Summary: *view.SummaryOf(v, maxFailed), Live: p.look != nil, ConfigPath: filepath.Join(v.Dir, config.FileName),
		CreateCommand: createCommand(v.Agents, messageDir(p.home)),
		Statuses:      choosable(), Priorities: pipeline.Priorities, Types: p.home.Config.Types.All(), Commands: pageCommands(), Registry: view.RegistryOf(v),
	}}
	if p.look != nil {
		s.Board.WalkAt = time.Time{} // it changes with each look
	}
	for _, t := range v.Tasks() {
		s.Tasks = append(s.Tasks, t.Card())
	}
	return s, v.Err()
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

var errGone = &page.Refusal{Reason: "the row is no longer on the board"}

// Detail implements page.Source.
func (p *pageSource) Detail(ctx context.Context, row string) (*page.Detail, error) {
	v, err := p.view(ctx, false)
	if err != nil {
		return nil, err
	}
	shown := v.Row(row)
	if shown == nil || shown.Parent != "" {
		return nil, errGone
	}
	reason, err := why.OfRow(v, shown)
	if err != nil {
		return nil, err
	}
	t := v.OfRow(shown)
	lines, err := v.History(t.ID)
	d := &page.Detail{Why: reason.Sentence, Next: reason.Next, Or: reason.Or, History: lines, Log: logOf(v, t)}
	if t.State != nil {
		d.Body = t.State.Body
	}
	return d, err
}

// logOf is the end of what the process of a task's last run has printed; nil: the run did
// not fail and does not go on, or nothing is kept of it.
func logOf(v *view.View, t *view.Task) *page.Log {
	if t.State == nil || t.State.Runs.Last() == nil {
		return nil
	}
	run := t.State.Runs.Last()
	l := &page.Log{Run: run.Number, Path: run.Log}
	if run.Ended.IsZero() && t.Agent != nil && t.Agent.Trigger == pipeline.TriggerExec {
		l.Path = v.AgentLog(t.Agent)
	}
	if l.Path == "" {
		return nil
	}
	text, err := view.LogTail(v.LogDir, l.Path)
	switch l.Text = text; {
	case errors.Is(err, durable.ErrNoFile): // its folder: the process has no log yet
		return nil
	case err != nil:
		l.Error = err.Error()
	}
	return l
}
