package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/tokens"
)

// endless is a body that says how much of it was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read >= 10<<20 {
		return 0, io.EOF
	}
	e.read += len(p)
	return copy(p, strings.Repeat(" ", len(p))), nil
}

// A request of 10 MB is refused without being read.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c, s := served(t, newHome(t, ""))
	body := &endless{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.address+Prefix+"/tasks", body)
	r.Header.Set("Authorization", "Bearer "+c.token)
	w := httptest.NewRecorder()
	s.guard().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || body.read > 2*maxBody {
		t.Errorf("status %d after %d bytes: %s", w.Code, body.read, w.Body)
	}
	c.refused(http.StatusRequestEntityTooLarge, "POST", "/tasks", &endless{})
	c.refused(http.StatusUnprocessableEntity, "POST", "/tasks", object{"title": "x", "agent": "devdas", "subtasks": slices.Repeat([]string{"x"}, 51)}, "body.subtasks")
}

// Who has no token, a revoked one, or one of the wrong role, changes nothing, and is told
// what it takes.
func TestWho(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	task := object{"title": "x", "agent": "devdas"}
	viewer, bot, gone := c.as("eye", tokens.Viewer), c.as("devdas", tokens.Bot), c.as("gone", tokens.Owner)
	if err := tokens.Open(c.home.Dir).Revoke(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	gone.refused(http.StatusUnauthorized, "POST", "/tasks", task, "revoked")
	gone.refused(http.StatusUnauthorized, "GET", "/tasks", nil, "revoked")
	c.with("Authorization", "").refused(http.StatusUnauthorized, "GET", "/tasks", nil, "otm token create")
	viewer.refused(http.StatusForbidden, "POST", "/tasks", task, `role viewer`, "a bot, an operator or an owner")
	viewer.refused(http.StatusForbidden, "POST", "/tasks/1/cancel", object{"reason": "x"}, `role viewer`, "an operator, an owner")
	viewer.refused(http.StatusForbidden, "POST", "/agents/devdas/next", nil, `role viewer`)
	bot.refused(http.StatusForbidden, "POST", "/agents/devdas/pause", nil, `role bot`)
	bot.refused(http.StatusForbidden, "POST", "/agents/archibald/next", nil, "the token of a bot that is called archibald")
	bot.refused(http.StatusForbidden, "POST", "/tasks/1/report", object{"agent": "archibald", "status": "agent_done"}, "archibald")
	ask[answer](bot, "POST", "/tasks", object{"title": "For another one", "agent": "archibald"}) // as agents do by files
	if list := ask[tasks](viewer, "GET", "/tasks", nil); len(list.Tasks) != 1 || list.Tasks[0].Agent != "archibald" {
		t.Errorf("tasks %v", list)
	}
}

// The token of a bot that was made for an agent acts for nobody else, and for nobody when the
// agent is known no more. One of a bot without an agent says for whom it acts.
func TestBotOfAgent(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	was, is := *c, *c
	for bot, agent := range map[*client]string{&was: "gone", &is: "devdas"} {
		var err error
		bot.token, err = tokens.Open(c.home.Dir).Create(t.Context(), "bot of "+agent, tokens.Bot, agent, time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	c.create(1)
	for _, bot := range []*client{&was, &is} {
		bot.refused(http.StatusForbidden, "POST", "/agents/archibald/next", nil, "role bot")
		bot.refused(http.StatusForbidden, "POST", "/tasks/1/say", object{"text": "x", "agent": "archibald"}, "role bot")
		bot.refused(http.StatusForbidden, "POST", "/tasks/1/accept", nil, "role bot")
	}
	for path, body := range map[string]object{
		"/tasks": {"title": "x", "agent": "devdas"}, "/tasks/1/say": {"text": "x"}, "/tasks/1/report": {"status": "agent_done"},
		"/agents/gone/next": {}, "/agents/devdas/next": {}, "/agents/archibald/pause": {},
	} {
		was.refused(http.StatusForbidden, "POST", path, body, "the agent gone, for whom it was made")
	}
	ask[answer](&is, "POST", "/tasks/1/say", object{"text": "x"})
	ask[answer](c.as("relay", tokens.Bot), "POST", "/tasks/1/say", object{"text": "x", "agent": "archibald"})
}

// No page that was made to point here, and none of another origin, gets an answer.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	c.with("Host", "evil.example").refused(http.StatusForbidden, "GET", "/tasks", nil, "127.0.0.1")
	c.with("Origin", "http://evil.example").refused(http.StatusForbidden, "GET", "/tasks", nil, "origin")
	c.with("Origin", "null").refused(http.StatusForbidden, "POST", "/tasks", nil, "origin")
	for _, path := range []string{"/metrics", Prefix + "/openapi.json"} {
		if status, _ := c.with("Host", "evil.example").send("GET", path, nil); status != http.StatusForbidden {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

// A request that comes again with its key is carried out once, and answered as before; another
// request with the key is refused; one that was refused is judged anew.
func TestRepeated(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	task := object{"title": "Build it", "agent": "devdas"}
	one := c.with("Idempotency-Key", "one")
	made := ask[answer](one, "POST", "/tasks", task)
	if again := ask[answer](one, "POST", "/tasks", task); again != made {
		t.Errorf("made %+v, and again %+v", made, again)
	}
	one.refused(http.StatusConflict, "POST", "/tasks", object{"title": "Another", "agent": "devdas"}, "header.Idempotency-Key")
	one.refused(http.StatusConflict, "POST", "/tasks/1/cancel", object{"reason": "no"}, "header.Idempotency-Key")
	other := c.as("other", tokens.Operator).with("Idempotency-Key", "one")
	if theirs := ask[answer](other, "POST", "/tasks", task); theirs.TaskID == made.TaskID {
		t.Errorf("another caller's key gave %+v", theirs)
	}
	two := c.with("Idempotency-Key", "two")
	two.refused(http.StatusConflict, "POST", "/tasks/1/accept", nil, `"allowed":[`)
	cancelled := ask[answer](two, "POST", "/tasks/1/cancel", object{"reason": "no"})
	ask[answer](c, "POST", "/tasks/1/reopen", nil)
	cancelled.Note = "" // it tells of then
	if again := ask[answer](two, "POST", "/tasks/1/cancel", object{"reason": "no"}); again != cancelled || again.Status != "cancelled" {
		t.Errorf("cancelled %+v, and again %+v", cancelled, again)
	}
	if is := ask[struct{ Task struct{ Status string } }](c, "GET", "/tasks/1", nil); is.Task.Status != "new" {
		t.Errorf("the repeated request made it %s", is.Task.Status)
	}
	three := c.with("Idempotency-Key", "three")
	paused := ask[answer](three, "POST", "/agents/devdas/pause", nil)
	ask[answer](c, "POST", "/agents/devdas/resume", nil)
	if again := ask[answer](three, "POST", "/agents/devdas/pause", nil); again.Sequence != paused.Sequence || again.Agent != "devdas" {
		t.Errorf("paused %+v, and again %+v", paused, again)
	}
}

// A task keeps the trace in which it was made. A repeated request may come in another place of the
// trace. A header that is not valid is as none.
func TestTraces(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	const made, said, other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01", "00-22222222222222222222222222222222-3333333333333333-00"
	send := func(trace, path string, body object) {
		t.Helper()
		in := c.with("traceparent", trace)
		in.header["Idempotency-Key"] = path + fmt.Sprint(body)
		ask[answer](in, "POST", path, body)
	}
	send(made, "/tasks", object{"title": "Build it", "agent": "devdas"})
	send(said, "/tasks", object{"title": "Build it", "agent": "devdas"})
	send(said, "/tasks/1/say", object{"text": "of the trace"})
	send(other, "/tasks/1/say", object{"text": "of another one"})
	send("00-nonsense", "/tasks/1/cancel", object{"reason": "of none"})
	send("00-nonsense", "/tasks", object{"title": "Try it", "agent": "devdas"})
	send(other, "/tasks/2/say", object{"text": "of another one"})
	var got []string
	for _, e := range ask[struct {
		Events []struct {
			Type        string `json:"event_type"`
			Traceparent string
		}
	}](c, "GET", "/events", nil).Events {
		got = append(got, e.Type+" "+e.Traceparent)
	}
	want := []string{"TaskRequested " + made, "Said " + said, "Said " + made, "TaskMoved " + made, "EditedByPerson " + made, "TaskRequested ", "Said " + other}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A key belongs to one token: neither a drop nor a later token of the same name uses it up.
func TestKeysOfATokenAlone(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	store, err := c.home.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	task, note := object{"title": "Build it", "agent": "robin"}, object{"note": "half of it"}
	first := c.as("first", tokens.Operator)
	key := func(c *client) *client { return c.with("Idempotency-Key", "nightly-1") }
	made := ask[answer](key(first), "POST", "/tasks", task)
	said := ask[answer](first.with("Idempotency-Key", "nightly-2"), "POST", "/tasks/1/report", note)
	if again := ask[answer](first.with("Idempotency-Key", "nightly-2"), "POST", "/tasks/1/report", note); again != said {
		t.Errorf("reported %+v, and again %+v", said, again)
	}
	if err := tokens.Open(c.home.Dir).Revoke(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	second := c.as("first", tokens.Operator)
	if is := ask[answer](key(second), "POST", "/tasks", task); is.TaskID == made.TaskID {
		t.Errorf("a key of the former token gave %+v", is)
	}
	events, err := store.Events(t.Context(), core.EventFilter{Types: []string{"TaskRequested", "Said"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if id := core.DropCommand(e.Cause, 7); id == e.Cause { // a drop may have this id
			t.Errorf("%s has the id %q, which a drop may have", e.Type(), id)
		}
	}
}

// A task may be part of one that there is, or whose drop waits, and of no other.
func TestParent(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	part := func(of string) object { return object{"title": "A part", "agent": "devdas", "parent": of} }
	c.refused(http.StatusUnprocessableEntity, "POST", "/tasks", part("T-00009"), "body.parent", "there is no task T-00009")
	c.refused(http.StatusUnprocessableEntity, "POST", "/tasks", part("nine"), "body.parent")
	if list := ask[tasks](c, "GET", "/tasks", nil); len(list.Tasks) != 0 {
		t.Errorf("tasks %v", list)
	}
	if err := os.WriteFile(filepath.Join(c.home.Dir, "new-tasks", "nine.json"), []byte(`{"taskId":"T-00009","title":"The whole","agent":"devdas"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ask[answer](c, "POST", "/tasks", part("T-00009"))
	ask[answer](c, "POST", "/tasks", part("T-00001"))
}

// Twenty requests at once with one key make one task.
func TestRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	one := c.with("Idempotency-Key", "one")
	ids := make(chan string)
	for range 20 {
		go func() {
			ids <- ask[answer](one, "POST", "/tasks", object{"title": "Build it", "agent": "devdas"}).TaskID
		}()
	}
	first := <-ids
	for range 19 {
		if id := <-ids; id != first {
			t.Errorf("%s and %s", first, id)
		}
	}
	if list := ask[tasks](c, "GET", "/tasks", nil); len(list.Tasks) != 1 {
		t.Errorf("tasks %v", list)
	}
}

// A command that is refused for the status of its task names the statuses that permit it, to
// each who may ask: it works in those, and in no other.
func TestAllowed(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	c.create(1)
	ask[answer](c, "POST", "/tasks", object{"title": "x", "agent": "robin"})
	reviewer := c.as("archibald", tokens.Bot)
	for id, body := range map[string]object{"1": {"reason": "x"}, "2": {"reason": "x"}} {
		ask[answer](c, "POST", "/tasks/"+id+"/cancel", body)
	}
	for _, is := range []struct {
		by            *client
		path, allowed string
	}{
		{c, "/tasks/1/accept", `["agent_done"]`},
		{c, "/tasks/2/accept", `["new","agent_done","pending","assigned","in_progress","blocked"]`}, // a person's own
		{c, "/tasks/1/stop", `["assigned","in_progress"]`},
		{c, "/tasks/1/requeue", `["failed","pending"]`},
		{c, "/tasks/1/activate", `["dormant"]`},
		{reviewer, "/tasks/1/accept", `["agent_done"]`},
		{reviewer, "/tasks/1/reopen", `["done","agent_done"]`}, // a person may besides reopen a cancelled one
	} {
		is.by.refused(http.StatusConflict, "POST", is.path, nil, `"allowed":`+is.allowed)
	}
	status, data := reviewer.send("POST", Prefix+"/tasks/1/activate", nil) // for people only
	if status != http.StatusConflict || strings.Contains(string(data), "allowed") {
		t.Errorf("a reviewer activates: status %d, %s", status, data)
	}
}

// Whatever is refused before it comes to an operation is refused with a problem, by the API
// alone and beside the page and the board.
func TestProblemsOutsideOfOperations(t *testing.T) {
	t.Parallel()
	alone, _ := served(t, newHome(t, ""))
	for _, c := range []*client{alone, upped(t, newHome(t, ""))} {
		for _, is := range []struct {
			by           *client
			method, path string
			status       int
			words        string
		}{
			{c, "GET", "/nothing", http.StatusNotFound, "/api/otm/nothing"},
			{c, "GET", "/", http.StatusNotFound, "openapi.json"},
			{c, "DELETE", "/tasks", http.StatusMethodNotAllowed, "GET, HEAD, POST"},
			{c, "OPTIONS", "/tasks/1/accept", http.StatusMethodNotAllowed, "POST"},
			{c.with("Origin", "http://evil.example"), "GET", "/tasks", http.StatusForbidden, "origin"},
			{c.with("Origin", "http://evil.example"), "OPTIONS", "/tasks", http.StatusForbidden, "origin"},
			{c.with("Host", "evil.example"), "GET", "/tasks", http.StatusForbidden, "127.0.0.1"},
			{c.with("Authorization", ""), "GET", "/tasks", http.StatusUnauthorized, "otm token create"},
		} {
			r := is.by.request(is.method, Prefix+is.path, nil)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			var p Problem
			err = json.NewDecoder(w.Body).Decode(&p)
			w.Body.Close()
			kind := w.Header.Get("Content-Type")
			if err != nil || w.StatusCode != is.status || p.Status != is.status || kind != "application/problem+json" || !strings.Contains(p.Detail, is.words) {
				t.Errorf("%s %s: status %d, %s, %+v, %v", is.method, is.path, w.StatusCode, kind, p, err)
			}
			if allow := w.Header.Get("Allow"); (is.status == http.StatusMethodNotAllowed) != (allow != "") {
				t.Errorf("%s %s: Allow %q", is.method, is.path, allow)
			}
		}
	}
}

// Every operation refuses a parameter that it does not know, by name.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	c, _ := served(t, newHome(t, ""))
	for path, item := range document().Paths {
		path = strings.NewReplacer(Prefix, "", "{id}", "1", "{agent}", "devdas").Replace(path)
		method := http.MethodPost
		if item.Get != nil {
			method = http.MethodGet
		}
		c.refused(http.StatusUnprocessableEntity, method, path+"?agnet=devdas", nil, `"location":"query.agnet"`)
	}
	c.refused(http.StatusUnprocessableEntity, "POST", "/tasks?agnet=devdas", object{"title": "x", "agent": "devdas"}, "query.agnet")
	if list := ask[tasks](c, "GET", "/tasks", nil); len(list.Tasks) != 0 {
		t.Errorf("tasks %v", list)
	}
}
