package boardsink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestInterleavedAtEachPlace has people edit rows, agents and the page change tasks,
// and the board lose answers, in a random order. In the end board and store agree, no
// row is there twice, and every edit of a person came into the store.
func TestInterleavedAtEachPlace(t *testing.T) {
	t.Parallel()
	seeds := uint64(crashtest.Fewer(20))
	if crashtest.Whole() {
		seeds = 2000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := &model{world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 0)), edits: map[string]edit{}, deleted: map[string]bool{}, renamed: map[pipeline.TaskID]bool{}}
			for id := range pipeline.TaskID(3) {
				m.create(id+1, titleOf(id+1), "a", "b", "a")
			}
			m.nextID = 4
			m.delivers()
			for range 60 {
				m.op()
			}
			m.end()
		})
	}
}

// model is a world in which things happen at random.
type model struct {
	*world
	rnd     *rand.Rand
	nextID  pipeline.TaskID
	said    []string
	n       int
	edits   map[string]edit // the last of each cell
	deleted map[string]bool // rows that a person deleted
	renamed map[pipeline.TaskID]bool
}

// edit is a person's edit of one cell.
type edit struct {
	what  string
	after int64                   // the number of the last event before it
	is    func(e core.Event) bool // whether an event says that it was taken over
	// known is true if the cell or the state had this value already. So it is if OTM knows
	// of no other: a person who sets back what our write changed, before its lost answer
	// is cleared up, is not heard.
	known bool
}

func (m *model) say(format string, args ...any) {
	m.said = append(m.said, fmt.Sprintf("%s "+format, append([]any{m.clock.Now().Format(time.TimeOnly)}, args...)...))
}

// op does one thing.
func (m *model) op() {
	m.clock.Advance(time.Duration(m.rnd.IntN(5000)) * time.Millisecond)
	m.Faults.Reveal() // the list lags by some seconds, not by more than SettleAfter
	switch p := m.rnd.IntN(100); {
	case p < 35:
		m.personEdits()
	case p < 60:
		m.command()
	case p < 75:
		m.fault()
		m.say("delivers")
		m.delivers()
	case p < 90:
		m.say("compares")
		m.tryCompare()
	case p < 95:
		m.restart()
	default:
		m.clock.Advance(time.Minute)
	}
}

func (m *model) fault() {
	method := []string{apiCreate, apiUpdate, apiUpdate, apiList, apiDelete, apiInfo}[m.rnd.IntN(6)]
	f := faults[m.rnd.IntN(len(faults))]
	m.say("next %s: %s", method, f.Name)
	m.Faults.Next(method, f)
}

// tryCompare compares where the board can be walked.
func (m *model) tryCompare() {
	b, err := m.client.Begin(context.Background())
	if err != nil {
		m.t.Fatal(err)
	}
	defer b.End()
	if b.Refresh(context.Background(), 0) != nil {
		return
	}
	if _, err := m.differ.Run(context.Background(), b); err != nil {
		m.t.Fatal(err)
	}
}

// tasks are those with a row that is there.
func (m *model) tasks() []*core.Task {
	all, err := m.store.Tasks(context.Background(), core.Filter{})
	if err != nil {
		m.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(t *core.Task) bool { return t.RowID == "" || t.Away() || m.deleted[t.RowID] })
}

func pick[T any](m *model, of ...T) T { return of[m.rnd.IntN(len(of))] }

func (m *model) seq() int64 {
	events, err := m.store.Events(context.Background(), core.EventFilter{})
	if err != nil {
		m.t.Fatal(err)
	}
	return int64(len(events))
}

// expect notes that an edit of a cell has to come into the store.
func (m *model) expect(cell, what string, known bool, is func(core.Event) bool) {
	m.say("a person edits %s: %s", cell, what)
	m.edits[cell] = edit{what: what, after: m.seq(), is: is, known: known}
}

