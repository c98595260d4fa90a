package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"otm/heartbeat"
	"otm/internal/page"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// human is who a person on the page is, in histories.
const human = "human"

// pageSource is what the page shows of a data directory, and does in it.
type pageSource struct {
	home *Home
	// look reads the board: the embedded one as it is now, a Slack List as it
	// was when it was last read.
	look func(context.Context) (*slacklist.Snapshot, error)
	live bool // what look shows is the present
	// people is the board as a person writes to it.
	people pipeline.Board

	mu      sync.Mutex // guards what follows
	records fileCache[recordFacts]
	failed  fileCache[*inbox.Settled]
}

// fileCache keeps what was read of files for as long as they are the same
// files. Those that it knows are replaced, never written over.
type fileCache[V any] struct {
	known map[string]fileFacts[V]
}

type fileFacts[V any] struct {
	info  fs.FileInfo
	value V
}

// get returns what read makes of the file, or made of it before. A file that
// is replaced between the look at it and its reading is read again next time.
func (c *fileCache[V]) get(path string, read func() (V, error)) (V, error) {
	info, err := os.Stat(path)
	if err != nil {
		delete(c.known, path)
		var none V
		return none, err
	}
	if f, ok := c.known[path]; ok && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) {
		return f.value, nil
	}
	v, err := read()
	if err != nil {
		delete(c.known, path)
		return v, err
	}
	if c.known == nil {
		c.known = map[string]fileFacts[V]{}
	}
	c.known[path] = fileFacts[V]{info, v}
	return v, nil
}

