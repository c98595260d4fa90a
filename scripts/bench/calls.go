package main

import (
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
)

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
	board, err := b.newHome(b.latest(), "calls-board", listen)
	if err != nil {
		return err
	}
	_, stopBoard, err := board.up("otm", "board")
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
	h, err := b.newHome(b.latest(), "calls", fmt.Sprintf("[slack]\nlist_id = %q\napi_url = \"%s/api/\"\n[agents.devdas]\nworkspace = %q\n", at.ListID, proxy.URL, workspace))
	if err != nil {
		return err
	}
	h.env = append(h.env, "SLACK_BOT_TOKEN="+strings.TrimSpace(string(token)))
	_, stop, err := h.start("otm", "up")
	if err != nil {
		return err
	}
	defer stop()
	for _, id := range []string{"T-00001", "T-00002"} {
		c.take()
		if err := h.life(id); err != nil {
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
		return post(at.URL+"slackLists.items.deleteMultiple", token, url.Values{"list_id": {at.ListID}, "ids": {fmt.Sprintf(`[%q]`, made.Item.ID)}}, nil)
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
func (h *home) life(id string) error {
	if err := h.otm("otm-create", "--title", "Live "+id, "--agent", "devdas", "--subtask", "a", "--subtask", "b", "--subtask", "c"); err != nil {
		return err
	}
	if err := h.awaitStatus(id, "assigned"); err != nil {
		return err
	}
	time.Sleep(time.Second)
	if err := h.otm("otm", "next", "--agent", "devdas"); err != nil {
		return err
	}
	for step := 1; step <= 3; step++ {
		if err := h.otm("otm-update", "--task-id", id, "--subtask-done", strconv.Itoa(step), "--wait"); err != nil {
			return err
		}
	}
	if err := h.awaitStatus(id, "agent_done"); err != nil {
		return err
	}
	time.Sleep(time.Second) // the board gets it last
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
