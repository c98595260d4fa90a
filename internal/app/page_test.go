package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/page"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// visitor is a person at the page, without a browser.
type visitor struct {
	t       testing.TB
	home    *Home
	address string
	client  *http.Client
	pass    string // what each request bears
}

// visit serves the page of a directory, without the other components, and
// signs in.
func visit(t testing.TB, h *Home, o board.Options) *visitor {
	t.Helper()
	o.Listen = h.Config.Board.Listen
	ctx, stop := context.WithCancel(context.Background())
	p, err := openPage(ctx, h, o, h.Config.Slack.ListID == "")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the page ended: %v", err)
		}
		if err := p.close(); err != nil {
			t.Errorf("close the page: %v", err)
		}
	})
	v := &visitor{t: t, home: h, address: strings.TrimSuffix(p.address, "/"), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(v.client.CloseIdleConnections)
	link, err := newPageDoor(h).link(p.address)
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "#code=")
	status, body := v.post("/page/session", map[string]string{"code": code})
	var in struct{ Pass string }
	if err := json.Unmarshal([]byte(body), &in); status != http.StatusOK || err != nil {
		t.Fatalf("sign in: status %d, %s", status, body)
	}
	v.pass = in.Pass
	return v
}

func (v *visitor) post(path string, what any) (int, string) {
	v.t.Helper()
	data, err := json.Marshal(what)
	if err != nil {
		v.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.address+path, bytes.NewReader(data))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", v.address)
	return v.send(r)
}

func (v *visitor) send(r *http.Request) (int, string) {
	v.t.Helper()
	r.Header.Set("Authorization", "Bearer "+v.pass)
	w, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer w.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(w.Body); err != nil {
		v.t.Fatal(err)
	}
	return w.StatusCode, b.String()
}

func (v *visitor) ask(path string) (int, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.address+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.send(r)
}

// get reads an answer as JSON.
func get[T any](v *visitor, path string) T {
	v.t.Helper()
	status, body := v.ask(path)
	var out T
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		v.t.Fatalf("%s: status %d, %s", path, status, body)
	}
	return out
}

func (v *visitor) state() page.State { v.t.Helper(); return get[page.State](v, "/page/state") }

// task is the card of a title.
func (v *visitor) task(title string) view.Card {
	v.t.Helper()
	for _, task := range v.state().Tasks {
		if task.Title == title {
			return task
		}
	}
	v.t.Fatalf("no task %q", title)
	return view.Card{}
}

func (v *visitor) do(a page.Action) {
	v.t.Helper()
	if status, body := v.post("/page/do", a); status != http.StatusOK {
		v.t.Fatalf("%+v: status %d, %s", a, status, body)
	}
}

// refused wants an action to be refused with words.
func (v *visitor) refused(a page.Action, words ...string) {
	v.t.Helper()
	status, body := v.post("/page/do", a)
	if status != http.StatusUnprocessableEntity {
		v.t.Errorf("%+v: status %d, %s", a, status, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			v.t.Errorf("%+v: %s lacks %q", a, body, w)
		}
	}
}

// row is a row as the board has it.
func (v *visitor) row(id string) pipeline.Row {
	v.t.Helper()
	endpoint, err := board.ReadEndpoint(v.home.boardDir())
	if err != nil {
		v.t.Fatal(err)
	}
	token, err := board.ReadToken(v.home.boardDir())
	if err != nil {
		v.t.Fatal(err)
	}
	return rowOf(v.t, slacklist.Options{Dir: v.home.Dir, URL: endpoint.URL, ListID: endpoint.ListID, Token: token}, id)
}

func rowOf(t testing.TB, o slacklist.Options, id string) pipeline.Row {
	t.Helper()
	snap, err := slacklist.New(o).Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(snap.Rows, func(r pipeline.Row) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no row %s", id)
	}
	return snap.Rows[i]
}

// said are the lines of a task's history that a person made.
func (v *visitor) said(id string) []string {
	v.t.Helper()
	task, err := pipeline.ParseTaskID(id)
	if err != nil {
		v.t.Fatal(err)
	}
	var lines []string
	for _, e := range view.Lines(eventsOf(v.t, v.home, task)) {
		if e.Who == human {
			lines = append(lines, strings.TrimSuffix(e.What+": "+e.Detail, ": "))
		}
	}
	return lines
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the history says %q, want %q", got, want)
	}
}