// State implements page.Source.
func (p *pageSource) State(ctx context.Context) (*page.State, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	s := &page.State{
		Statuses: texts(pipeline.Statuses), Priorities: texts(pipeline.Priorities), Types: texts(pipeline.Types),
		Agents: []page.Agent{}, Failed: []page.Failed{}, ConfigPath: filepath.Join(p.home.Dir, "otm.toml"),
		Room: page.Room{Rows: snap.Count, Limit: limitOf(snap), Live: p.live},
	}
	if walk := snap.WalkAt.UTC(); !p.live && !snap.WalkAt.IsZero() {
		s.Room.WalkAt = &walk
	}
	for _, a := range p.home.Config.Agents {
		s.Agents = append(s.Agents, page.Agent{Name: a.Name, Person: a.Person})
	}
	s.CreateCommand = p.createCommand()
	p.components(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Tasks = p.cards(snap.Rows)
	return s, p.files(s)
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// createCommand makes a first task for the first agent that works by itself,
// or else the first of all.
func (p *pageSource) createCommand() string {
	agents := p.home.Config.Agents
	if len(agents) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(agents, func(a pipeline.Agent) bool { return !a.Person }))
	command := "otm-create --title 'Build the login page' --agent " + safe.Quote(agents[i].Name)
	if dir := p.home.messageDir(); dir != "" {
		command += " --dir " + safe.Quote(dir)
	}
	return command
}

// recordFacts is what a card needs of a record.
type recordFacts struct {
	row     string
	created time.Time
	events  int
	place   map[string]int // of steps, by row, beginning at 1
}

// facts returns the zero value where a task has no record that can be read.
func (p *pageSource) facts(id pipeline.TaskID) recordFacts {
	path := filepath.Join(p.home.Dir, "tasks", id.String()+".json")
	facts, err := p.records.get(path, func() (recordFacts, error) {
		rec, err := p.home.Store.Load(id)
		if err != nil {
			return recordFacts{}, err
		}
		f := recordFacts{row: rec.RowID, created: rec.CreatedAt, events: len(rec.History), place: map[string]int{}}
		for i, s := range rec.Steps {
			f.place[s.RowID] = i + 1
		}
		return f, nil
	})
	if err != nil {
		return recordFacts{}
	}
	return facts
}

// cards puts the rows of the board together, in the order of the ids. It is
// called with mu held.
func (p *pageSource) cards(rows []pipeline.Row) []page.Task {
	steps := map[string][]*pipeline.Row{}
	for i := range rows {
		if r := &rows[i]; r.Parent != "" {
			steps[r.Parent] = append(steps[r.Parent], r)
		}
	}
	names := map[string]string{}
	tasks := []page.Task{}
	for i := range rows {
		r := &rows[i]
		if r.Parent != "" {
			continue
		}
		name, known := names[r.Assignee]
		if !known {
			name = p.agentName(r.Assignee)
			names[r.Assignee] = name
		}
		tasks = append(tasks, p.card(r, steps[r.ID], name))
	}
	slices.SortStableFunc(tasks, func(a, b page.Task) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return tasks
}

func (p *pageSource) agentName(assignee string) string {
	if a := p.home.Config.Agents.Assigned(assignee); a != nil {
		return a.Name
	}
	return assignee
}

func (p *pageSource) card(r *pipeline.Row, steps []*pipeline.Row, agent string) page.Task {
	t := page.Task{
		Row: r.ID, Title: r.Title, Status: string(r.CurrentStatus()), Agent: agent, Priority: string(r.Priority), Type: r.Type,
		Project: r.Project, Reason: r.Reason, Result: r.Result, Steps: make([]page.Step, 0, len(steps)),
		CreatedAt: time.Unix(r.Created, 0).UTC(), UpdatedAt: time.Unix(r.Updated, 0).UTC(),
	}
	if id := r.Task(); id != 0 {
		facts := p.facts(id)
		if facts.row != r.ID {
			facts = recordFacts{} // another row bears its id
		}
		t.ID, t.Events = id.String(), facts.events
		if !facts.created.IsZero() {
			t.CreatedAt = facts.created
		}
		slices.SortStableFunc(steps, func(a, b *pipeline.Row) int { return facts.place[a.ID] - facts.place[b.ID] })
	}
	for _, s := range steps {
		t.Steps = append(t.Steps, page.Step{Row: s.ID, Title: s.Title, Done: s.StepDone()})
	}
	return t
}

func (p *pageSource) components(s *page.State) {
	now := p.home.Now()
	for _, id := range heartbeat.Components {
		b, err := heartbeat.Read(p.home.Dir, id)
		c := page.Component{ID: id, State: string(heartbeat.NotInstalled)}
		if err == nil {
			c = page.Component{ID: id, State: string(heartbeat.Judge(b, now)), LastRun: &b.LastRun, Result: string(b.Result), Details: b.Details}
		}
		s.Components = append(s.Components, c)
	}
}

// maxFailed bounds how many failed files the page shows, newest first.
const maxFailed = 50

// files counts what waits, and shows what failed. It is called with mu held.
func (p *pageSource) files(s *page.State) error {
	for _, kind := range inbox.Kinds {
		files, err := p.home.Box.List(kind)
		if err != nil {
			return err
		}
		if kind == inbox.NewTasks {
			s.Waiting.NewTasks = len(files)
		} else {
			s.Waiting.Updates = len(files)
		}
	}
	names, err := p.home.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	s.Waiting.Failed = len(names)
	slices.Reverse(names)
	for _, name := range names[:min(len(names), maxFailed)] {
		f, err := p.settled(name)
		if err != nil {
			continue // put back meanwhile
		}
		failed := page.Failed{Name: name, Error: f.Result.Error, Class: string(f.Result.Class), Hint: f.Result.Hint}
		failed.Renumber = f.Result.Class == inbox.Conflict && f.Result.Inbox == inbox.NewTasks
		if id := f.TaskID(); id != 0 {
			failed.TaskID = id.String()
		}
		s.Failed = append(s.Failed, failed)
	}
	return nil
}

// errBeside keeps a failed file out of the cache: what there is to say stands
// in another file.
var errBeside = errors.New("explained beside it")

func (p *pageSource) settled(name string) (*inbox.Settled, error) {
	f, err := p.failed.get(filepath.Join(p.home.Dir, inbox.FailedDir, name), func() (*inbox.Settled, error) {
		f, err := p.home.Box.ReadSettled(inbox.FailedDir, name)
		if err == nil && f.Object == nil {
			err = errBeside
		}
		return f, err
	})
	if errors.Is(err, errBeside) {
		err = nil
	}
	return f, err
}

// Detail implements page.Source.
func (p *pageSource) Detail(ctx context.Context, row string) (*page.Detail, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(snap.Rows, func(r pipeline.Row) bool { return r.ID == row })
	if i < 0 || snap.Rows[i].Parent != "" {
		return nil, errGone
	}
	id := snap.Rows[i].Task()
	if id == 0 {
		return p.detailOfTyped(snap, &snap.Rows[i])
	}
	rec, err := p.home.record(id)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.RowID != "" && rec.RowID != row {
		return &page.Detail{Why: fmt.Sprintf("it bears the id of %v, which is another row: clear the Task ID of this one", id)}, nil
	}
	s, err := p.home.situationOf(snap)
	if err != nil {
		return nil, err
	}
	why, err := s.why(id)
	if err != nil {
		return nil, err
	}
	d := &page.Detail{Why: why.Sentence, Next: why.Next}
	if rec == nil {
		return d, nil
	}
	for _, e := range rec.History {
		d.History = append(d.History, page.Event{At: e.At, Who: e.Who, What: e.What, Detail: e.Detail})
	}
	return d, nil
}

// detailOfTyped is for a row that bears no task's id.
func (p *pageSource) detailOfTyped(snap *slacklist.Snapshot, row *pipeline.Row) (*page.Detail, error) {
	s, err := p.home.situationOf(snap)
	if err != nil {
		return nil, err
	}
	why, err := s.whyRow(row)
	if err != nil {
		return nil, err
	}
	return &page.Detail{Why: why.Sentence, Next: why.Next}, nil
}

var errGone = &page.Refusal{Reason: "the row is no longer on the board"}

// Do implements page.Source.
func (p *pageSource) Do(ctx context.Context, a page.Action) (*page.Answer, error) {
	switch a.Do {
	case "create":
		return p.create(ctx, a)
	case "retry":
		return nil, p.retry(ctx, a)
	}
	c, err := p.changeOf(a)
	if err != nil {
		return nil, err
	}
	return nil, refusalOf(p.write(ctx, c))
}

// create drops a task, as otm-create would: what a person adds here takes the
// way of every task. If we crash before the drop is published, an id is lost.
func (p *pageSource) create(ctx context.Context, a page.Action) (*page.Answer, error) {
	t := pipeline.Task{Title: strings.TrimSpace(a.Title), Agent: a.Agent, Project: a.Project, Steps: a.Steps, Priority: pipeline.Normal, Type: pipeline.Action}
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(cmp.Or(a.Priority, string(pipeline.Normal))); !ok {
		return nil, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
	}
	if t.Type, ok = pipeline.ParseType(cmp.Or(a.Type, string(pipeline.Action))); !ok {
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
	counter, err := p.home.Store.Counter(ctx)
	if err != nil {
		return nil, refusalOf(err)
	}
	t.ID, err = counter.Take(1)
	counter.Release()
	if err != nil {
		return nil, refusalOf(err)
	}
	c := &drop.Create{ID: pipeline.NewDropID(), CreatedAt: p.home.Now(), Task: t, By: human}
	if err := p.home.Box.Publish(inbox.NewTasks, inbox.NewName(c.CreatedAt, c.ID), c.Encode()); err != nil {
		return nil, err
	}
	return &page.Answer{ID: t.ID.String()}, nil
}

// configured finds an agent; nil where none at all is configured. The error is
// a *page.Refusal.
func (p *pageSource) configured(name string) (*pipeline.Agent, error) {
	agents := p.home.Config.Agents
	if len(agents) == 0 {
		return nil, nil
	}
	if a := agents.Named(name); a != nil {
		return a, nil
	}
	r := &page.Refusal{Reason: fmt.Sprintf("no agent %q is configured", name)}
	if near := agents.Nearest(name); near != "" {
		r.Hint = "do you mean " + near + "?"
	}
	return nil, r
}

// retry puts a failed file back into its inbox.
func (p *pageSource) retry(ctx context.Context, a page.Action) error {
	if a.Name != filepath.Base(a.Name) || !inbox.Delivered(a.Name) {
		return &page.Refusal{Reason: fmt.Sprintf("%q is no name of a failed file", a.Name)}
	}
	_, _, err := p.home.retryOne(ctx, a.Name, retryAs{newID: a.NewID})
	if errors.Is(err, fs.ErrNotExist) {
		return &page.Refusal{Reason: "the file is no longer among those that failed"}
	}
	if err != nil {
		return &page.Refusal{Reason: "not put back: " + err.Error()}
	}
	return nil
}

// change is what a person does to one row.
type change struct {
	row   string
	step  bool            // it is a step's, else a task's
	from  pipeline.Status // where the task has to be for it; "": anywhere
	cells []pipeline.Cell
	notes []pipeline.Event // What and Detail, for the history, beside moves of the status
}

// changeOf turns an action into a change. The error is a *page.Refusal.
func (p *pageSource) changeOf(a page.Action) (*change, error) {
	switch a.Do {
	case "approve":
		c := &change{row: a.Row, from: pipeline.AgentDone, notes: []pipeline.Event{{What: "approved"}}}
		c.setStatus(pipeline.Done)
		return c, nil
	case "sendback":
		reason := strings.TrimSpace(a.Reason)
		if reason == "" {
			return nil, &page.Refusal{Reason: "say what is missing: the agent gets it as the reason"}
		}
		if err := drop.CheckUpdate(&drop.Update{TaskID: 1, Status: pipeline.Blocked, Reason: reason}); err != nil {
			return nil, &page.Refusal{Reason: err.Error()}
		}
		c := &change{row: a.Row, from: pipeline.AgentDone, notes: []pipeline.Event{{What: "sent back", Detail: reason}}}
		c.setStatus(pipeline.New)
		c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldReason, Text: reason})
		return c, nil
	case "tick":
		c := &change{row: a.Row, step: true}
		if a.Done {
			c.setStatus(pipeline.Done)
		} else {
			c.setStatus(pipeline.New)
		}
		return c, nil
	case "edit":
		return p.editOf(a)
	}
	return nil, &page.Refusal{Reason: fmt.Sprintf("there is no action %q", a.Do)}
}

// setStatus sets the status and the checkbox that goes with it.
func (c *change) setStatus(to pipeline.Status) {
	c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldStatus, Text: string(to)},
		pipeline.Cell{Field: pipeline.FieldChecked, Checked: to == pipeline.Done})
}

