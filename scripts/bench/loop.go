package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"otm/core"
	"otm/pipeline"
)

// latency times the way from otm-create's return to the wake, under otm up:
// each task goes to an agent of its own, as an agent is not woken twice.
func (b *bench) latency() error {
	n := b.pick(100, 10)
	config := "[board]\nlisten = \"127.0.0.1:0\"\n"
	workspace := filepath.Join(b.root, "latency", "ws")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return err
	}
	for i := range n {
		config += fmt.Sprintf("[agents.a%d]\nworkspace = %q\ncommand = [\"true\"]\n", i, workspace)
	}
	h, err := b.newHome("latency", config)
	if err != nil {
		return err
	}
	_, stop, err := h.start("otm", "up")
	if err != nil {
		return err
	}
	defer stop()
	if _, err := h.endpoint(); err != nil {
		return err
	}
	s, err := h.store()
	if err != nil {
		return err
	}
	defer s.Close()
	hops := map[string][]time.Duration{}
	for i := range n {
		if err := h.otm("otm-create", "--title", "Measure", "--agent", fmt.Sprintf("a%d", i), "--subtask", "a", "--subtask", "b"); err != nil {
			return err
		}
		returned := time.Now()
		id := pipeline.TaskID(i + 1)
		var t *core.Task
		if err := await("the wake of "+id.String(), time.Minute, func() bool {
			t, err = task(s, id)
			return err == nil && len(t.Wakes) > 0 && !t.Wakes[0].Accepted.IsZero()
		}); err != nil {
			return err
		}
		events, err := s.Events(context.Background(), core.EventFilter{Task: id})
		if err != nil {
			return err
		}
		last := returned
		for i := range events {
			what := hop(&events[i])
			if what == "" {
				continue
			}
			hops[what] = append(hops[what], max(0, events[i].At.Sub(last)))
			last = events[i].At
		}
		hops["all"] = append(hops["all"], t.Wakes[0].Accepted.Sub(returned))
	}
	fmt.Printf("from otm-create's return to the wake, otm up, embedded board, %d tasks of two steps\n", n)
	fmt.Printf("%-28s %10s %10s %10s\n", "hop", "p50", "p95", "max")
	for _, name := range []string{toRows, toAssigned, toShown, toWake, "all"} {
		t := hops[name]
		fmt.Printf("%-28s %10s %10s %10s\n", name, ms(quantile(t, 0.5)), ms(quantile(t, 0.95)), ms(quantile(t, 1)))
	}
	return nil
}

// The hops of a task, each from the end of the one before.
const (
	toRows     = "drop to rows"
	toAssigned = "rows to assigned"
	toShown    = "assigned to board"
	toWake     = "board to wake"
)

// hop is the hop that an event ends; "": none.
func hop(e *core.Event) string {
	switch data := e.Data.(type) {
	case core.BoardWritten:
		if data.Row != "" {
			return toRows
		}
		return toShown
	case core.TaskMoved:
		return toAssigned
	case core.Notified:
		return toWake
	}
	return ""
}

// counter is a proxy in front of the board that counts calls by method.
type counter struct {
	mu    sync.Mutex // guards calls
	calls map[string]int
}

func (c *counter) serve(target string) (*httptest.Server, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host}) }}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.calls[path.Base(r.URL.Path)]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	})), nil
}

func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.calls
	c.calls = map[string]int{}
	return taken
}

// calls counts the calls that one task costs through its life, after another
// one has taught the client what the board can.
func (b *bench) calls() error {
	board, err := b.newHome("calls-board", "[board]\nlisten = \"127.0.0.1:0\"\n")
	if err != nil {
		return err
	}
	_, stopBoard, err := board.start("otm", "board")
	if err != nil {
		return err
	}
	defer stopBoard()
	at, err := board.endpoint()
	if err != nil {
		return err
	}
	c := &counter{calls: map[string]int{}}
	proxy, err := c.serve(at.URL)
	if err != nil {
		return err
	}
	defer proxy.Close()
	token, err := os.ReadFile(filepath.Join(board.dir, "board", "token"))
	if err != nil {
		return err
	}
	workspace := filepath.Join(b.root, "calls-ws")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return err
	}
	if err := teachAssignee(at, strings.TrimSpace(string(token))); err != nil {
		return err
	}
	h, err := b.newHome("calls", fmt.Sprintf("[slack]\nlist_id = %q\napi_url = \"%s/api/\"\n[agents.devdas]\nworkspace = %q\n", at.ListID, proxy.URL, workspace))
	if err != nil {
		return err
	}
	h.env = append(h.env, "SLACK_BOT_TOKEN="+strings.TrimSpace(string(token)))
	_, stop, err := h.start("otm", "up")
	if err != nil {
		return err
	}
	defer stop()
	for id := range pipeline.TaskID(2) {
		c.take()
		if err := h.life(id + 1); err != nil {
			return err
		}
	}
	fmt.Println("calls to the board for one task with three steps, through its life (four reports)")
	calls := c.take()
	for _, method := range sortedKeys(calls) {
		fmt.Printf("  %-28s %d\n", method, calls[method])
	}
	return nil
}

