package dispatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// C3: a repaired configuration starts the agent at once. A single run in a shell with
// another PATH repairs nothing, nor does a program that changes itself while it runs.
func TestC3ConfigurationForgives(t *testing.T) {
	bin := t.TempDir()
	now := time.Now()
	ended := now.Add(-time.Minute)
	install := func(at time.Time) {
		path := filepath.Join(bin, "agent-of-c3")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	agent := pipeline.Agent{Name: "a", Trigger: pipeline.TriggerExec, Workspace: "/w", Command: []string{"agent-of-c3"}}
	t.Setenv("PATH", bin)
	is := &core.State{Agents: map[string]*core.AgentState{"a": {Agent: "a", LastStart: &core.EndedStart{StartResult: core.StartResult{Ended: ended}}}}}
	judge := func(over bool) {
		t.Helper()
		if _, err := core.Decide(is, core.Command{At: now, By: by(), Agent: "a", Do: core.JudgeStart{Over: over, Setup: setupOf(&agent)}}); err != nil {
			t.Fatal(err)
		}
	}
	judge(true)
	for _, c := range []struct {
		name     string
		change   func()
		runs     bool // the next run is not judged yet
		forgives bool
	}{
		{"nothing", func() {}, false, false},
		{"the program is found for the first time", func() { install(ended.Add(-time.Hour)) }, false, true},
		{"PATH without the program", func() { t.Setenv("PATH", t.TempDir()) }, false, false},
		{"PATH as before", func() { t.Setenv("PATH", bin) }, false, false},
		{"the program changed itself in its run", func() { install(ended.Add(-time.Millisecond)) }, false, false},
		{"the program changes itself in the next run", func() { install(ended.Add(time.Millisecond)) }, true, false},
		{"the program was mended after its run", func() { install(ended.Add(time.Second)) }, false, true},
		{"it is the same", func() {}, false, false},
		{"the table of otm.toml is another", func() { agent.Command = append(agent.Command, "--login") }, false, true},
	} {
		is.Agents["a"].Failures = 3
		c.change()
		judge(!c.runs)
		if n := is.Agents["a"].Failures; (n == 0) != c.forgives {
			t.Errorf("%s: failures %d, want forgiven: %v", c.name, n, c.forgives)
		}
	}
}