func (p *pageSource) editOf(a page.Action) (*change, error) {
	c := &change{row: a.Row}
	if a.Status != "" {
		to, ok := pipeline.ParseStatus(a.Status)
		if !ok {
			return nil, &page.Refusal{Reason: fmt.Sprintf("there is no status %q", a.Status)}
		}
		c.setStatus(to)
	}
	if a.Priority != "" {
		prio, ok := pipeline.ParsePriority(a.Priority)
		if !ok {
			return nil, &page.Refusal{Reason: fmt.Sprintf("there is no priority %q", a.Priority)}
		}
		c.cells = append(c.cells, pipeline.Cell{Field: pipeline.FieldPriority, Text: string(prio)})
		c.notes = append(c.notes, pipeline.Event{What: "changed priority", Detail: "to " + string(prio)})
	}
	if a.Agent != "" {
		cell := pipeline.Cell{Field: pipeline.FieldAssignee, Text: pipeline.CleanName(a.Agent)}
		known, err := p.configured(a.Agent)
		switch {
		case err != nil:
			return nil, err
		case known != nil:
			cell.Text, cell.User = known.Label, known.User
		case !pipeline.ValidAgentName(cell.Text):
			return nil, &page.Refusal{Reason: fmt.Sprintf("%q is no name for an agent", a.Agent)}
		}
		c.cells = append(c.cells, cell)
		c.notes = append(c.notes, pipeline.Event{What: "assigned", Detail: "to " + cell.Text})
	}
	if len(c.cells) == 0 {
		return nil, &page.Refusal{Reason: "nothing was to be changed"}
	}
	return c, nil
}