func TestPageState(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	plant(t, h,
		seed{title: "one", status: "blocked", agent: "DEVDAS", priority: "high", project: "site", reason: "why", result: "what", steps: []string{"x a", "b"}},
		seed{title: "typed", status: "new", agent: "robin", steps: []string{"c"}, byHand: true})
	failed := `{"id":"x","taskId":"T-00009","title":"t","_result":{"at":"2026-03-14T08:20:19Z","inbox":"new-tasks","attempts":1,"error":"is taken","class":"conflict","hint":"otm retry --new-id"}}`
	put(t, filepath.Join(h.Dir, inbox.FailedDir, "20260314T082019.000000000Z-a.json"), failed)
	put(t, filepath.Join(h.Dir, inbox.FailedDir, "20260314T082020.000000000Z-b.json"), "no JSON")
	put(t, filepath.Join(h.Box.Dir(inbox.NewTasks), "20260314T082021.000000000Z-c.json"), "{}")
	v := visit(t, h, board.Options{RowLimit: 7})
	s := v.state()
	if s.Board.Rows != 5 || s.Board.Limit != 7 || !s.Live || !s.Board.WalkAt.IsZero() {
		t.Errorf("room %+v", s.Board)
	}
	if len(s.Agents) != 3 || !strings.HasPrefix(s.CreateCommand, "otm-create --title") || !strings.Contains(s.CreateCommand, "--agent archibald --dir ") {
		t.Errorf("agents %+v, command %q", s.Agents, s.CreateCommand)
	}
	if len(s.Components) != 4 || s.Components[0].Health != "not installed" {
		t.Errorf("components %+v", s.Components)
	}
	if s.Inbox[inbox.NewTasks] != 1 || s.Failed != 2 {
		t.Errorf("waiting %+v, failed %d", s.Inbox, s.Failed)
	}
	if len(s.Reasons) != 2 || s.Reasons[0].Error != "no reason stands beside it" || s.Reasons[1].TaskID != 9 || !s.Reasons[1].Renumber {
		t.Errorf("failed %+v", s.Reasons)
	}
	one, typed := v.task("one"), v.task("typed")
	if one.TaskID != 1 || one.Agent != "devdas" || one.Priority != "high" || one.Project != "site" || one.Reason != "why" || one.Result != "what" || one.Status != "blocked" ||
		len(one.Steps) != 2 || one.Steps[0].Title != "a" || !one.Steps[0].Done || one.Steps[1].Done || one.Events != 1 || h.Now().Sub(one.Created) < 59*time.Minute {
		t.Errorf("task %+v", one)
	}
	if typed.TaskID != 0 || typed.Row == "" || typed.Agent != "robin" || len(typed.Steps) != 1 {
		t.Errorf("task %+v", typed)
	}
	d := get[page.Detail](v, "/page/task?row="+one.Row)
	if !strings.Contains(d.Why, "why") || d.Next == "" || len(d.History) != 2 || d.History[0].Who != "otm-create" || d.History[0].At.IsZero() {
		t.Errorf("detail %+v", d)
	}
	if d := get[page.Detail](v, "/page/task?row="+typed.Row); !strings.Contains(d.Why, "typed on the board") || d.History == nil {
		t.Errorf("detail %+v", d)
	}
}

// put writes a file, and the directory where it is missing.
func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Without an agent there is no command to show, but the file to name one in.
func TestPageWithoutAgents(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h = reopenHome(t, h.Dir, "[board]\nlisten = \"127.0.0.1:0\"\n")
	v := visit(t, h, board.Options{})
	if s := v.state(); s.CreateCommand != "" || s.ConfigPath != filepath.Join(h.Dir, "otm.toml") {
		t.Errorf("command %q, path %q", s.CreateCommand, s.ConfigPath)
	}
	v.do(page.Action{Do: "create", Title: "for anybody", Agent: "somebody"})
	v.refused(page.Action{Do: "create", Title: "for nobody", Agent: "<b>"}, "no name for an agent")
	v.refused(page.Action{Do: "edit", Row: "RecNONE", Agent: "<b>"}, "no name for an agent")
}

