package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/fsck"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// part is a task as the model knows it.
type part struct {
	id      pipeline.TaskID
	title   string
	agent   string // or the shared queue, whoever claimed it since
	steps   []string
	file    string // the create's
	data    []byte
	sure    bool     // whoever created it was told the id
	touched []string // what people and accidents did to it
	cleared bool     // a person cleared its id, which he does once

	given   int      // how often it was handed over as a new one
	failed  int      // how many runs of it failed, as far as the model saw
	reports []string // the files of its agent's reports, in order
	notes   []string // texts of the messages that its agent wrote
	ticked  []bool   // what they said is done
	status  pipeline.Status
	result  string
}

// hand is what an agent holds: the task that it was given last.
type hand struct {
	id   pipeline.TaskID
	part *part // nil: a person typed it
	run  int   // in which it works
	open []int // its steps that are not reported as done, from 1
}

// play is a directory and a board on which a script is played, with the model
// of what must be true of them.
type play struct {
	*testing.T
	dir, ws string
	b       *boardtest.Board
	eye     *slacklist.Client // sees the board as it is
	ahead   atomic.Int64      // of the clock, which moves on with each look
	drops   int
	h       *Home
	out     *bytes.Buffer // what h prints
	parts   []*part
	hands   map[string]*hand
	rows    map[string]pipeline.Row // as the eye saw them last
	shared  map[string]bool         // rows that the eye saw in the shared queue
	seen    int64                   // the last event that was looked at
	story   []string                // what was done, and came of it
	wrong   string
}