// teachAssignee makes the option that a Slack List would have: the embedded
// board adds it for a row that bears it, and the row goes again.
func teachAssignee(at endpoint, token string) error {
	var info struct {
		File struct {
			ListMetadata struct {
				Schema []struct{ ID, Name, Type string }
			} `json:"list_metadata"`
		}
	}
	if err := post(at.URL+"files.info", token, url.Values{"file": {at.ListID}}, &info); err != nil {
		return err
	}
	for _, c := range info.File.ListMetadata.Schema {
		if c.Name != "Assignee" || c.Type != "select" {
			continue
		}
		var made struct{ Item struct{ ID string } }
		fields := fmt.Sprintf(`[{"column_id":%q,"select":["devdas"]}]`, c.ID)
		if err := post(at.URL+"slackLists.items.create", token, url.Values{"list_id": {at.ListID}, "initial_fields": {fields}}, &made); err != nil {
			return err
		}
		return post(at.URL+"slackLists.items.delete", token, url.Values{"list_id": {at.ListID}, "id": {made.Item.ID}}, nil)
	}
	return fmt.Errorf("the board has no column for assignees")
}

func post(address, token string, form url.Values, into any) error {
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), `"ok":true`) {
		return fmt.Errorf("%s: %.200s", address, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// life brings a task from its drop to agent_done, as an agent would.
func (h *home) life(id pipeline.TaskID) error {
	if err := h.otm("otm-create", "--title", "Live "+id.String(), "--agent", "devdas", "--subtask", "a", "--subtask", "b", "--subtask", "c"); err != nil {
		return err
	}
	if err := h.awaitStatus(id, pipeline.Assigned); err != nil {
		return err
	}
	if err := h.otm("otm", "next", "--agent", "devdas"); err != nil {
		return err
	}
	for step := 1; step <= 3; step++ {
		if err := h.otm("otm-update", "--task-id", id.String(), "--subtask-done", strconv.Itoa(step), "--wait"); err != nil {
			return err
		}
	}
	return h.awaitStatus(id, pipeline.AgentDone)
}

func (h *home) awaitStatus(id pipeline.TaskID, status pipeline.Status) error {
	s, err := h.store()
	if err != nil {
		return err
	}
	defer s.Close()
	return await(fmt.Sprintf("%v to be %s on the board", id, status), time.Minute, func() bool {
		t, err := task(s, id)
		return err == nil && t.Status == status && !t.Unshown()
	})
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// drain times how long the injector takes for many files at once.
func (b *bench) drain() error {
	fmt.Println("otm-injector --once, embedded board, tasks of one step")
	fmt.Printf("%10s %12s %14s\n", "files", "wall", "tasks a second")
	for _, n := range []int{1000, 10000} {
		if b.quick {
			n /= 20
		}
		h, err := b.newHome(fmt.Sprintf("drain-%d", n), "[board]\nlisten = \"127.0.0.1:0\"\n")
		if err != nil {
			return err
		}
		_, stop, err := h.start("otm", "board")
		if err != nil {
			return err
		}
		if _, err := h.endpoint(); err != nil {
			return err
		}
		lines, err := h.lines(n, func(int) string { return "devdas" }, 0)
		if err != nil {
			return err
		}
		if err := h.otm("otm-create", "--from", lines); err != nil {
			return err
		}
		wall, err := timed(func() error { return h.otm("otm-injector", "--once") })
		stop()
		if err != nil {
			return err
		}
		fmt.Printf("%10d %12s %14.0f\n", n, ms(wall), float64(n)/wall.Seconds())
	}
	return nil
}