// knownFor is how old what is known of a task may be when a person approves it
// or sends it back: its status decides.
const knownFor = 5 * time.Second

// write writes a change to the board and notes it in the record of its task.
// If we crash between the two, the next pass sees the change on the board and
// notes it, with the board's name for who made it.
func (p *pageSource) write(ctx context.Context, c *change) (err error) {
	b, err := p.people.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	row := b.Row(c.row)
	if row == nil || c.from != "" && !b.Current(row, knownFor) {
		if err := b.Refresh(ctx, 0); err != nil {
			return err
		}
		row = b.Row(c.row)
	}
	if row == nil || (row.Parent != "") != c.step {
		return errGone
	}
	if now := row.CurrentStatus(); c.from != "" && now != c.from {
		return &page.Refusal{Reason: fmt.Sprintf("it is %s by now, no longer %s", now, c.from)}
	}
	before, task := *row, row
	if c.step {
		task = b.Row(row.Parent)
	}
	var id pipeline.TaskID
	var taskRow string
	if task != nil {
		id, taskRow = task.Task(), task.ID
	}
	if err := b.Update(ctx, pipeline.Change{Row: c.row, Cells: c.cells}); err != nil {
		return err
	}
	if id == 0 {
		return nil // typed by hand: there is no record yet
	}
	_, err = p.home.Store.Change(ctx, id, func(r *pipeline.Record) error {
		if r.RowID != taskRow {
			return pipeline.ErrUnchanged // the next pass makes it from the row, or the id is another task's
		}
		if c.step {
			c.noteTick(r, &before, p.home.Now())
		} else {
			c.note(r, &before, p.home.Now())
		}
		return nil
	})
	return err
}