func (m *model) personEdits() {
	tasks := m.tasks()
	if len(tasks) == 0 {
		return
	}
	t := pick(m, tasks...)
	cell := func(name string) string { return fmt.Sprint(t.RowID, " ", name) }
	edited := func(f pipeline.Field, to string) func(core.Event) bool {
		return func(e core.Event) bool {
			p, ok := e.Data.(core.EditedByPerson)
			return e.Task == t.ID && (ok && p.Step == 0 && p.Field == f && core.SameAgent(p.To, to) || f == pipeline.FieldReason && reasonOf(e) == to)
		}
	}
	m.n++
	text := fmt.Sprint("person's ", m.n)
	switch m.rnd.IntN(11) {
	case 0, 1, 2:
		s := pick(m, pipeline.New, pipeline.Dormant, pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Done, pipeline.Cancelled, pipeline.Rejected)
		was := m.rowNow(t.RowID).CurrentStatus() // the same label again is no edit
		m.person(t.RowID, m.statusCell(s))
		m.expect(cell("status"), string(s), t.Status == s || was == s || t.Shown.Status == s, func(e core.Event) bool {
			to, ok := e.Data.(core.TaskMoved)
			return e.Task == t.ID && ok && to.To == s
		})
	case 3:
		m.person(t.RowID, m.text("Title", text))
		m.expect(cell("title"), text, false, edited(pipeline.FieldTitle, text))
	case 4:
		m.person(t.RowID, m.text("Reason", text))
		m.expect(cell("reason"), text, false, edited(pipeline.FieldReason, text))
	case 5:
		agent := pick(m, agents...)
		was := m.rowNow(t.RowID).Assignee
		m.person(t.RowID, boardtest.SelectCell(m.Column(m.t, "Assignee", "select"), m.optionOf("Assignee", agent.Label)))
		m.expect(cell("assignee"), agent.Name, core.SameAgent(t.Agent, agent.Name) || was == agent.Label || t.Shown.Agent == agent.Name, edited(pipeline.FieldAssignee, agent.Name))
	case 6:
		m.person(t.RowID, boardtest.NumberCell(m.Column(m.t, "Subtasks remaining", "number"), 77))
		m.say("a person edits %s: remaining", t.ID)
	case 7:
		if m.renamed[t.ID] {
			return // once an hour
		}
		m.renamed[t.ID] = true
		m.person(t.RowID, m.text("Task ID", pick(m, "", "soon", "T-00099")))
		m.say("a person edits %s: Task ID", t.ID)
	case 8:
		m.editStep(t, text)
	case 9:
		if _, err := m.Server.AddStep("U0ROB", m.ListID, t.RowID, m.text("Title", text)); err != nil {
			m.t.Fatal(err)
		}
		m.expect(t.RowID+" step "+text, "added", false, func(e core.Event) bool {
			s, ok := e.Data.(core.StepAdded)
			return e.Task == t.ID && ok && s.Title == text
		})
		m.clock.Advance(pipeline.StatusAge + time.Second)
	case 10:
		m.deletes(t)
	}
}

// rowNow is a row as the board has it.
func (m *model) rowNow(id string) *pipeline.Row {
	rows := m.rows()
	i := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.ID == id })
	if i < 0 {
		return &pipeline.Row{}
	}
	return &rows[i]
}

// reasonOf is the reason that an event sets; "": none.
func reasonOf(e core.Event) string {
	if n, ok := e.Data.(core.Noted); ok && n.Reason != nil {
		return *n.Reason
	}
	return ""
}

// optionOf is the value of an option of a select.
func (m *model) optionOf(column, label string) string {
	columns, err := m.Server.Columns(m.ListID)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range columns {
		for _, o := range c.Options {
			if c.Name == column && o.Label == label {
				return o.Value
			}
		}
	}
	return label
}

func (m *model) editStep(t *core.Task, text string) {
	steps := slices.DeleteFunc(slices.Clone(t.Steps), func(s core.Step) bool { return s.RowID == "" || m.deleted[s.RowID] })
	if len(steps) == 0 {
		return
	}
	s := pick(m, steps...)
	if m.rnd.IntN(2) == 0 {
		m.person(s.RowID, m.text("Title", text))
		m.expect(s.RowID+" title", text, false, func(e core.Event) bool {
			p, ok := e.Data.(core.EditedByPerson)
			return e.Task == t.ID && ok && p.Step == s.ID && p.To == text
		})
		return
	}
	done := m.rnd.IntN(2) == 0
	status := pipeline.New
	if done {
		status = pipeline.Done
	}
	was := m.rowNow(s.RowID).StepDone()
	m.person(s.RowID, m.statusCell(status), boardtest.CheckboxCell(m.Column(m.t, "Completed", ""), done))
	m.expect(s.RowID+" done", fmt.Sprint(done), s.Done == done || was == done || s.Shown.Done == done, func(e core.Event) bool {
		d, ok := e.Data.(core.StepDone)
		return e.Task == t.ID && ok && d.Step == s.ID && d.Done == done
	})
}

