package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// prepared returns the folder of a real gateway, made by scripts/gateway.sh. It
// skips the test if OTM_TEST_GATEWAY names none.
func prepared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("OTM_TEST_GATEWAY")
	switch dir {
	case "":
		t.Skip("needs a gateway from npm, which takes minutes to fetch, and OTM_TEST_GATEWAY names none (CI has one; scripts/gateway.sh makes one, make gateway-all tests with two)")
	case "must":
		cache := os.Getenv("OTM_GATEWAY_CACHE")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				t.Fatal(err)
			}
			cache = filepath.Join(home, ".cache", "otm-gateway")
		}
		dir = filepath.Join(cache, "2026.9.6")
	}
	if _, err := os.Stat(filepath.Join(dir, "node", "node")); err != nil {
		t.Fatalf("OTM_TEST_GATEWAY: no gateway, run scripts/gateway.sh: %v", err)
	}
	return dir
}

// realGateway is OpenClaw's own gateway in a throw-away folder.
type realGateway struct {
	prepared, version string
	root, log         string
	port              int
	token             string
	bin               string // in front of the PATH of its agents
	model             *scripted
	agents            []string
	process           *exec.Cmd
	begun             time.Time
	dead              chan struct{}
}

func newRealGateway(t *testing.T, model *scripted, bin string, agents []string) *realGateway {
	t.Helper()
	g := &realGateway{prepared: prepared(t), root: t.TempDir(), token: "a-token-of-the-test-0123456789abcdef", bin: bin, model: model, agents: agents}
	g.log = filepath.Join(g.root, "gateway.log")
	data, err := os.ReadFile(filepath.Join(g.prepared, "node_modules", "openclaw", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	g.version = p.Version
	g.port = freePort(t)
	for _, dir := range append([]string{"state", "home", "tmp"}, agents...) {
		if err := os.MkdirAll(filepath.Join(g.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	data, err = json.Marshal(g.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.configPath(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.kill(syscall.SIGKILL)
		if t.Failed() {
			data, _ := os.ReadFile(g.log)
			t.Logf("the gateway's log ends with:\n%s", data[max(0, len(data)-6000):])
		}
	})
	return g
}

func (g *realGateway) configPath() string { return filepath.Join(g.root, "openclaw.json") }

// old reports whether it is 2026.3.13, which drops runs and does not drain.
func (g *realGateway) old() bool { return strings.HasPrefix(g.version, "2026.3.") }

type object = map[string]any

// config is the smallest configuration that runs agents whose shell is free.
func (g *realGateway) config() object {
	agents := object{"defaults": object{
		"model": object{"primary": "scripted/one"}, "heartbeat": object{"every": "0m"}, "skipBootstrap": true,
	}}
	run := object{"pathPrepend": []string{g.bin}}
	if g.old() {
		var list []object
		for _, a := range g.agents {
			list = append(list, object{"id": a, "name": a, "workspace": g.workspace(a)})
		}
		agents["list"] = list
		run["host"], run["security"], run["ask"] = "gateway", "full", "off"
	} else {
		entries := object{}
		for _, a := range g.agents {
			entries[a] = object{"name": a, "workspace": g.workspace(a)}
		}
		agents["entries"] = entries
		run["mode"] = "full"
	}
	gateway := object{
		"mode": "local", "port": g.port, "bind": "loopback", "controlUi": object{"enabled": false},
		"auth": object{"mode": "token", "token": g.token},
	}
	if !g.old() { // it takes no client behind a trusted address for local
		gateway["trustedProxies"] = []string{"127.0.0.1"}
	}
	return object{
		"gateway": gateway,
		"models": object{"mode": "merge", "providers": object{"scripted": object{
			"baseUrl": g.model.url + "/v1", "apiKey": "none", "api": "openai-completions",
			"models": []object{{
				"id": "one", "name": "one", "reasoning": false, "input": []string{"text"}, "contextWindow": 400000, "maxTokens": 8000,
				"cost": object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
			}},
		}}},
		"agents":  agents,
		"tools":   object{"exec": run},
		"plugins": object{"enabled": false}, // they take their time to start
		"logging": object{"file": filepath.Join(g.root, "more.log")},
	}
}

func (g *realGateway) workspace(agent string) string { return filepath.Join(g.root, agent) }

// giveSkill puts our skill into an agent's workspace. The gateway looks for it when
// it starts.
func (g *realGateway) giveSkill(t *testing.T, agent string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "skills", "otm", "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(g.workspace(agent), "skills", "otm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *realGateway) url() string { return fmt.Sprintf("ws://127.0.0.1:%d", g.port) }

func (g *realGateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(g.prepared, "node", "node"), append([]string{filepath.Join(g.prepared, "node_modules", "openclaw", "openclaw.mjs")}, args...)...)
	cmd.Dir = g.root
	cmd.Env = []string{
		"PATH=" + plainPath, "HOME=" + filepath.Join(g.root, "home"), "TMPDIR=" + filepath.Join(g.root, "tmp"),
		"OPENCLAW_STATE_DIR=" + filepath.Join(g.root, "state"), "OPENCLAW_CONFIG_PATH=" + g.configPath(),
		"OPENCLAW_DISABLE_BONJOUR=1", "OPENCLAW_NO_RESPAWN=1", "OPENCLAW_SKIP_CHANNELS=1", "OPENCLAW_NO_AUTO_UPDATE=1",
		"OPENCLAW_SKIP_CRON=1", "OPENCLAW_SKIP_BROWSER_CONTROL_SERVER=1", "OPENCLAW_SKIP_STARTUP_MODEL_PREWARM=1",
		"NODE_COMPILE_CACHE=" + filepath.Join(g.prepared, "compiled"),
	}
	return cmd
}

// freePort returns a port without a listener.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts the gateway and waits until it says that it is ready.
func (g *realGateway) start(t *testing.T) {
	t.Helper()
	g.launch(t)
	g.ready(t)
}

// launch starts the gateway.
func (g *realGateway) launch(t *testing.T) {
	t.Helper()
	g.begun = time.Now()
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	g.process = g.command("gateway", "run", "--port", fmt.Sprint(g.port))
	g.process.Stdout, g.process.Stderr = log, log
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	g.dead = make(chan struct{})
	go func(process *exec.Cmd, dead chan struct{}) {
		process.Wait()
		close(dead)
	}(g.process, g.dead)
}

// ready waits until the gateway says that it is ready. 2026.9.6 gives up if its
// disk takes more than 5 s; a supervisor would start it again.
func (g *realGateway) ready(t *testing.T) {
	t.Helper()
	again := 3
	waitUntil(t, "the gateway to be ready", func() bool {
		if !g.alive() {
			if again--; again < 0 {
				t.Fatalf("the gateway ended: %v", g.process.ProcessState)
			}
			t.Logf("the gateway ended (%v) and is started again", g.process.ProcessState)
			g.launch(t)
		}
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", g.port))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	t.Logf("gateway %s was ready after %.1f s", g.version, time.Since(g.begun).Seconds())
}

// kill ends the gateway, and with SIGKILL the shells of its agents.
func (g *realGateway) kill(signal syscall.Signal) {
	if g.process == nil {
		return
	}
	if signal == syscall.SIGKILL {
		syscall.Kill(-g.process.Process.Pid, signal)
		<-g.dead
		return
	}
	g.process.Process.Signal(signal)
}

// alive reports whether the gateway runs.
func (g *realGateway) alive() bool {
	if g.process == nil {
		return false
	}
	select {
	case <-g.dead:
		return false
	default:
		return true
	}
}

// signalAll sends a signal to the gateway and to what it started.
func (g *realGateway) signalAll(signal syscall.Signal) {
	if g.alive() {
		syscall.Kill(-g.process.Process.Pid, signal)
	}
}

// patienceOfReal is what a busy machine may take for one thing.
const patienceOfReal = 8 * time.Minute

// waitUntil waits for something, long.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !soon(patienceOfReal, ok) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// scripted plays the model: a loopback server for chat completions. To a wake it
// answers with the command that the message names, reads what that prints in
// the agent's shell, does the task with the lines that it finds there, and
// takes the next, until there is none.
type scripted struct {
	url string

	mu      sync.Mutex
	plans   map[string][]string      // command of the wake → what comes next
	turns   map[string]int           // command of the wake → turns that began with it
	held    map[string]chan struct{} // command of the wake → open while the model takes its time
	said    []string                 // what the commands printed
	ignored []string                 // data directories
	asked   int
}

func newScripted(t *testing.T) *scripted {
	m := &scripted{plans: map[string][]string{}, turns: map[string]int{}, held: map[string]chan struct{}{}}
	s := httptest.NewServer(m)
	m.url = s.URL
	t.Cleanup(func() {
		m.mu.Lock()
		for wake := range m.held {
			m.let(wake)
		}
		m.mu.Unlock()
		s.CloseClientConnections()
		s.Close()
		if t.Failed() {
			t.Logf("the model was told:\n%s", strings.Join(m.said, "\n"))
		}
	})
	return m
}

// hold makes the model take its time until release, in turns of an agent about a data directory.
// Those about others go on: the agent has one turn at a time.
func (m *scripted) hold(dir, agent string) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wake := takes(dir, agent)
	m.held[wake] = make(chan struct{})
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.let(wake)
	}
}

func (m *scripted) let(wake string) {
	if ch := m.held[wake]; ch != nil {
		close(ch)
		delete(m.held, wake)
	}
}

// ignore makes the agents' turns about a data directory end at once.
func (m *scripted) ignore(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ignored = append(m.ignored, dir)
}

// began counts the turns of an agent in a data directory.
func (m *scripted) began(dir, agent string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turns[takes(dir, agent)]
}

// takes is the command that a wake names.
func takes(dir, agent string) string {
	return fmt.Sprintf("otm next --agent %s --dir '%s'", agent, dir)
}

type chat struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	json.Unmarshal(raw, &parts)
	for _, p := range parts {
		s += p.Text + "\n"
	}
	return s
}

var (
	wakeLine   = regexp.MustCompile(`run "(otm next --agent \S+ --dir '[^']*')"`)
	reportLine = regexp.MustCompile(`(?m)^ +(otm-update .*--subtask-done [0-9]+)\s*$`)
	resultLine = regexp.MustCompile(`(?m)^ +(otm-update .*--status agent_done --result) 'what came of it'\s*$`)
)

func (m *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c chat
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wake, output := "", ""
	begins := false
	for _, msg := range c.Messages { // 2026.9.6 adds user messages of its own behind each
		text := textOf(msg.Content)
		if found := wakeLine.FindStringSubmatch(text); msg.Role == "user" && found != nil {
			wake, begins = found[1], true
		}
		if msg.Role == "tool" {
			output, begins = text, false
		}
	}
	m.mu.Lock()
	m.asked++
	id, held := m.asked, m.held[wake]
	if begins {
		m.turns[wake]++
	}
	m.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	m.answer(w, id, m.next(wake, begins, output))
}

// next is the next command of a turn; "": it ends.
func (m *scripted) next(wake string, begins bool, output string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch task := resultLine.FindStringSubmatch(output); {
	case wake == "" || slices.ContainsFunc(m.ignored, func(dir string) bool { return strings.Contains(wake, "'"+dir+"'") }):
		return ""
	case begins:
		m.plans[wake] = []string{wake}
	case task != nil:
		m.plans[wake] = nil
		for _, step := range reportLine.FindAllStringSubmatch(output, -1) {
			m.plans[wake] = append(m.plans[wake], step[1])
		}
		m.plans[wake] = append(m.plans[wake], task[1]+" 'done by the model'", wake)
	}
	if !begins {
		m.said = append(m.said, wake+" ==> "+output)
	}
	if len(m.plans[wake]) == 0 {
		return "" // no task waiting, or what is not understood
	}
	command := m.plans[wake][0]
	m.plans[wake] = m.plans[wake][1:]
	return command
}

// answer streams a call of the tool exec, or the end of the turn.
func (m *scripted) answer(w http.ResponseWriter, id int, command string) {
	delta, finish := object{"role": "assistant", "content": "done"}, "stop"
	if command != "" {
		// yieldMs: a busy machine's command is not to go to the background.
		args, _ := json.Marshal(object{"command": command, "yieldMs": 120000})
		delta = object{"role": "assistant", "content": nil, "tool_calls": []object{{
			"index": 0, "id": fmt.Sprintf("call_%d", id), "type": "function", "function": object{"name": "exec", "arguments": string(args)},
		}}}
		finish = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []object{{"index": 0, "delta": delta, "finish_reason": nil}, {"index": 0, "delta": object{}, "finish_reason": finish}} {
		data, _ := json.Marshal(object{
			"id": fmt.Sprintf("chatcmpl-%d", id), "object": "chat.completion.chunk", "created": 1790000000, "model": "one", "choices": []object{choice},
			"usage": object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
		})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// start starts a command of the house that stays until it is interrupted.
func (h *house) start(name string, args ...string) (stop func()) {
	h.Helper()
	var out bytes.Buffer
	cmd := h.command("", name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				h.Error(err)
			}
		case <-time.After(time.Minute):
			cmd.Process.Kill()
			h.Errorf("%s does not end", name)
		}
		if h.Failed() {
			h.Logf("%s printed:\n%s", name, &out)
		}
	})
	h.Cleanup(stop)
	return stop
}