// note brings a record up to what was written to the row of its task.
func (c *change) note(r *pipeline.Record, before *pipeline.Row, now time.Time) {
	for _, cell := range c.cells {
		switch cell.Field {
		case pipeline.FieldStatus:
			r.Status = pipeline.Status(cell.Text)
			if was := before.CurrentStatus(); was != r.Status {
				r.Note(now, human, pipeline.EventChanged, fmt.Sprintf("%s to %s", was, r.Status))
			}
		case pipeline.FieldReason:
			r.Reason = cell.Text
		case pipeline.FieldPriority:
			r.Priority = pipeline.Priority(cell.Text)
		}
	}
	for _, e := range c.notes {
		r.Note(now, human, e.What, e.Detail)
	}
}

// noteTick brings a record up to what was written to the row of a step.
func (c *change) noteTick(r *pipeline.Record, step *pipeline.Row, now time.Time) {
	done := slices.ContainsFunc(c.cells, func(cell pipeline.Cell) bool { return cell.Checked })
	for i := range r.Steps {
		if r.Steps[i].RowID == step.ID {
			r.Steps[i].Done = done
		}
	}
	what := "opened a step again"
	if done {
		what = "ticked a step"
	}
	r.Note(now, human, what, step.Title)
}

// refusalOf words what the board or the data directory refuses, for a person
// at the page. What it does not know stays as it is.
func refusalOf(err error) error {
	var refusal *page.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	var be *pipeline.BoardError
	if errors.As(err, &be) && be.RowGone {
		return errGone
	}
	known := Explain(err)
	if known == nil {
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

// limitOf is how many rows the list may hold; 0 where nobody meets the limit.
func limitOf(snap *slacklist.Snapshot) int {
	if snap.Limit >= noLimit {
		return 0
	}
	return snap.Limit
}
