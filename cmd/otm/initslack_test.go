package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/board/boardtest"
	"otm/internal/config"
	"otm/internal/crash/crashtest"
)

// setUp runs otm init --slack in a process of its own, to be killed at a point,
// against a board that stands in for Slack.
func (h *house) setUp(b *boardtest.Board, dir, crashAt string, args ...string) (out string, ended bool) {
	h.Helper()
	cmd := h.command(crashAt, "otm", append([]string{"init", "--dir", dir, "--slack"}, args...)...)
	cmd.Env = append(cmd.Env, "SLACK_API_URL="+b.URL, "SLACK_BOT_TOKEN=")
	cmd.Stdin = strings.NewReader(b.Token)
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return all.String(), true
	case errors.As(err, &exit) && exit.ExitCode() == -1 && crashAt != "":
		return all.String(), false
	}
	h.Fatalf("killed at %q: %v\n%s", crashAt, err, &all)
	return "", false
}

// set reads what a data directory is set up for; token is "" where none is kept.
func (h *house) set(dir string) (list, token string) {
	h.Helper()
	c, err := config.Load(dir, func(string) string { return "" })
	if err != nil {
		h.Fatalf("otm.toml is broken: %v", err)
	}
	if c.Slack.TokenFile != "" {
		data, err := os.ReadFile(c.Slack.TokenFile)
		if err != nil && !os.IsNotExist(err) {
			h.Fatal(err)
		}
		token = strings.TrimSpace(string(data))
	}
	return c.Slack.ListID, token
}

// Setting up for Slack may be killed before each of its steps, and at each file:
// what is there is whole, and the next run goes on to the same end. A list that
// was written down is not made again.
func TestKillsOfInitSlack(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	h := newHouse(t)
	b := boardtest.Start(t)
	for name, args := range map[string][]string{
		"an existing list": {"--token-stdin", "--list", b.ListID},
	} {
		for _, point := range []string{"init.token", "init.list", "durable.named"} {
			for n := 1; ; n++ {
				dir := filepath.Join(h.root, fmt.Sprintf("%s %s %d", name, point, n))
				if _, ended := h.setUp(b, dir, fmt.Sprintf("%s:%d", point, n), args...); ended {
					if n == 1 {
						t.Errorf("%s: was not killed at %s", name, point)
					}
					break
				}
				made, _ := h.set(dir)
				h.setUp(b, dir, "", args...)
				list, token := h.set(dir)
				if list == "" || made != "" && made != list || token != b.Token {
					t.Errorf("%s, killed at %s the %dth time: list %q, was %q; token kept: %t", name, point, n, list, made, token == b.Token)
				}
			}
		}
	}
}

// A new token that is killed before otm.toml names its file is found by the next
// run, which need not be handed it again; the token before is whole until then.
func TestKillsOfInitSlackNewToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := boardtest.Start(t)
	dir := filepath.Join(h.root, "slack")
	if _, ended := h.setUp(b, dir, "init.list", "--token-stdin", "--list", b.ListID); ended {
		t.Fatal("was not killed")
	}
	if list, token := h.set(dir); list != "" || token != "" {
		t.Errorf("otm.toml names list %q before it is through, token %t", list, token != "")
	}
	h.setUp(b, dir, "", "--list", b.ListID)
	if list, token := h.set(dir); list != b.ListID || token != b.Token {
		t.Errorf("list %q, token kept: %t", list, token == b.Token)
	}
	kept := filepath.Join(dir, "secrets", "slack")
	if err := os.WriteFile(kept, []byte("xoxb-old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ended := h.setUp(b, dir, "init.token", "--token-stdin"); ended {
		t.Fatal("was not killed")
	}
	if _, token := h.set(dir); token != "xoxb-old" {
		t.Errorf("the token before is %q now", token)
	}
	h.setUp(b, dir, "", "--token-stdin")
	if _, token := h.set(dir); token != b.Token {
		t.Error("the new token is not kept")
	}
}
