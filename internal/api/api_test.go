package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"otm/core"
	"otm/internal/app"
	"otm/internal/cli"
	"otm/internal/leak"
	"otm/internal/tokens"
)

func TestMain(m *testing.M) {
	app.NewAPI = New
	os.Exit(leak.Main(m))
}

// newHome makes a data directory with two agents that nobody wakes, and a person.
func newHome(t testing.TB, config string) *app.Home {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	if _, err := app.Init(dir); err != nil {
		t.Fatal(err)
	}
	config += "\n[board]\nlisten = \"127.0.0.1:0\"\n[review]\nagents = [\"archibald\"]\n[agents.robin]\nkind = \"human\"\n"
	for _, name := range []string{"devdas", "archibald"} {
		ws := filepath.Join(root, name)
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"none\"\n", name, ws)
	}
	if err := os.WriteFile(filepath.Join(dir, "otm.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := app.OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(name string) string {
		return map[string]string{"OTM_LOG_DIR": filepath.Join(root, "logs")}[name]
	}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// client is a program that uses the API.
type client struct {
	t       testing.TB
	home    *app.Home
	address string
	token   string
	header  map[string]string
}

// upped runs everything, as otm up does, and returns an operator.
func upped(t testing.TB, h *app.Home) *client {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- h.Up(ctx, func(page string) { ready <- page }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("otm up ended: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	select {
	case page := <-ready:
		address, _, _ := strings.Cut(page, "/#")
		return &client{t: t, home: h, address: address, token: newToken(t, h, "ci", tokens.Operator)}
	case err := <-ended:
		ended <- err
		t.Fatalf("otm up: %v", err)
	}
	return nil
}

// served serves the API alone, to an operator.
func served(t testing.TB, h *app.Home) (*client, *server) {
	t.Helper()
	s := newServer(app.NewBackend(h, slog.New(slog.DiscardHandler)))
	web := httptest.NewServer(s.guard())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		web.CloseClientConnections()
		web.Close()
	})
	return &client{t: t, home: h, address: web.URL, token: newToken(t, h, "ci", tokens.Operator)}, s
}

func newToken(t testing.TB, h *app.Home, name string, role tokens.Role) string {
	t.Helper()
	token, err := tokens.Open(h.Dir).Create(t.Context(), name, role, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// as is the client with another token.
func (c *client) as(name string, role tokens.Role) *client {
	other := *c
	other.token = newToken(c.t, c.home, name, role)
	return &other
}

// with is the client with another header.
func (c *client) with(name, value string) *client {
	other := *c
	other.header = map[string]string{name: value}
	return &other
}

// request makes a request of the client.
func (c *client) request(method, path string, body any) *http.Request {
	c.t.Helper()
	var in io.Reader
	if r, ok := body.(io.Reader); ok {
		in = r
	} else if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.address+path, in)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range c.header {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	return r
}

// send sends a request, and returns the status and the body of the answer.
func (c *client) send(method, path string, body any) (int, []byte) {
	c.t.Helper()
	r := c.request(method, path, body)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Body.Close()
	data, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return w.StatusCode, data
}

var document = sync.OnceValue(func() *huma.OpenAPI { return newServer(nil).huma.OpenAPI() })

// conforms wants an answer to be as the document says.
func conforms(t testing.TB, method, path string, data []byte) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	asked := strings.Split(Prefix+path, "/")
	fits := func(template string) bool {
		return slices.EqualFunc(strings.Split(template, "/"), asked, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") })
	}
	for template, item := range document().Paths {
		op := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post}[method]
		if op == nil || !fits(template) {
			continue
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			t.Fatal(err)
		}
		var result huma.ValidateResult
		huma.Validate(document().Components.Schemas, op.Responses["200"].Content["application/json"].Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &result)
		for _, err := range result.Errors {
			t.Errorf("%s %s: %v in %s", method, path, err, data)
		}
		return
	}
	t.Errorf("the document has no %s %s", method, path)
}

// ask wants a request to succeed, and reads the answer.
func ask[T any](c *client, method, path string, body any) T {
	c.t.Helper()
	status, data := c.send(method, Prefix+path, body)
	var out T
	if err := json.Unmarshal(data, &out); status != http.StatusOK || err != nil {
		c.t.Fatalf("%s %s: status %d, %s", method, path, status, data)
	}
	conforms(c.t, method, path, data)
	return out
}

type object = map[string]any

// answer is the form of app.Answer.
type answer struct {
	TaskID, Agent, Status, Note string
	Sequence                    int64
}

// refused wants a request to be refused with a status and words.
func (c *client) refused(status int, method, path string, body any, words ...string) {
	c.t.Helper()
	got, data := c.send(method, Prefix+path, body)
	if got != status {
		c.t.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, data)
	}
	for _, w := range words {
		if !strings.Contains(string(data), w) {
			c.t.Errorf("%s %s: %s lacks %q", method, path, data, w)
		}
	}
}