func newPlay(t *testing.T) *play {
	p := &play{T: t, hands: map[string]*hand{}, shared: map[string]bool{}}
	begun := time.Now().Truncate(time.Second)
	now := func() time.Time { return begun.Add(time.Duration(p.ahead.Add(int64(time.Millisecond)))) }
	root := t.TempDir()
	p.dir, p.ws = filepath.Join(root, "data"), filepath.Join(root, "ws")
	if _, err := Init(p.dir); err != nil {
		t.Fatal(err)
	}
	p.b = boardtest.Start(t, func(o *boardtest.Options) { o.Dir, o.Now = filepath.Join(p.dir, "board"), now })
	endpoint, err := json.Marshal(board.Endpoint{URL: p.b.URL, ListID: p.b.ListID, PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(p.dir, "board", "endpoint.json"), string(endpoint))
	config := "[agents.olga]\nkind = \"human\"\n"
	for _, name := range cast {
		if err := os.MkdirAll(p.workspace(name), 0o700); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\n", name, p.workspace(name))
	}
	put(t, filepath.Join(p.dir, "otm.toml"), config)
	web := httptest.NewServer(p.b.Server.Handler())
	t.Cleanup(web.Close)
	p.eye = slacklist.New(slacklist.Options{Dir: t.TempDir(), URL: web.URL + "/api/", ListID: p.b.ListID, Token: p.b.Token, Now: now})
	p.start(now)
	t.Cleanup(func() { p.h.Close() })
	p.rows = p.look()
	return p
}

func (p *play) workspace(agent string) string {
	if agent == "gamma" {
		return filepath.Join(p.ws, "gamma")
	}
	return filepath.Join(p.ws, "shared")
}

// start is what a new process finds.
func (p *play) start(now func() time.Time) {
	p.out = &bytes.Buffer{}
	h, err := OpenHome(cli.Streams{Out: p.out, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, p.dir)
	if err != nil {
		p.Fatal(err)
	}
	h.Now, h.waitOthers = now, time.Millisecond // nobody else runs: leases are of who was killed
	p.h = h
}

// store is the store as a new process finds it.
func (p *play) store() *store.Store {
	s, err := p.h.OpenStore(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// task is a task as the store has it; nil: it has none.
func (p *play) task(id pipeline.TaskID) *core.Task {
	tasks, err := p.store().Tasks(p.Context(), core.Filter{IDs: []pipeline.TaskID{id}})
	if err != nil {
		p.Fatal(err)
	}
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// component is one that a process that has just begun runs.
func (p *play) component(what string) *component {
	log := slog.New(slog.DiscardHandler)
	b := p.h.board(log)
	k := kinds[slices.Index([]string{"sweep", "pass", "detect"}, what)]
	c, err := newComponent(p.Context(), p.h, b, log, k, DefaultEvery, k.stays)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

func (p *play) tell(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

func (p *play) fail(format string, args ...any) {
	if p.wrong == "" {
		p.wrong = fmt.Sprintf(format, args...)
	}
}

// look is what stands on the board, by the rows' ids.
func (p *play) look() map[string]pipeline.Row {
	b, err := p.eye.Begin(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	defer b.End()
	if err := b.Refresh(p.Context(), 0); err != nil {
		p.Fatal(err)
	}
	rows := map[string]pipeline.Row{}
	for r := range b.Rows() {
		rows[r.ID] = *r
		if pipeline.IsSharedQueue(r.Assignee) {
			p.shared[r.ID] = true
		}
	}
	return rows
}

// act plays one act, and looks whether no problems found then.
func (p *play) act(a act) {
	if p.wrong != "" {
		return
	}
	p.tell("%v", a)
	for _, name := range a.faults {
		p.b.Faults.Next("", calls[name]())
	}
	died := mortality.run(a, func() {
		defer func() {
			if r := recover(); r != nil {
				p.fail("panic: %v\n%s", r, debug.Stack())
			}
		}()
		p.play(a)
	})
	p.b.Faults.Forget()
	if slices.Contains(a.faults, "429") {
		p.ahead.Add(int64(31 * time.Second)) // a shorter rest would be waited out, by the machine's clock
	}
	opened := p.h.stores
	if died {
		if err := p.h.Close(); err != nil {
			p.Fatal(err)
		}
	}
	if p.start(p.h.Now); !died {
		p.h.stores = opened // as it takes its time to open a store
	}
	if died {
		p.tell("  died")
		delete(p.hands, a.who) // it was told nothing
	}
	rows := p.look()
	if a.what != "person" && a.what != "review" {
		p.checkMoves(rows)
	}
	p.rows = rows
	p.checkAlways(died)
	if p.wrong != "" {
		p.wrong = fmt.Sprintf("%v: %s", a, p.wrong)
	}
}

func (p *play) play(a act) {
	switch a.what {
	case "create":
		p.create(a)
	case "again":
		if t := p.part(a.task); t != nil && t.file != "" {
			p.drop(inbox.NewTasks, pipeline.DropIDInName(t.file), t.data)
		}
	case "sweep", "pass", "detect":
		why := timely
		if a.how == "hinted" {
			why = hinted
		}
		out, err := p.component(a.what).run(p.Context(), why, func() {})
		if err != nil {
			p.fail("%v", err)
		}
		p.tell("  %s", out.Details())
	case "next":
		p.next(a.who)
	case "report":
		p.report(a.who, a.how)
	case "dies":
		p.die(a)
	case "pause":
		p.do(core.Command{By: core.ByPerson("robin"), Agent: a.who, Do: core.PauseAgent{Reason: "why not"}})
	case "resume":
		p.do(core.Command{By: core.ByPerson("robin"), Agent: a.who, Do: core.ResumeAgent{}})
	case "review":
		p.review(a)
	case "wait":
		p.ahead.Add(int64(a.n) * int64(time.Second))
	case "person":
		p.person(p.part(a.task), a)
	case "file":
		p.rewrite(a.who, a.how)
	case "archive":
		log := slog.New(slog.DiscardHandler)
		e, err := newEngine(p.Context(), p.h, "otm", p.h.board(log), log)
		if err != nil {
			p.fail("%v", err)
			return
		}
		(&archiver{home: p.h, engine: e}).run(p.Context(), true) // the board may be in trouble
	case "lose":
		if t := p.part(a.task); a.how == "the counter" {
			os.Remove(filepath.Join(p.dir, "next-task-id.json"))
		} else if t != nil {
			os.Remove(filepath.Join(p.dir, "tasks", t.id.String()+".json"))
		}
	}
}

// part is the task that was created as the nth; nil where it was not.
func (p *play) part(n int) *part {
	i := slices.IndexFunc(p.parts, func(t *part) bool { return t.title == fmt.Sprint("task ", n) })
	if i < 0 {
		return nil
	}
	return p.parts[i]
}

func (p *play) drop(kind inbox.Kind, id string, data []byte) string {
	p.drops++
	name := inbox.NewName(p.h.Now().Add(time.Duration(p.drops)), id)
	if err := p.h.Box.Publish(kind, name, data); err != nil {
		p.fail("%v", err)
	}
	return name
}

// create does what otm-create does.
func (p *play) create(a act) {
	t := &part{title: fmt.Sprint("task ", a.task), agent: a.who, steps: []string{"same", "same", "other"}[:a.n], ticked: make([]bool, a.n), status: pipeline.Assigned}
	counter, err := p.h.Counter.Counter(p.Context())
	if err != nil {
		p.fail("%v", err)
		return
	}
	defer counter.Release()
	if t.id, err = counter.Take(1); err != nil {
		p.fail("%v", err)
		return
	}
	if i := slices.IndexFunc(p.parts, func(o *part) bool { return o.id == t.id && o.file != "" }); i >= 0 {
		p.fail("%v was given out for %q as well", t.id, p.parts[i].title)
	}
	c := &drop.Create{ID: pipeline.NewDropID(), CreatedAt: p.h.Now(), Task: pipeline.Task{
		ID: t.id, Title: t.title, Agent: t.agent, Priority: pipeline.Normal, Type: pipeline.Action, Steps: t.steps,
	}}
	t.data = c.Encode()
	p.parts = append(p.parts, t)
	t.file = p.drop(inbox.NewTasks, c.ID, t.data)
	t.sure = true
}

// next does what an agent does that calls otm next.
func (p *play) next(who string) {
	agent, err := aiAgent(p.h, who, "")
	if err != nil {
		p.Fatal(err)
	}
	p.h.asJSON = true
	defer func() { p.h.asJSON = false }()
	if err := takeNext(p.Context(), p.h, agent, false); err != nil {
		p.fail("%v", err)
		return
	}
	var got *struct {
		TaskID   pipeline.TaskID
		Title    string
		Subtasks []string
		Done     []int
		Continue bool
		Run      int
		Paused   bool
	}
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil {
		p.fail("otm next printed %q", p.out)
		return
	}
	delete(p.hands, who)
	if got == nil || got.Paused {
		return
	}
	h := &hand{id: got.TaskID, part: p.owner(got.TaskID), run: got.Run}
	for i := range got.Subtasks {
		if !slices.Contains(got.Done, i+1) {
			h.open = append(h.open, i+1)
		}
	}
	p.hands[who] = h
	p.tell("  it is given %v, open are %v, continue: %t", got.TaskID, h.open, got.Continue)
	t := h.part
	if t == nil {
		return
	}
	if !got.Continue {
		t.given++
	}
	var done []int
	for i, ticked := range t.ticked {
		if ticked {
			done = append(done, i+1)
		}
	}
	switch {
	case t.touched != nil:
	case t.agent != who && t.agent != pipeline.SharedQueue:
		p.fail("%v of %s was given to %s", t.id, t.agent, who)
	case p.others(who, t) != "":
		p.fail("%v was given to %s, and %s holds it", t.id, who, p.others(who, t))
	case t.given > 1+t.failed:
		p.fail("%v was handed over %d times, and %d runs failed", t.id, t.given, t.failed)
	case !slices.Equal(done, got.Done):
		p.fail("%v: done are %v, said to be done %v", t.id, done, got.Done)
	}
}

// others is the other agent that holds a task; "": none does.
func (p *play) others(who string, t *part) string {
	for name, h := range p.hands {
		if name != who && h.part == t {
			return name
		}
	}
	return ""
}

// do carries a command out, and reports whether it was not refused.
func (p *play) do(c core.Command) (core.Outcome, bool) {
	c.At = p.h.Now()
	outcomes, err := p.store().Do(p.Context(), c)
	if err != nil {
		p.fail("%v", err)
		return core.Outcome{}, false
	}
	var refused *core.Refused
	if err := outcomes[0].Err; err != nil && !errors.As(err, &refused) {
		p.fail("%T: %v", c.Do, err)
	}
	return outcomes[0], outcomes[0].Err == nil
}

// die does what the dispatcher does once the process of an agent ended: it left its task
// without a result. Reports that still wait in the inbox are the word of that run.
func (p *play) die(a act) {
	h := p.hands[a.who]
	if h == nil {
		return
	}
	if a.how != leftover {
		delete(p.hands, a.who)
	} else if h.part != nil {
		h.part.touched = append(h.part.touched, "left over") // its reports may be refused
	}
	t := p.task(h.id)
	if t == nil || t.Runs.Open() == nil {
		return
	}
	if !core.SameAgent(t.Runs.Open().Agent, a.who) {
		return
	}
	o, _ := p.do(core.Command{By: core.Component("otm-dispatcher"), Task: h.id, Agent: a.who, Do: core.FailRun{
		Run: t.Runs.Number(), Failure: core.Failure{Exit: "exit status 1"}, Types: p.h.Config.Types,
	}})
	for _, e := range o.Events {
		if _, is := e.Data.(core.RunFailed); is && h.part != nil {
			h.part.failed++
			p.tell("  run %d failed: it is %s", t.Runs.Number(), o.Task.Status)
		}
	}
}

// review does what a reviewer does by a command. Nobody reviews a task of its own.
func (p *play) review(a act) {
	t := p.part(a.task)
	if t == nil {
		return
	}
	reason := "because"
	e := core.Edits{Reason: &reason}
	from := map[string]pipeline.Status{"accept": pipeline.AgentDone, "reject": pipeline.AgentDone, "rework": pipeline.AgentDone, "requeue": pipeline.Failed}[a.how]
	to := map[string]pipeline.Status{"accept": pipeline.Done, "reject": pipeline.Rejected, "rework": pipeline.New, "requeue": pipeline.New, "cancel": pipeline.Cancelled}[a.how]
	if e.Status = &to; from != "" {
		e.From = []pipeline.Status{from}
	}
	e.Accept, e.Reset = a.how == "accept", a.how == "requeue"
	rec := p.task(t.id)
	if rec == nil {
		return
	}
	was := append([]string{}, t.touched...)
	t.touched = append(t.touched, "reviewed")
	_, did := p.do(core.Command{By: core.Actor{Kind: core.Reviewer, Name: a.who}, Task: t.id, Do: e})
	switch {
	case !did:
		t.touched = was
		if len(was) == 0 {
			t.touched = nil
		}
	case core.SameAgent(rec.Agent, a.who):
		p.fail("%s reviewed its own task %v", a.who, t.id)
	}
}

// owner is the task of an id; nil where a person typed it. The id of one whose
// creator died may have been given out again: the last counts.
func (p *play) owner(id pipeline.TaskID) *part {
	for _, t := range slices.Backward(p.parts) {
		if t.id == id {
			return t
		}
	}
	return nil
}

// report does what an agent does that calls otm-update on what it holds.
func (p *play) report(who, how string) {
	h := p.hands[who]
	if h == nil || h.part == nil {
		return
	}
	t := h.part
	u := &drop.Update{ID: pipeline.NewDropID(), TaskID: t.id, CreatedAt: p.h.Now(), Run: h.run}
	done := 0
	switch how {
	case "a step":
		if done = 1; len(h.open) == 0 {
			return
		}
	case "all":
		done, u.Status = len(h.open), pipeline.AgentDone
	case "done as it is":
		u.Status = pipeline.AgentDone
	case "blocked":
		u.Status, u.Reason = pipeline.Blocked, "a question"
	case "failed", "given up":
		u.Status, u.Reason, u.Terminal = pipeline.Failed, "a defect", how == "given up"
		t.failed++
	case "a note":
		u.Message = pipeline.Message{Text: fmt.Sprint("note ", p.drops)}
		t.notes = append(t.notes, u.Message.Text)
	}
	if u.Status == pipeline.AgentDone {
		u.Result = fmt.Sprint("result ", p.drops)
		t.result = u.Result
	}
	for _, n := range h.open[:done] {
		u.StepsDone = append(u.StepsDone, fmt.Sprint(n))
		if n <= len(t.ticked) {
			t.ticked[n-1] = true
		}
	}
	h.open = h.open[done:]
	switch {
	case u.Status != "":
		t.status = u.Status
	default:
		t.status = pipeline.InProgress
	}
	p.tell("  reported on %v: %s %v", t.id, u.Status, u.StepsDone)
	t.reports = append(t.reports, p.drop(inbox.TaskUpdates, u.ID, u.Encode()))
	if u.Status != "" || done > 0 && len(h.open) == 0 {
		delete(p.hands, who)
	}
}

// person does what people do on the board. OTM decides on what it saw up to 5 s
// ago; what is edited and written within that time is nobody's fault.
func (p *play) person(t *part, a act) {
	if t == nil && a.how != "row typed" {
		return
	}
	edit := func(row string, cells ...boardtest.Cell) {
		if err := p.b.Server.EditRow("U0PERSON", p.b.ListID, row, cells...); err != nil {
			p.Fatal(err)
		}
	}
	column := func(name, kind string) string { return p.b.Column(p.T, name, kind) }
	if a.how == "row typed" {
		_, err := p.b.Server.AddRow("U0PERSON", p.b.ListID, boardtest.TextCell(column("Title", "text"), "typed"), boardtest.SelectCell(column("Assignee", "select"), "gamma"))
		if err != nil {
			p.Fatal(err)
		}
		p.ahead.Add(int64(6 * time.Second))
		return
	}
	row, steps := p.rowOf(t)
	if row == "" {
		return
	}
	if a.how != "done" || p.rows[row].Status != pipeline.AgentDone {
		t.touched = append(t.touched, a.how)
	}
	if a.how == "id cleared" && t.cleared {
		return // who does so twice is told instead of fought
	}
	switch status, is := pipeline.ParseStatus(a.how); {
	case is:
		edit(row, boardtest.SelectCell(column("Status", "select"), string(status)))
	case strings.HasPrefix(a.how, "given to "):
		edit(row, boardtest.SelectCell(column("Assignee", "select"), strings.TrimPrefix(a.how, "given to ")))
	case a.how == "critical":
		edit(row, boardtest.SelectCell(column("Priority", "select"), a.how))
	case a.how == "renamed":
		edit(row, boardtest.TextCell(column("Title", "text"), "renamed "+t.title))
	case a.how == "id cleared":
		t.cleared = true
		edit(row, boardtest.TextCell(column("Task ID", "text"), ""))
	case a.how == "row deleted":
		if err := p.b.Server.DeleteRow("U0PERSON", p.b.ListID, row); err != nil {
			p.Fatal(err)
		}
	case a.how == "step added":
		if _, err := p.b.Server.AddStep("U0PERSON", p.b.ListID, row, boardtest.TextCell(column("Title", "text"), "more")); err != nil {
			p.Fatal(err)
		}
	case len(steps) == 0:
	case a.how == "step deleted" && len(steps) > 1: // a task without steps waits until somebody adds one
		if err := p.b.Server.DeleteRow("U0PERSON", p.b.ListID, steps[0]); err != nil {
			p.Fatal(err)
		}
	case a.how == "step ticked":
		edit(steps[0], boardtest.SelectCell(column("Status", "select"), "done"), boardtest.CheckboxCell(column("Completed", ""), true))
	case a.how == "step opened":
		edit(steps[0], boardtest.SelectCell(column("Status", "select"), "new"), boardtest.CheckboxCell(column("Completed", ""), false))
	}
	p.ahead.Add(int64(6 * time.Second))
}

// rowOf finds the row of a task, and those of its steps, in the order of their
// titles and ids.
func (p *play) rowOf(t *part) (row string, steps []string) {
	for id, r := range p.rows {
		if r.Parent == "" && r.Task() == t.id && strings.HasSuffix(r.Title, t.title) {
			row = id
		}
	}
	for id, r := range p.rows {
		if row != "" && r.Parent == row {
			steps = append(steps, id)
		}
	}
	slices.SortFunc(steps, func(a, b string) int { return strings.Compare(p.rows[a].Title+a, p.rows[b].Title+b) })
	return row, steps
}

// rewrite does to a dispatch file what agents do, without its lock.
func (p *play) rewrite(who, how string) {
	path := filepath.Join(p.workspace(who), "task-dispatch.json")
	data, err := os.ReadFile(path)
	var file map[string][]map[string]any
	if err != nil || json.Unmarshal(data, &file) != nil {
		return
	}
	list := file["dispatched"]
	switch {
	case how == "garbage":
		put(p, path, "{")
		past := time.Now().Add(-time.Minute) // nobody is still writing it
		os.Chtimes(path, past, past)
		return
	case how == "gone":
		os.Remove(path)
		return
	case len(list) == 0:
		return
	case how == "an entry goes":
		file["dispatched"] = list[1:]
	case how == "an entry is picked":
		list[len(list)-1]["picked"] = true
	case how == "no entry is picked":
		for _, e := range list {
			delete(e, "picked")
		}
	}
	if data, err = json.Marshal(file); err != nil {
		p.Fatal(err)
	}
	put(p, path, string(data))
}

// moves are those that OTM may make of what the board shows, until the next look. The
// board may be behind: it does not show each move.
var moves = map[pipeline.Status][]pipeline.Status{
	"":                  {pipeline.New, pipeline.Assigned},
	pipeline.New:        {pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Pending, pipeline.Failed},
	pipeline.Assigned:   {pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Pending, pipeline.Failed},
	pipeline.InProgress: {pipeline.Blocked, pipeline.AgentDone, pipeline.Pending, pipeline.Failed, pipeline.Assigned},
	pipeline.Blocked:    {pipeline.InProgress, pipeline.AgentDone, pipeline.Pending, pipeline.Failed},
	pipeline.Pending:    {pipeline.Dormant, pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Failed}, // a person chose it, or the next run follows
	pipeline.Failed:     {pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Pending},                                     // its last run reports after all
}

// checkMoves holds what OTM did to the board since the last look against what
// it may do.
func (p *play) checkMoves(now map[string]pipeline.Row) {
	for id, was := range p.rows {
		is, there := now[id]
		top := was
		if was.Parent != "" {
			top = p.rows[was.Parent]
		}
		switch {
		case !there && (top.Status == pipeline.Done || top.Status == pipeline.Cancelled) && p.isArchived(top.ID):
		case !there:
			p.fail("the row %q (%s) has gone", was.Title, was.Status)
		case was.Parent != "" && was.StepDone() && !is.StepDone():
			p.fail("a step of %q was opened", top.Title)
		case was.Parent == "" && was.Status != is.Status && !slices.Contains(moves[was.Status], is.Status) && !((is.Status == pipeline.New || is.Status == pipeline.Assigned) && p.wasGivenAway(&was)) && !p.isOf(&was, "reviewed"):
			p.fail("%s %q was moved from %s to %s", was.TaskID, was.Title, was.Status, is.Status)
		case was.Title != is.Title, was.Assignee != is.Assignee && !p.isClaimable(&was):
			p.fail("%s %q of %q is %q of %q now", was.TaskID, was.Title, was.Assignee, is.Title, is.Assignee)
		}
	}
}

// isClaimable reports whether a row is or was the shared queue's, also one of which the
// task has another row by now: its agent changes as it is claimed and goes back.
func (p *play) isClaimable(row *pipeline.Row) bool {
	return p.shared[row.ID] || slices.ContainsFunc(p.parts, func(t *part) bool {
		return t.agent == pipeline.SharedQueue && p.isRowOf(row, t)
	})
}

// isArchived reports whether the task of a row was archived: whoever delivers next
// deletes its rows.
func (p *play) isArchived(row string) bool {
	tasks, err := p.store().Tasks(p.Context(), core.Filter{Rows: []string{row}})
	if err != nil {
		p.Fatal(err)
	}
	return len(tasks) == 1 && !tasks[0].ArchivedAt.IsZero()
}

// wasGivenAway reports whether a person gave a task to another agent: it is new
// then, and is sent out anew.
func (p *play) wasGivenAway(row *pipeline.Row) bool {
	ended := row.Status == pipeline.Rejected || row.Status == pipeline.Failed || row.Status == pipeline.Pending
	return (row.Status.Active() || ended) && p.isOf(row, "given to ")
}

// isOf reports whether a row is of a task to which something was done that begins so. What
// reviewers do by commands is shown later.
func (p *play) isOf(row *pipeline.Row, done string) bool {
	return slices.ContainsFunc(p.parts, func(t *part) bool {
		return p.isRowOf(row, t) && slices.ContainsFunc(t.touched, func(how string) bool { return strings.HasPrefix(how, done) })
	})
}

// isRowOf reports whether a row is that of a task, also where its id was cleared.
func (p *play) isRowOf(row *pipeline.Row, t *part) bool {
	rec := p.task(t.id)
	return row.Task() == t.id || rec != nil && rec.RowID == row.ID
}

// checkAlways holds what must be true at every moment, also where we died. That the
// tables follow from the events is looked at where we died, and in the end.
func (p *play) checkAlways(died bool) {
	tops := map[pipeline.TaskID][]string{}
	for id, r := range p.rows {
		if r.Parent == "" && r.Task() != 0 {
			tops[r.Task()] = append(tops[r.Task()], id)
		}
	}
	for id, rows := range tops {
		if len(rows) > 1 {
			p.fail("%v has %d rows", id, len(rows))
		}
	}
	p.checkEvents()
	for _, f := range p.fsck(false, died) {
		switch f.Rule {
		case fsck.RuleStore, fsck.RuleDropped, fsck.RuleUpdates:
			p.fail("fsck: %v: %s (%s)", f.TaskID, f.Text, f.Rule)
		}
	}
}

// checkEvents holds what happened since the last look against what was done: nothing is
// said of a person that nobody did, and each move of an agent's is in the table.
func (p *play) checkEvents() {
	events, err := p.store().Events(p.Context(), core.EventFilter{After: p.seen, Archived: true})
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range events {
		p.seen = e.Seq
		t := p.owner(e.Task)
		m, moved := e.Data.(core.TaskMoved)
		approved := moved && m.From == pipeline.AgentDone && m.To == pipeline.Done
		switch by := e.By.Kind; {
		case t == nil:
		case (by == core.Person || by == core.Board) && t.touched == nil && !approved:
			p.fail("%v: nobody did this: %s %+v", e.Task, e.Type(), e.Data)
		case by != core.Person && by != core.Board && moved && m.Move == core.Overridden:
			p.fail("%v: %s moved it from %s to %s", e.Task, e.By, m.From, m.To)
		}
	}
}

// asItIs is a store that is not held against its events.
type asItIs struct{ *store.Store }

// Differs implements fsck.Store.
func (asItIs) Differs(context.Context) ([]string, error) { return nil, nil }

func (p *play) fsck(rest, replay bool) []fsck.Finding {
	var rows []pipeline.Row
	for _, r := range p.rows {
		rows = append(rows, r)
	}
	var checked fsck.Store = p.store()
	if !replay {
		checked = asItIs{p.store()}
	}
	findings, err := fsck.Check(p.Context(), fsck.Options{Dir: p.dir, Store: checked, Agents: p.h.Config.Agents, Rows: rows, Now: p.h.Now(), Quiet: rest})
	if err != nil {
		p.fail("fsck: %v", err)
	}
	return findings
}

// heal lets everybody do what they are to do, with nothing in their way, until
// all is over, and holds what came of it against the model.
func (p *play) heal() {
	for _, who := range cast {
		p.act(act{what: "resume", who: who})
	}
	for round, seconds := range []int{20, 70, 310, 6, 20, 70, 310, 20, 70, 310, 1000, 20, 20, 70, 20} {
		for range 3 {
			for _, what := range []string{"sweep", "pass", "detect"} {
				p.act(act{what: what, how: "timely"})
			}
			for _, who := range cast {
				p.act(act{what: "next", who: who})
				p.finishOther(who)
				p.act(act{what: "report", who: who, how: "all"})
			}
		}
		p.answer(round > 7)
		p.act(act{what: "wait", n: seconds})
		if p.wrong != "" || p.over() {
			break
		}
	}
	for range 3 {
		p.act(act{what: "wait", n: 70}) // what people deleted is known after some walks
		for _, what := range []string{"sweep", "pass", "detect"} {
			p.act(act{what: what, how: "timely"})
		}
	}
	if p.wrong == "" {
		p.checkEnd()
	}
	if p.wrong != "" && !strings.HasPrefix(p.wrong, "in the end") {
		p.wrong = "in the end: " + p.wrong
	}
}

// finishOther lets an agent end a task that the model does not follow.
func (p *play) finishOther(who string) {
	if h := p.hands[who]; h != nil && h.part == nil {
		u := &drop.Update{ID: pipeline.NewDropID(), TaskID: h.id, CreatedAt: p.h.Now(), Status: pipeline.AgentDone}
		p.drop(inbox.TaskUpdates, u.ID, u.Encode())
		delete(p.hands, who)
	}
}

// answer is what people do about what waits for them. In the end they send out
// again what they had set in progress by hand, so that nobody works on it.
func (p *play) answer(all bool) {
	status := p.b.Column(p.T, "Status", "select")
	for id, r := range p.rows {
		to := ""
		t := p.owner(r.Task())
		switch {
		case r.Parent != "":
		case r.Status == pipeline.Blocked, r.Status == pipeline.Pending, r.Status == pipeline.Dormant:
			to = "new"
		case pipeline.FoldName(r.Assignee) == "olga" && r.Status.Active():
			to = "done"
		case all && t != nil && t.touched != nil && r.Status.Active():
			to = "new"
		}
		if to == "" {
			continue
		}
		if t != nil {
			t.touched = append(t.touched, "answered")
		}
		if err := p.b.Server.EditRow("U0PERSON", p.b.ListID, id, boardtest.SelectCell(status, to)); err != nil {
			p.Fatal(err)
		}
	}
	p.ahead.Add(int64(6 * time.Second))
	p.rows = p.look()
}

// over reports whether nothing is left to be done.
func (p *play) over() bool {
	for _, kind := range inbox.Kinds {
		if files, err := p.h.Box.List(kind); err != nil || len(files) > 0 {
			return false
		}
	}
	return len(p.open()) == 0
}

// open are the rows that still have to come to something. One whose id a person
// cleared while nobody knew that it had been made is a stranger's: where it is
// over, it is left alone.
func (p *play) open() (rows []pipeline.Row) {
	tasks, err := p.store().Tasks(p.Context(), core.Filter{})
	if err != nil {
		p.Fatal(err)
	}
	known := map[string]bool{}
	for _, t := range tasks {
		known[t.RowID] = true
	}
	for _, r := range p.rows {
		if r.Parent == "" && (!r.Status.Finished() || r.Task() == 0 && known[r.ID]) {
			rows = append(rows, r)
		}
	}
	return rows
}

func (p *play) checkEnd() {
	if !p.over() {
		var left []string
		for _, r := range p.open() {
			left = append(left, fmt.Sprintf("%s %q of %s (%s)", r.TaskID, r.Title, r.Assignee, r.Status))
		}
		slices.Sort(left)
		p.fail("it does not come to its end: %s", strings.Join(left, ", "))
		return
	}
	for _, f := range p.fsck(true, true) {
		p.fail("fsck: %v: %s (%s)", f.TaskID, f.Text, f.Rule)
	}
	fate := map[string][]*inbox.Settled{}
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir} {
		names, err := p.h.Box.SettledNames(dir)
		if err != nil {
			p.Fatal(err)
		}
		for _, name := range names {
			s, err := p.h.Box.ReadSettled(dir, name)
			if err != nil {
				p.Fatal(err)
			}
			fate[name] = append(fate[name], s)
		}
	}
	for _, t := range p.parts {
		if t.sure {
			p.checkPart(t, fate)
		}
	}
}

// checkPart holds a task that is over against the model.
func (p *play) checkPart(t *part, fate map[string][]*inbox.Settled) {
	for _, file := range append([]string{t.file}, t.reports...) {
		switch got := fate[file]; {
		case len(got) != 1:
			p.fail("%v: %s was settled %d times", t.id, file, len(got))
		case got[0].Result.Class != "" && t.touched == nil:
			p.fail("%v: %s failed: %s", t.id, file, got[0].Result.Error)
		}
	}
	if t.touched != nil {
		return
	}
	rec := p.task(t.id)
	if rec == nil {
		p.fail("the store does not have %v", t.id)
		return
	}
	row, _ := p.rowOf(t)
	switch {
	case row == "" && rec.ArchivedAt.IsZero():
		p.fail("%v is neither on the board nor in the history", t.id)
		return
	case rec.Title != t.title || rec.Agent != t.agent && t.agent != pipeline.SharedQueue || len(rec.Steps) != len(t.steps):
		p.fail("%v is not what it was: %+v", t.id, rec)
		return
	}
	for i, s := range rec.Steps {
		if s.Title != t.steps[i] || s.Done != t.ticked[i] {
			p.fail("%v: step %d is %q, done %t; it was %q, reported as done %t", t.id, i+1, s.Title, s.Done, t.steps[i], t.ticked[i])
		}
	}
	var applied, notes []string
	events, err := p.store().Events(p.Context(), core.EventFilter{Task: t.id, Archived: true})
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range events {
		if n, is := e.Data.(core.Noted); is && slices.Contains(t.reports, n.Drop) {
			applied = append(applied, n.Drop)
		}
		if said, is := e.Data.(core.Said); is {
			notes = append(notes, said.Text)
		}
	}
	if !slices.Equal(notes, t.notes) {
		p.fail("%v: its agent wrote %q, the thread holds %q", t.id, t.notes, notes)
	}
	if !slices.Equal(applied, t.reports) {
		p.fail("%v: reported was %v, applied was %v", t.id, t.reports, applied)
	}
	if rec.Result != t.result {
		p.fail("%v: its result is %q, reported was %q", t.id, rec.Result, t.result)
	}
}