// deletes has a person delete a row, or a step of a task that is open.
func (m *model) deletes(t *core.Task) {
	row := t.RowID
	if len(t.Steps) > 1 && t.Steps[0].RowID != "" && m.rnd.IntN(2) == 0 && !m.deleted[t.Steps[0].RowID] {
		row = t.Steps[0].RowID
		for cell := range m.edits {
			if len(cell) > len(row) && cell[:len(row)] == row {
				delete(m.edits, cell)
			}
		}
	}
	m.clock.Advance(pipeline.StatusAge + time.Second)
	if err := m.Server.DeleteRow("U0ROB", m.ListID, row); err != nil {
		m.t.Fatal(err)
	}
	m.deleted[row] = true
	m.say("a person deletes %s of %v", row, t.ID)
}

// command has somebody change a task in the store.
func (m *model) command() {
	tasks := m.tasks()
	if len(tasks) == 0 || m.rnd.IntN(8) == 0 {
		m.say("create %v", m.nextID)
		m.create(m.nextID, titleOf(m.nextID), "a", "b")
		m.nextID++
		return
	}
	t := pick(m, tasks...)
	by, do := core.ByAgent(t.Agent), core.Action(nil)
	m.n++
	text := fmt.Sprint("ours ", m.n)
	switch m.rnd.IntN(8) {
	case 0, 1:
		by, do = core.Component("otm-dispatcher"), core.HandOut{Agent: t.Agent, Workspace: "/w"}
	case 2:
		do = core.Report{Steps: []string{"1"}, Dropped: m.clock.Now()}
	case 3:
		do = core.Report{Status: pipeline.Blocked, Reason: text, Dropped: m.clock.Now()}
	case 4:
		do = core.Report{Status: pipeline.AgentDone, Result: text, Dropped: m.clock.Now()}
	case 5:
		by, do = core.ByPerson("Page"), core.Edits{Title: &text, Status: new(pick(m, pipeline.New, pipeline.Dormant, pipeline.Done))}
	case 6:
		by, do = core.ByPerson("Page"), core.Edits{Agent: new(pick(m, agents...).Name), Priority: new(pick(m, pipeline.Priorities...))}
	case 7:
		by, do = core.Component("otm-completion-detector"), core.Promote{}
	}
	o, err := m.store.Do(context.Background(), core.Command{At: m.clock.Now(), By: by, Task: t.ID, Do: do})
	if err != nil {
		m.t.Fatal(err)
	}
	m.say("%v: %T %+v: %v", t.ID, do, do, o[0].Err)
}

// end heals everything, and checks what it came to.
func (m *model) end() {
	m.Faults.Forget()
	m.Faults.Reveal()
	m.say("end")
	m.settled()
	for row := range m.deleted {
		if err := m.Server.RestoreRow("U0ROB", m.ListID, row); err == nil {
			m.say("restored %s", row)
		}
	}
	m.deleted = map[string]bool{}
	m.settled()
	m.check()
	events, err := m.store.Events(context.Background(), core.EventFilter{})
	if err != nil {
		m.t.Fatal(err)
	}
	for cell, e := range m.edits {
		if !e.known && !slices.ContainsFunc(events[e.after:], e.is) {
			m.t.Errorf("lost: %s %s", cell, e.what)
		}
	}
	if m.t.Failed() {
		for _, s := range m.said {
			m.t.Log(s)
		}
		for _, e := range events {
			if w, own := e.Data.(core.BoardWritten); own {
				m.t.Logf("%s %v %s wrote %s %v", e.At.Local().Format(time.TimeOnly), e.Task, w.Row, said(w.Shown), w.Steps)
				continue
			}
			m.t.Logf("%s %v %s %+v", e.At.Local().Format(time.TimeOnly), e.Task, e.By, e.Data)
		}
	}
}

// settled delivers and compares, until a while after the last edit.
func (m *model) settled() {
	m.t.Helper()
	for range 10 {
		m.clock.Advance(15 * time.Second)
		m.delivers()
		m.tryCompare()
	}
	m.delivers()
}
