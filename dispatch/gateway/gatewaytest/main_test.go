package gatewaytest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/leak"
)

// The test binary is the program, and its agent, when told so. After the tests
// no goroutine may be left.
func TestMain(m *testing.M) {
	switch os.Getenv("GATEWAYTEST_ROLE") {
	case "gateway":
		os.Exit(gatewaytest.Main(os.Args[1:], os.Stderr))
	case "agent":
		message, _ := io.ReadAll(os.Stdin)
		os.Exit(exitCode(os.WriteFile("seen-"+os.Args[1], message, 0o600)))
	}
	os.Exit(leak.Run(m))
}

func exitCode(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func TestMainProgram(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	urls, runsFile := filepath.Join(dir, "urls"), filepath.Join(dir, "runs.jsonl")
	agent := filepath.Join(dir, "agent")
	script := "#!/bin/sh\nGATEWAYTEST_ROLE=agent exec '" + self + "' \"$@\"\n"
	if err := leak.WriteProgram(agent, strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-profile", "2026.3.13", "-agent", "devdas="+dir,
		"-run", agent+" {agent}", "-runs", runsFile, "-url-file", urls, "-fault", "NoAnswer")
	cmd.Env = append(os.Environ(), "GATEWAYTEST_ROLE=gateway")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(waitForFile(t, urls))

	r := dialURL(t, lines[0])
	if f := r.call("connect", r.params(nil)); !f.OK {
		t.Fatalf("connect: %+v", f.Error)
	}
	params := run("k", func(p object) { p["agentId"] = "devdas" })
	r.ask("agent", params) // meets the fault
	id := r.ask("agent", params)
	r.next(id)
	if f := r.next(id); f.Payload["status"] != "ok" {
		t.Errorf("end %+v", f)
	}
	if seen, err := os.ReadFile(filepath.Join(dir, "seen-devdas")); string(seen) != "hello rig" {
		t.Errorf("agent saw %q, %v", seen, err)
	}
	var line gatewaytest.Run
	data, _ := os.ReadFile(runsFile)
	if err := json.Unmarshal(data, &line); err != nil || line.Key != "k" {
		t.Errorf("runs file %q: %v", data, err)
	}
	control(t, lines[1]+"/fault/Unavailable", http.StatusNoContent)
	control(t, lines[1]+"/fault/NoSuch", http.StatusBadRequest)
	control(t, lines[1]+"/restart", http.StatusNoContent)

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("program: %v, stderr %s", err, stderr.String())
	}
}

func control(t *testing.T, url string, want int) {
	t.Helper()
	resp, err := http.Post(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s: status %d, want %d", url, resp.StatusCode, want)
	}
}

// waitForFile polls, as a script does.
func waitForFile(t *testing.T, name string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(name); err == nil {
			return string(data)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("file never came")
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := gatewaytest.Serve(ctx, gatewaytest.Profile2026_9_6, gatewaytest.Options{}, func(g *gatewaytest.Gateway) {
		connected(t, g)
		cancel()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHTTP(t *testing.T) {
	each(t, func(t *testing.T, p gatewaytest.Profile) {
		g := gatewaytest.Start(t, p)
		get := func(path string) int {
			resp, err := http.Get(strings.Replace(g.URL(), "ws", "http", 1) + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if got := get("/healthz"); got != http.StatusOK {
			t.Errorf("healthz %d", got)
		}
		if got := get("/readyz"); got != http.StatusOK {
			t.Errorf("readyz %d", got)
		}
		g.Drain()
		if got := get("/readyz"); got != http.StatusServiceUnavailable {
			t.Errorf("readyz while draining %d", got)
		}
		if got := get("/"); got != http.StatusNotFound {
			t.Errorf("/ %d", got)
		}
	})
}