// What a person does on the page is a person's in the history, and stands on the board.
func TestPageEdits(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h,
		seed{title: "accept", status: "agent_done", agent: "devdas", steps: []string{"x a"}},
		seed{title: "send back", status: "agent_done", agent: "devdas", steps: []string{"x a", "x b"}},
		seed{title: "edit", status: "new", agent: "devdas", steps: []string{"a", "b"}},
		seed{title: "typed", status: "new", byHand: true, steps: []string{"a"}})
	v := visit(t, h, board.Options{})
	v.do(page.Action{Do: "accept", Row: rows[0]})
	if r := v.row(rows[0]); r.Status != pipeline.Done || !r.Checked {
		t.Errorf("row %+v", r)
	}
	wantLines(t, v.said("T-00001"), "approved", "changed status: agent_done to done")
	v.refused(page.Action{Do: "accept", Row: rows[0]}, "it is done by now, no longer agent_done")
	v.refused(page.Action{Do: "rework", Row: rows[0], Reason: "late"}, "it is done by now")

	v.do(page.Action{Do: "rework", Row: rows[1], Reason: " the tests are missing \n"})
	if r := v.row(rows[1]); r.Status != pipeline.New || r.Reason != "the tests are missing" || r.Checked {
		t.Errorf("row %+v", r)
	}
	if task := v.task("send back"); !task.Steps[0].Done || !task.Steps[1].Done {
		t.Errorf("ticks are gone: %+v", task.Steps)
	}
	wantLines(t, v.said("T-00002"), "changed status: agent_done to new", "sent back: the tests are missing")
	if task := stateOf(t, h, 2); task.Reason != "the tests are missing" || task.Status != pipeline.New {
		t.Errorf("task %+v", task)
	}

	steps := v.task("edit").Steps
	v.do(page.Action{Do: "tick", Row: steps[1].Row, Done: true})
	if r := v.row(steps[1].Row); !r.StepDone() || !r.Checked {
		t.Errorf("step %+v", r)
	}
	v.do(page.Action{Do: "tick", Row: steps[1].Row})
	if r := v.row(steps[1].Row); r.StepDone() {
		t.Errorf("step %+v", r)
	}
	v.do(page.Action{Do: "edit", Row: rows[2], Status: "Pending", Agent: "robin", Priority: "critical"})
	if r := v.row(rows[2]); r.Status != pipeline.Dormant || r.Assignee != "robin" || r.Priority != pipeline.Critical {
		t.Errorf("row %+v", r)
	}
	v.do(page.Action{Do: "edit", Row: rows[2], Status: "done"})
	if r := v.row(rows[2]); r.Status != pipeline.Done || !r.Checked {
		t.Errorf("row %+v", r)
	}
	v.do(page.Action{Do: "edit", Row: rows[2], Status: "new"})
	if r := v.row(rows[2]); r.Status != pipeline.New || r.Checked {
		t.Errorf("row %+v", r)
	}
	wantLines(t, v.said("T-00003"), "ticked a step: b", "opened a step again: b", "changed priority: to critical", "changed status: new to dormant",
		"assigned: to robin", "changed status: dormant to done", "changed status: done to new")

	v.refused(page.Action{Do: "edit", Row: rows[3], Agent: "devdas"}, errNoTask.Reason)
	v.refused(page.Action{Do: "tick", Row: v.task("typed").Steps[0].Row, Done: true}, errNoTask.Reason)
	if r := v.row(rows[3]); r.Assignee != "" {
		t.Errorf("row %+v", r)
	}
}

// C9: what a person writes about a task is kept with its words, as a person's.
func TestC9Answers(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h,
		seed{title: "asks", status: "blocked", agent: "devdas", reason: "which colour?"},
		seed{title: "asks too", status: "blocked", agent: "devdas", reason: "which font?"},
		seed{title: "works", status: "in_progress", agent: "devdas"},
		seed{title: "is done", status: "agent_done", agent: "devdas"})
	v := visit(t, h, board.Options{})
	v.do(page.Action{Do: "unblock", Row: rows[0], Reason: "green"})
	v.do(page.Action{Do: "edit", Row: rows[1], Reason: "any"})
	v.do(page.Action{Do: "edit", Row: rows[2], Reason: "mind the fonts", Priority: "high"})
	v.do(page.Action{Do: "edit", Row: rows[3], Reason: "I look at it tomorrow"})
	for i, want := range []struct {
		status pipeline.Status
		reason string
	}{{pipeline.New, "green"}, {pipeline.Blocked, "any"}, {pipeline.InProgress, "mind the fonts"}, {pipeline.AgentDone, "I look at it tomorrow"}} {
		task := stateOf(t, h, pipeline.TaskID(i+1))
		if r := v.row(rows[i]); r.Status != want.status || r.Reason != want.reason || task.Reason != want.reason || !task.Answered {
			t.Errorf("row %+v, task %+v", r, task)
		}
	}
	wantLines(t, v.said("T-00001"), "changed status: blocked to new", "answered: green")
	wantLines(t, v.said("T-00002"), "answered: any")
	wantLines(t, v.said("T-00003"), "changed priority: to high", "reason: mind the fonts")
	wantLines(t, v.said("T-00004"), "reason: I look at it tomorrow")
}

// The page does with a task what the commands of the same names do.
func TestPageSpeaksInCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h,
		seed{title: "rejected", status: "agent_done", agent: "devdas"},
		seed{title: "reworked", status: "rejected", agent: "devdas"},
		seed{title: "answered", status: "blocked", agent: "devdas", reason: "which colour?"},
		seed{title: "done by a person", status: "in_progress", agent: "robin"},
		seed{title: "not done yet", status: "in_progress", agent: "devdas"})
	v := visit(t, h, board.Options{})
	v.do(page.Action{Do: "reject", Row: rows[0], Reason: "not so"})
	v.do(page.Action{Do: "rework", Row: rows[1], Reason: "but so"})
	v.do(page.Action{Do: "unblock", Row: rows[2], Reason: "green"})
	v.do(page.Action{Do: "accept", Row: rows[3]})
	v.refused(page.Action{Do: "accept", Row: rows[4]}, "it is in_progress by now, no longer agent_done")
	v.refused(page.Action{Do: "reject", Row: rows[0]}, "say what is not good enough")
	v.refused(page.Action{Do: "assign", Row: rows[4], Agent: "robin"}, "there is no action")
	for i, want := range []pipeline.Status{pipeline.Rejected, pipeline.New, pipeline.New, pipeline.Done, pipeline.InProgress} {
		if r := v.row(rows[i]); r.Status != want {
			t.Errorf("%s is %s, want %s", r.Title, r.Status, want)
		}
	}
}