// until asks again until the answer is right.
func until[T any](c *client, path string, right func(T) bool) T {
	c.t.Helper()
	for {
		if out := ask[T](c, http.MethodGet, path, nil); right(out) {
			return out
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("%s never gave the right answer", path)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type tasks struct {
	Tasks []struct{ TaskID, Status, Title, Agent string }
	Next  string
}

// A program makes a task, an agent takes it and reports on it, and the program reviews it:
// by the API alone, with everything that otm up runs.
func TestThread(t *testing.T) {
	t.Parallel()
	c := upped(t, newHome(t, ""))
	made := ask[answer](c, "POST", "/tasks", object{"title": "Build the login page", "agent": "devdas", "subtasks": []string{"Form", "Tests"}})
	if made.TaskID != "T-00001" || made.Status != "new" || made.Sequence == 0 {
		t.Fatalf("made %+v", made)
	}
	until(c, "/tasks", func(l tasks) bool { return len(l.Tasks) == 1 && l.Tasks[0].Status == "assigned" })
	first := ask[struct {
		History []struct{ Who, What, Detail string }
	}](c, "GET", "/tasks/1", nil).History[0]
	if first.Who == "otm-create" || first.What != "created" || first.Detail != fmt.Sprintf("over the API, with the token %q", first.Who) {
		t.Errorf("the task was made by %+v", first)
	}
	bot := c.as("devdas", tokens.Bot)
	taken := ask[struct {
		Task struct {
			TaskID string
			Run    int
		}
	}](bot, "POST", "/agents/devdas/next", nil)
	if taken.Task.TaskID != made.TaskID || taken.Task.Run != 1 {
		t.Fatalf("taken %+v", taken)
	}
	ask[answer](bot, "POST", "/tasks/1/report", object{"run": 1, "subtasksDone": []string{"Form"}, "note": "half of it"})
	if is := ask[answer](bot, "POST", "/tasks/T-1/report", object{"run": 1, "status": "agent_done", "result": "done"}); is.Status != "agent_done" {
		t.Fatalf("reported %+v", is)
	}
	bot.refused(http.StatusForbidden, "POST", "/tasks/1/accept", nil, "bot", "operator")
	if is := ask[answer](c, "POST", "/tasks/1/accept", nil); is.Status != "done" || is.TaskID != made.TaskID {
		t.Fatalf("accepted %+v", is)
	}
	c.refused(http.StatusConflict, "POST", "/tasks/1/reject", object{"reason": "no"}, `"allowed":["agent_done"]`, `"possible":["reopen"`)
	bot.refused(http.StatusConflict, "POST", "/tasks/1/report", object{"run": 1, "status": "blocked", "reason": "no"}, `"allowed":["assigned","in_progress","blocked"]`)
}

// A task of the shared queue is claimed by the agent that asks for its next task, and has its
// body.
func TestClaim(t *testing.T) {
	t.Parallel()
	c := upped(t, newHome(t, ""))
	made := ask[answer](c, "POST", "/tasks", object{"title": "Sort the mail", "agent": "queue", "body": "By date.\nThen by name."})
	until(c, "/status", func(s struct{ SharedQueue int }) bool { return s.SharedQueue == 1 })
	taken := ask[struct {
		Task struct{ TaskID, Agent, Body string }
	}](c.as("devdas", tokens.Bot), "POST", "/agents/devdas/next", nil).Task
	if taken.TaskID != made.TaskID || taken.Agent != "devdas" || taken.Body != "By date.\nThen by name." {
		t.Errorf("taken %+v", taken)
	}
	if shown := ask[struct{ Body string }](c, "GET", "/tasks/1", nil); shown.Body != taken.Body {
		t.Errorf("shown %+v", shown)
	}
	if is := ask[answer](c, "POST", "/tasks/1/assign", object{"to": "Queue"}); is.TaskID != made.TaskID {
		t.Errorf("put back %+v", is)
	}
	until(c, "/tasks?agent=queue", func(l tasks) bool { return len(l.Tasks) == 1 && l.Tasks[0].Status == "new" })
}

// The history says which person reported in an agent's name. A bot is believed.
func TestWhoReported(t *testing.T) {
	t.Parallel()
	c := upped(t, newHome(t, ""))
	made := ask[answer](c, "POST", "/tasks", object{"title": "Sort the mail", "agent": "devdas"})
	until(c, "/tasks", func(l tasks) bool { return len(l.Tasks) == 1 && l.Tasks[0].Status == "assigned" })
	ask[answer](c, "POST", "/tasks/1/report", object{"result": "By hand"})
	ask[answer](c.as("devdas", tokens.Bot), "POST", "/tasks/1/report", object{"result": "By devdas"})
	var who []string
	for _, e := range ask[struct {
		Events []struct {
			Actor   core.Actor
			Payload struct{ Result string }
		}
	}](c, "GET", "/events?type=Noted&task="+made.TaskID, nil).Events {
		who = append(who, e.Payload.Result+": "+e.Actor.String())
	}
	if want := []string{"By hand: agent devdas (by ci)", "By devdas: agent devdas"}; !slices.Equal(who, want) {
		t.Errorf("reported %q, want %q", who, want)
	}
}

// A drop that failed is put back, as it is or with a new id for its task.
func TestRetryDrop(t *testing.T) {
	t.Parallel()
	c := upped(t, newHome(t, ""))
	c.create(1)
	const other, odd = "other one.json", "odd.json"
	for name, drop := range map[string]string{
		"new-tasks/" + other:   `{"taskId":"T-00001","title":"Another task","agent":"devdas"}`,
		"task-updates/" + odd:  `{"taskId":"T-00001","subtasksDone":["there is no such step"]}`,
		"new-tasks/other.part": `{"taskId":"T-00001"}`,
	} {
		if err := os.WriteFile(filepath.Join(c.home.Dir, name), []byte(drop), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type dead []struct{ File string }
	failed := func(want ...string) func(dead) bool {
		return func(d dead) bool {
			var got []string
			for _, letter := range d {
				got = append(got, letter.File)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
	}
	until(c, "/dead", failed(odd, other))
	path := "/dead/" + url.PathEscape(other) + "/retry"
	c.as("devdas", tokens.Bot).refused(http.StatusForbidden, "POST", path, nil, "role bot")
	for _, name := range []string{"none.json", url.PathEscape("../secrets/owner"), "..", url.PathEscape("../new-tasks/other.part")} {
		c.refused(http.StatusNotFound, "POST", "/dead/"+name+"/retry", nil)
	}
	c.refused(http.StatusNotFound, "POST", "/dead/none.json/retry", nil, "path.file")
	c.refused(http.StatusUnprocessableEntity, "POST", "/dead/odd.json/retry", object{"newId": true}, "body.newId", "is an update")
	type back struct{ File, Inbox, Name, NewTaskID string }
	if is := ask[back](c, "POST", "/dead/odd.json/retry", nil); is != (back{File: odd, Inbox: "task-updates", Name: odd}) {
		t.Errorf("put back %+v", is)
	}
	is := ask[back](c, "POST", path, object{"newId": true})
	if is.Inbox != "new-tasks" || is.NewTaskID != "T-00002" {
		t.Errorf("put back %+v", is)
	}
	until(c, "/tasks", func(l tasks) bool { return len(l.Tasks) == 2 && l.Tasks[1].Title == "Another task" })
	until(c, "/dead", failed(odd))
}

// The document stands in the repository, and says what the code does.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const path = "../../docs/openapi.json"
	data, err := json.MarshalIndent(newServer(nil).huma.OpenAPI(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	if os.Getenv("OTM_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if stands, err := os.ReadFile(path); err != nil || !bytes.Equal(stands, data) {
		t.Errorf("docs/openapi.json does not have the operations of internal/api: run OTM_TEST_UPDATE=1 go test ./internal/api -run %s", t.Name())
	}
}

// Every reader answers as the document says, with something to show.
func TestReaders(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	c.create(5)
	one := ask[tasks](c, "GET", "/tasks?limit=2", nil)
	two := ask[tasks](c, "GET", "/tasks?limit=2&after="+one.Next, nil)
	three := ask[tasks](c, "GET", "/tasks?limit=2&after="+two.Next, nil)
	var ids []string
	for _, task := range slices.Concat(one.Tasks, two.Tasks, three.Tasks) {
		ids = append(ids, task.TaskID)
	}
	if want := []string{"T-00001", "T-00002", "T-00003", "T-00004", "T-00005"}; !slices.Equal(ids, want) || three.Next != "" {
		t.Errorf("pages of %v, then %q", ids, three.Next)
	}
	ask[answer](c, "POST", "/tasks/2/cancel", object{"reason": "no"})
	ask[answer](c, "POST", "/tasks/3/assign", object{"to": "archibald"})
	ask[answer](c, "POST", "/tasks/3/priority", object{"to": "high"})
	for query, want := range map[string]int{"": 4, "?all=true": 5, "?status=cancelled": 1, "?agent=archibald": 1, "?agent=nobody": 0} {
		if list := ask[tasks](c, "GET", "/tasks"+query, nil); len(list.Tasks) != want {
			t.Errorf("%q lists %v", query, list.Tasks)
		}
	}
	if is := ask[struct{ History []struct{ What string } }](c, "GET", "/tasks/2", nil); len(is.History) < 2 {
		t.Errorf("history %v", is.History)
	}
	part := ask[answer](c, "POST", "/tasks", object{"title": "A part", "agent": "devdas", "parent": "1", "inputFiles": []string{"a.txt"}})
	if is := ask[struct{ Task struct{ Parent string } }](c, "GET", "/tasks/"+part.TaskID, nil); is.Task.Parent != "T-00001" {
		t.Errorf("parent %q", is.Task.Parent)
	}
	store, err := s.back.Home.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := core.Found{Key: "disk", Kind: "disk full", Severity: 2, Code: "disk.full"}
	if _, err := store.Do(t.Context(), core.Command{At: time.Now(), By: core.Component("otm"), Do: core.Watch{Found: []core.Seen{{Found: found, Since: time.Now()}}}}); err != nil {
		t.Fatal(err)
	}
	ask[object](c, "POST", "/incidents/I-1/tag", object{"cause": "logs"})
	c.refused(http.StatusNotFound, "POST", "/incidents/9/tag", object{"cause": "logs"}, "path.id")
	if is := ask[[]struct{ ID, Cause, CauseBy string }](c, "GET", "/incidents", nil); len(is) != 1 || is[0].Cause != "logs" || is[0].CauseBy != "ci" {
		t.Errorf("incidents %+v", is)
	}
	if agents := ask[[]struct{ Name string }](c, "GET", "/agents", nil); len(agents) != 3 {
		t.Errorf("agents %v", agents)
	}
	if err := os.WriteFile(filepath.Join(c.home.Dir, "failed", "x.json"), []byte(`{"taskId":"T-00009","title":"x","agent":"devdas","_result":{"at":"2026-03-14T10:15:00Z","inbox":"new-tasks","attempts":1,"error":"no","class":"invalid"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if dead := ask[[]struct{ File string }](c, "GET", "/dead", nil); len(dead) != 1 || dead[0].File != "x.json" {
		t.Errorf("dead %v", dead)
	}
	if is := ask[struct{ Health string }](c, "GET", "/status", nil); is.Health == "" {
		t.Error("the status has no health")
	}
	if slow := ask[[]struct{ TaskID string }](c, "GET", "/why", nil); slow == nil {
		t.Error("what stands too long is no list")
	}
	if is := ask[struct{ Created int }](c, "GET", "/stats?since=2026-01-01T00:00:00Z", nil); is.Created != 6 {
		t.Errorf("%d tasks were created", is.Created)
	}
	if is := ask[struct{ Months []struct{ Month string } }](c, "GET", "/stats?year=2024", nil); len(is.Months) != 12 || is.Months[11].Month != "2024-12" {
		t.Errorf("months %v", is.Months)
	}
	if is := ask[struct{ Opened int }](c, "GET", "/daily?date="+time.Now().Format(time.DateOnly), nil); is.Opened != 1 {
		t.Errorf("%d incidents today", is.Opened)
	}
	ask[object](c, "GET", "/daily", nil)
	for path, where := range map[string]string{"/tasks?status=nearly": "query.status", "/tasks?after=x": "query.after", "/tasks/x": "path.id", "/tasks?limit=0": "query.limit",
		"/events?type=Nothing": "query.type", "/daily?date=today": "query.date", "/stats?year=2024&since=2026-01-01T00:00:00Z": "query.year", "/stats?year=20": "query.year"} {
		c.refused(http.StatusUnprocessableEntity, "GET", path, nil, where)
	}
	c.refused(http.StatusNotFound, "GET", "/tasks/99", nil, "path.id")
	for _, wrong := range []struct {
		path, where string
		body        object
	}{
		{"/tasks", "body.title", object{"title": "", "agent": "devdas"}},
		{"/tasks", "body.agent", object{"title": "x", "agent": "devdsa"}},
		{"/tasks", "body.priority", object{"title": "x", "agent": "devdas", "priority": "soon"}},
		{"/tasks", "body.type", object{"title": "x", "agent": "devdas", "type": "odd"}},
		{"/tasks", "body.parent", object{"title": "x", "agent": "devdas", "parent": "x"}},
		{"/tasks/1/report", "body.status", object{"status": "finished"}},
		{"/tasks/1/report", "body.reason", object{"status": "blocked"}},
		{"/tasks/1/say", "body.mentions", object{"text": "x", "mentions": []string{"nobody"}}},
		{"/tasks/1/say", "body.text", object{"text": ""}},
		{"/tasks/1/reject", "body.reason", object{}},
		{"/tasks/1/assign", "body.to", object{"to": "nobody"}},
		{"/tasks/1/priority", "body.to", object{}},
		{"/tasks/1/accept", "body.to", object{"to": "devdas"}},
		{"/tasks/1/requeue", "body.more", object{"more": true}},
		{"/tasks/1/unblock", "body.reason", object{"reason": strings.Repeat("x", 600)}},
		{"/agents/robin/next", "path.agent", object{}},
		{"/agents/nobody/pause", "path.agent", object{}},
	} {
		c.refused(http.StatusUnprocessableEntity, "POST", wrong.path, wrong.body, `"location":"`+wrong.where+`"`)
	}
}
