package dispatch

import (
	"os"
	"path/filepath"
	"testing"

	"otm/pipeline"
)

// C3: a repaired configuration starts the agent at once. A single run in a shell with
// another PATH repairs nothing: the pauses stay.
func TestC3ConfigurationForgives(t *testing.T) {
	bin := t.TempDir()
	install := func(text string) {
		if err := os.WriteFile(filepath.Join(bin, "agent-of-c3"), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	install("#!/bin/sh\n")
	agent := pipeline.Agent{Name: "a", Trigger: pipeline.TriggerExec, Workspace: "/w", Command: []string{"agent-of-c3"}}
	t.Setenv("PATH", bin)
	a := AgentState{Agent: "a"}
	if !a.configured(&agent, false) || a.configured(&agent, false) {
		t.Error("the first look notes the configuration, the second changes nothing")
	}
	for _, c := range []struct {
		name     string
		change   func()
		forgives bool
	}{
		{"PATH without the program", func() { t.Setenv("PATH", t.TempDir()) }, false},
		{"PATH as before", func() { t.Setenv("PATH", bin) }, false},
		{"the program is another", func() { install("#!/bin/sh\nexit 0\n") }, true},
		{"the table of otm.toml is another", func() { agent.Command = append(agent.Command, "--login") }, true},
	} {
		a.Failures = 3
		c.change()
		if changed := a.configured(&agent, false); changed != c.forgives || (a.Failures == 0) != c.forgives {
			t.Errorf("%s: changed %v, failures %d, want forgiven: %v", c.name, changed, a.Failures, c.forgives)
		}
	}
}