// What a person writes on a task stands in its thread, with what its agent says, and changes
// nothing else.
func TestPageMessages(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h, seed{title: "works", status: "in_progress", agent: "devdas", steps: []string{"a"}}, seed{title: "waits", status: "blocked", agent: "devdas", reason: "which?"})
	v := visit(t, h, board.Options{})
	for _, row := range rows {
		v.do(page.Action{Do: "say", Row: row, Text: " mind the\nfonts "})
	}
	for i, status := range []pipeline.Status{pipeline.InProgress, pipeline.Blocked} {
		task := stateOf(t, h, pipeline.TaskID(i+1))
		if task.Status != status || task.LastMessage == nil || task.LastMessage.Text != "mind the\nfonts" || task.LastMessage.By != core.ByPerson(human) {
			t.Errorf("the last message is %+v, and the task %s", task.LastMessage, task.Status)
		}
		wantLines(t, v.said(task.ID.String()), "said: [NOTE] mind the\nfonts")
	}
	v.do(page.Action{Do: "unblock", Row: rows[1], Reason: "the blue one"})
	var thread []string
	for _, line := range get[page.Detail](v, "/page/task?row="+rows[1]).History {
		if line.Words {
			thread = append(thread, line.Who+" "+line.What+": "+line.Detail)
		}
	}
	wantLines(t, thread, "human said: [NOTE] mind the\nfonts", "human answered: the blue one")
	for text, words := range map[string]string{" ": "the text is missing", strings.Repeat("x", 501): "the text has 501 characters, more than 500"} {
		v.refused(page.Action{Do: "say", Row: rows[0], Text: text}, words)
	}
	v.refused(page.Action{Do: "say", Row: v.task("works").Steps[0].Row, Text: "x"}, "no longer on the board")
	v.refused(page.Action{Do: "say", Row: "RecNONE", Text: "x"}, "no longer on the board")
}

// C10: a step that a person has just added on the board has no number yet, as
// otm-update does not know it. It stood first, and so moved the numbers of all
// others.
func TestC10StepWithoutNumberComesLast(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	row := plant(t, h, seed{title: "one", status: "in_progress", agent: "devdas", steps: []string{"a", "b"}, alter: func(t *core.Task) {
		slices.Reverse(t.Steps) // the task's order is not that of the rows
		t.Steps = append(t.Steps[:1:1], core.Step{ID: 3, Title: "gone", RowID: "RecGONE", Shown: core.StepShown{Title: "gone"}}, t.Steps[1])
	}})[0]
	s, err := boardtest.Open(boardtest.Options{Options: board.Options{Dir: h.boardDir()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.AddStep(board.HumanUser, s.ListID(), row, boardtest.TextCell(titleColumn(t, s), "added"))
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	v := visit(t, h, board.Options{})
	var got []string
	for _, step := range v.task("one").Steps {
		got = append(got, fmt.Sprint(step.Number, " ", step.Title))
	}
	if want := []string{"1 b", "2 gone", "3 a", "0 added"}; !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

func titleColumn(t *testing.T, s *boardtest.Server) string {
	t.Helper()
	columns, err := s.Columns(s.ListID())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(columns, func(c boardtest.Column) bool { return c.Name == "Title" })
	return columns[i].ID
}

// What is done to a row that bears another task's id is nothing of that task's.
func TestPageRowOfNoTask(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	row := plant(t, h, seed{title: "a copy", status: "agent_done", agent: "devdas", steps: []string{"x a"}, alter: func(t *core.Task) {
		t.RowID, t.Steps[0].RowID = "RecITSELF", "RecSTEP"
	}})[0]
	was := stateOf(t, h, 1)
	v := visit(t, h, board.Options{})
	card := v.task("a copy")
	for _, a := range []page.Action{{Do: "tick", Row: card.Steps[0].Row}, {Do: "edit", Row: row, Priority: "critical"}, {Do: "rework", Row: row, Reason: "not so"}} {
		v.refused(a, errNoTask.Reason)
	}
	if r := v.row(row); r.Status != pipeline.AgentDone || r.Priority != pipeline.Normal || r.Reason != "" {
		t.Errorf("row %+v", r)
	}
	if now := stateOf(t, h, 1); now.Priority != was.Priority || now.Status != was.Status || now.Reason != "" {
		t.Errorf("task %+v", now)
	}
	if card.Events != 0 {
		t.Errorf("card %+v", card)
	}
	d := get[page.Detail](v, "/page/task?row="+row)
	if len(d.History) > 0 || !strings.Contains(d.Why, "bears the id of T-00001, which is another row") {
		t.Errorf("detail %+v", d)
	}
}

func TestPageRefusals(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h, seed{title: "one", status: "new", agent: "devdas", steps: []string{"a"}}, seed{title: "two", status: "agent_done", agent: "devdas"})
	put(t, filepath.Join(h.Dir, "secret.json"), `{"_result":{"inbox":"new-tasks"}}`)
	v := visit(t, h, board.Options{})
	row, step := rows[0], v.task("one").Steps[0].Row
	for _, c := range []struct {
		action page.Action
		words  string
	}{
		{page.Action{Do: "edit", Row: row, Status: "bogus"}, `no status \"bogus\"`},
		{page.Action{Do: "edit", Row: row, Priority: "bogus"}, `no priority \"bogus\"`},
		{page.Action{Do: "edit", Row: row, Agent: "devdass"}, "do you mean devdas?"},
		{page.Action{Do: "edit", Row: row}, "nothing was to be changed"},
		{page.Action{Do: "edit", Row: row, Reason: strings.Repeat("x", 501)}, "reason"},
		{page.Action{Do: "rework", Row: row, Reason: "x"}, "it is new by now, no longer agent_done or rejected or blocked"},
		{page.Action{Do: "edit", Row: step, Status: "done"}, "no longer on the board"},
		{page.Action{Do: "edit", Row: "RecNONE", Status: "done"}, "no longer on the board"},
		{page.Action{Do: "edit", Status: "done"}, "no longer on the board"},
		{page.Action{Do: "tick", Row: row, Done: true}, "no longer on the board"},
		{page.Action{Do: "accept", Row: row}, "it is new by now"},
		{page.Action{Do: "rework", Row: rows[1]}, "say what is to be done: the agent reads it"},
		{page.Action{Do: "rework", Row: rows[1], Reason: strings.Repeat("x", 501)}, "reason"},
		{page.Action{Do: "create", Title: "x", Agent: "nobody"}, `no agent \"nobody\"`},
		{page.Action{Do: "create", Title: "x"}, "agent is missing"},
		{page.Action{Do: "create", Title: "  ", Agent: "devdas"}, "title"},
		{page.Action{Do: "create", Title: "a\nb", Agent: "devdas"}, "title"},
		{page.Action{Do: "create", Title: strings.Repeat("x", 501), Agent: "devdas"}, "title"},
		{page.Action{Do: "create", Title: "x", Agent: "devdas", Priority: "bogus"}, `no priority \"bogus\"`},
		{page.Action{Do: "create", Title: "x", Agent: "devdas", Type: "bogus"}, `no type \"bogus\"`},
		{page.Action{Do: "create", Title: "x", Agent: "devdas", Steps: slices.Repeat([]string{"s"}, 51)}, "51 steps"},
		{page.Action{Do: "retry", Name: "none.json"}, "no longer among those that failed"},
		{page.Action{Do: "retry", Name: "../secret.json"}, "no name of a failed file"},
		{page.Action{Do: "retry"}, "no name of a failed file"},
		{page.Action{Do: "delete", Row: row}, `no action \"delete\"`},
	} {
		v.refused(c.action, c.words)
	}
	wantLines(t, v.said("T-00001"))
	wantLines(t, v.said("T-00002"))
	if files, err := h.Box.List(inbox.NewTasks); err != nil || len(files) != 0 {
		t.Errorf("%d files in the inbox, error %v", len(files), err)
	}
}

// A person adds a task as a drop, never as a row.
func TestPageCreates(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	v := visit(t, h, board.Options{})
	for i := range 3 {
		status, body := v.post("/page/do", page.Action{Do: "create", Title: " Say hello ", Agent: "DevDas", Priority: "high", Type: "review", Project: "p", Steps: []string{"a", "b"}})
		if want := fmt.Sprintf(`{"id":"T-%05d"}`, i+1); status != 200 || strings.TrimSpace(body) != want {
			t.Fatalf("status %d, answer %s, want %s", status, body, want)
		}
	}
	files, err := h.Box.List(inbox.NewTasks)
	if err != nil || len(files) != 3 || !files[0].Regular() {
		t.Fatalf("files %v, error %v", files, err)
	}
	data, _, err := h.Box.Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"taskId":"T-00001"`, `"title":"Say hello"`, `"agent":"devdas"`, `"priority":"high"`, `"type":"review"`, `"project":"p"`, `"subtasks":["a","b"]`} {
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(string(data), `": `, `":`), `", "`, `","`), want) {
			t.Errorf("the drop %s lacks %s", data, want)
		}
	}
	if s := v.state(); len(s.Tasks) != 0 || s.Inbox[inbox.NewTasks] != 3 {
		t.Errorf("%d rows, %+v wait", len(s.Tasks), s.Inbox)
	}
}

// A row that somebody deletes while the page shows it.
func TestPageRowGone(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	row, _ := slackTask(t, h, b, "going", pipeline.AgentDone)
	if err := walk(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	v := visit(t, h, board.Options{})
	if err := b.Server.DeleteRow("", b.ListID, row); err != nil {
		t.Fatal(err)
	}
	if status, body := v.post("/page/do", page.Action{Do: "edit", Row: row, Priority: "high"}); status != http.StatusUnprocessableEntity || !strings.Contains(body, "no longer on the board") {
		t.Errorf("an edit: status %d, %s", status, body)
	}
	for _, gone := range []string{"RecNONE", ""} {
		if status, body := v.ask("/page/task?row=" + gone); status != http.StatusUnprocessableEntity || !strings.Contains(body, "no longer on the board") {
			t.Errorf("details of %q: status %d, %s", gone, status, body)
		}
	}
}

// slackHome is a directory with a Slack List, which a board of the tests plays.
func slackHome(t testing.TB, options ...boardtest.Option) (*Home, *boardtest.Board) {
	t.Helper()
	b := boardtest.Start(t, options...)
	h := newHome(t, fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\n", b.ListID, b.URL))
	put(t, filepath.Join(h.Dir, "secrets", "slack"), b.Token+"\n")
	return h, b
}

// slackTask puts task T-00001 with one step on a Slack List, for robin.
func slackTask(t testing.TB, h *Home, b *boardtest.Board, title string, status pipeline.Status) (row, step string) {
	t.Helper()
	row = b.Create(t, "", boardtest.TextCell(b.Column(t, "Title", ""), title), boardtest.TextCell(b.Column(t, "Task ID", ""), "T-00001"),
		boardtest.SelectCell(b.Column(t, "Assignee", ""), "robin"), boardtest.SelectCell(b.Column(t, "Status", ""), string(status)))
	step = b.Create(t, row, boardtest.TextCell(b.Column(t, "Title", ""), "a step"), boardtest.SelectCell(b.Column(t, "Status", ""), "new"))
	task := core.Task{ID: 1, Title: title, Agent: "robin", RowID: row, Status: status, LastStep: 1,
		Steps: []core.Step{{ID: 1, Title: "a step", RowID: step, Shown: core.StepShown{Title: "a step"}}}}
	task.Shown = task.View()
	seedTask(t, h, task)
	return row, step
}

// With a Slack List the page shows the shared snapshot, at no call, and writes
// through the client.
func TestPageOfSlackList(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	v := visit(t, h, board.Options{})
	if s := v.state(); s.Live || !s.Board.WalkAt.IsZero() || len(s.Tasks) != 0 {
		t.Errorf("before the list was read: %+v", s.Board)
	}
	row, step := slackTask(t, h, b, "on Slack", pipeline.AgentDone)
	if err := walk(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	s := v.state()
	if s.Live || s.Board.WalkAt.IsZero() || len(s.Tasks) != 1 || len(s.Tasks[0].Steps) != 1 {
		t.Fatalf("room %+v, tasks %+v", s.Board, s.Tasks)
	}
	calls := b.Faults.Count("slackLists.items.list")
	for range 20 {
		v.state()
	}
	if n := b.Faults.Count("slackLists.items.list") - calls; n != 0 {
		t.Errorf("20 looks cost %d calls", n)
	}
	v.do(page.Action{Do: "tick", Row: step, Done: true})
	v.do(page.Action{Do: "rework", Row: row, Reason: "more"})
	o := slacklist.Options{Dir: h.Dir, URL: b.URL, ListID: b.ListID, Token: b.Token}
	if r := rowOf(t, o, row); r.Status != pipeline.New || r.Reason != "more" {
		t.Errorf("row %+v", r)
	}
	if r := rowOf(t, o, step); !r.StepDone() {
		t.Errorf("step %+v", r)
	}
	wantLines(t, v.said("T-00001"), "ticked a step: a step", "changed status: agent_done to new", "sent back: more")
	if task := v.task("on Slack"); task.Status != "new" || !task.Steps[0].Done {
		t.Errorf("the page shows %+v", task)
	}
	if address, err := newPageDoor(h).address(); err != nil || address != v.address+"/" {
		t.Errorf("the page is said to be at %q, error %v", address, err)
	}
}

// What the list lacks, a person is told, with what to add.
func TestPageMissingColumn(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	status := b.Column(t, "Status", "")
	row, _ := slackTask(t, h, b, "x", pipeline.AgentDone)
	if err := walk(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	v := visit(t, h, board.Options{})
	if err := b.Server.RemoveOption("", b.ListID, status, "done"); err != nil {
		t.Fatal(err)
	}
	v.refused(page.Action{Do: "accept", Row: row}, "the list does not fit", "Status", "hint")
	if err := b.Server.RemoveColumn("", b.ListID, status); err != nil {
		t.Fatal(err)
	}
	v.refused(page.Action{Do: "edit", Row: row, Status: "pending"}, "the list does not fit", "Status")
}

// What the board does not answer, a person is told, and that it may have taken
// effect.
func TestPageBoardOutOfReach(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	row, _ := slackTask(t, h, b, "x", pipeline.New)
	if err := walk(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	v := visit(t, h, board.Options{})
	b.Faults.Next("slackLists.items.update", boardtest.Status(503))
	v.refused(page.Action{Do: "edit", Row: row, Priority: "high"}, "out of reach")
	b.Faults.Next("slackLists.items.list", boardtest.Status(503))
	if err := slacklist.TouchEdited(h.Dir); err != nil { // so the next edit reads the list before
		t.Fatal(err)
	}
	v.refused(page.Action{Do: "edit", Row: row, Priority: "high"}, "out of reach", "otm doctor")
	if r := rowOf(t, slacklist.Options{Dir: h.Dir, URL: b.URL, ListID: b.ListID, Token: b.Token}, row); r.Priority == pipeline.High {
		t.Errorf("what was refused was done: %+v", r)
	}
	b.Faults.Next("slackLists.items.update", boardtest.ApplyThenReset())
	v.refused(page.Action{Do: "edit", Row: row, Priority: "high"}, "it may have taken effect all the same")
	put(t, filepath.Join(h.Dir, "secrets", "slack"), "")
	v.refused(page.Action{Do: "edit", Row: row, Priority: "high"}, "token of the board", "token_file")
}

// An edit that cannot be announced to the components is done all the same, and the
// log says so: they look from time to time.
func TestEditNotAnnounced(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	row := plant(t, h, seed{title: "one", status: "new", agent: "devdas"})[0]
	put(t, filepath.Join(h.boardDir(), "edited", "in its place"), "")
	visit(t, h, board.Options{})
	endpoint, err := board.ReadEndpoint(h.boardDir())
	if err != nil {
		t.Fatal(err)
	}
	token, err := board.ReadToken(h.boardDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint.URL+"slackLists.items.deleteMultiple",
		strings.NewReader(url.Values{"list_id": {endpoint.ListID}, "ids": {`["` + row + `"]`}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	var answer struct{ OK bool }
	if err := json.NewDecoder(w.Body).Decode(&answer); err != nil || !answer.OK {
		t.Errorf("%+v, %v", answer, err)
	}
	if log := content(t, filepath.Join(h.LogDir(), heartbeat.Log(heartbeat.Board))); !strings.Contains(log, "edit not announced") {
		t.Errorf("logged %s", log)
	}
}

// A page learns from a card that the history of its task grew.
func TestPageHistoryGrows(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	plant(t, h, seed{title: "one", status: "in_progress", agent: "devdas", steps: []string{"a", "b"}})
	v := visit(t, h, board.Options{})
	before := v.task("one")
	do(t, h, core.Command{ID: pipeline.NewDropID(), At: h.Now(), By: core.ByAgent("devdas"), Task: 1,
		Do: core.Report{Drop: "a drop", Dropped: h.Now(), Steps: []string{"b"}, Result: "half of it"}})
	after := v.task("one")
	said := get[page.Detail](v, "/page/task?row="+after.Row).History
	if after.Events <= before.Events || len(said) != 4 || said[2].What != "step done" || said[3].What != "result" {
		t.Errorf("before %+v\nafter %+v\nhistory %+v", before, after, said)
	}
}

// A failed file goes back into its inbox, under a new id where it must.
func TestPageRetries(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	drop := `{"id":"00000000-0000-4000-8000-000000000001","taskId":"T-00009","title":"t","agent":"devdas","createdAt":"2026-03-14T08:20:19Z","_result":{"at":"2026-03-14T08:20:19Z","inbox":"new-tasks","attempts":1,"error":"is taken","class":"conflict"}}`
	put(t, filepath.Join(h.Dir, inbox.FailedDir, "20260314T082019.000000000Z-a.json"), drop)
	put(t, filepath.Join(h.Dir, inbox.FailedDir, "20260314T082019.000000000Z-b.json"), drop)
	v := visit(t, h, board.Options{})
	v.do(page.Action{Do: "retry", Name: "20260314T082019.000000000Z-a.json"})
	v.do(page.Action{Do: "retry", Name: "20260314T082019.000000000Z-b.json", NewID: true})
	v.refused(page.Action{Do: "retry", Name: "20260314T082019.000000000Z-a.json"}, "no longer among")
	for _, name := range []string{"a\x00.json", strings.Repeat("a", 300) + ".json"} {
		v.refused(page.Action{Do: "retry", Name: name}, "no longer among")
	}
	s := v.state()
	if s.Inbox[inbox.NewTasks] != 2 || s.Failed != 0 {
		t.Errorf("waiting %+v, failed %+v", s.Inbox, s.Failed)
	}
	data, err := os.ReadFile(filepath.Join(h.Box.Dir(inbox.NewTasks), "20260314T082019.000000000Z-b.json"))
	if err != nil || strings.Contains(string(data), "T-00009") {
		t.Errorf("drop %s, error %v", data, err)
	}
}

// The page of another name than loopback is refused, also by what stands in
// front of it.
func TestPageRebinding(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	v := visit(t, h, board.Options{})
	u, err := url.Parse(v.address)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/page/state", "/page/app.js", "/lists/T/F"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.test:" + u.Port()
		if status, body := v.send(r); status != http.StatusForbidden {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
}

// C19: if its port was taken, the page came up on the next one without a word.
func TestC19PortIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	slack, _ := slackHome(t)
	for name, h := range map[string]*Home{"embedded": newHome(t, ""), "slack": slack} {
		var said bytes.Buffer
		h.Err, h.Config.Board.Listen = &said, taken.Addr().String()
		v := visit(t, h, board.Options{})
		_, port, _ := net.SplitHostPort(taken.Addr().String())
		if want := fmt.Sprintf("otm: warning: port %s is taken, so the page is at %s/\n", port, v.address); said.String() != want {
			t.Errorf("%s: it says %q, want %q", name, &said, want)
		}
	}
	var said bytes.Buffer
	h := newHome(t, "") // any port will do
	h.Err = &said
	if visit(t, h, board.Options{}); said.Len() > 0 {
		t.Errorf("it says %q", &said)
	}
}

// otm board --link prints a new address of the page that runs.
func TestPageLink(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	var out bytes.Buffer
	h.Out = &out
	if err := newPageDoor(h).print(h.Out); err == nil || exitCode(err) != cli.TryLater {
		t.Errorf("no page runs: error %v", err)
	}
	v := visit(t, h, board.Options{})
	for range 2 {
		out.Reset()
		if err := newPageDoor(h).print(h.Out); err != nil {
			t.Fatal(err)
		}
		address, code, ok := strings.Cut(strings.TrimSpace(out.String()), "/#code=")
		if !ok || address != v.address {
			t.Fatalf("printed %q", out.String())
		}
		if status, body := v.post("/page/session", map[string]string{"code": code}); status != http.StatusOK {
			t.Errorf("status %d, %s", status, body)
		}
		if status, _ := v.post("/page/session", map[string]string{"code": code}); status != http.StatusUnauthorized {
			t.Errorf("the second time: status %d", status)
		}
	}
}

// TestMessageDir: an agent need not have the variables of the one who started
// OTM, so only where the directory is the one that everybody takes is it left
// out of what agents are told.
func TestMessageDir(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	usual, err := config.DefaultDir(func(key string) string { return map[string]string{"HOME": home}[key] })
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir  string
		more map[string]string
		want bool
	}{
		{usual, nil, false},
		{usual, map[string]string{"OPENCLAW_DATA_DIR": "/elsewhere"}, false},
		{"/data/otm", map[string]string{"OPENCLAW_DATA_DIR": "/data"}, true},
		{"/data/openclaw/otm", map[string]string{"XDG_DATA_HOME": "/data"}, true},
		{"/data", map[string]string{"OTM_DIR": "/data"}, true},
	} {
		h := &Home{Dir: tt.dir, Streams: cli.Streams{Getenv: func(key string) string {
			if key == "HOME" {
				return home
			}
			return tt.more[key]
		}}}
		if got := messageDir(h) != ""; got != tt.want {
			t.Errorf("%s, %v: named %v, want %v", tt.dir, tt.more, got, tt.want)
		}
	}
}

// C4: on the page a person moves a blocked task back to in progress. The record has
// that it was resumed, also if it had not seen yet that the task was blocked.
func TestC4PageResumes(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	rows := plant(t, h,
		seed{title: "blocked", status: "blocked", agent: "devdas", reason: "which colour?"},
		seed{title: "unseen", status: "blocked", agent: "devdas", reason: "which font?", alter: func(t *core.Task) {
			t.Status, t.Shown.Status = pipeline.InProgress, pipeline.InProgress
		}},
		seed{title: "new", status: "new", agent: "devdas"})
	v := visit(t, h, board.Options{})
	for i, resumed := range []bool{true, true, false} {
		v.do(page.Action{Do: "edit", Row: rows[i], Status: "in_progress"})
		task := stateOf(t, h, pipeline.TaskID(i+1))
		if task.Status != pipeline.InProgress || task.ResumedAt.IsZero() == resumed {
			t.Errorf("task %+v", task)
		}
	}
}
