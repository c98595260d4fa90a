package store

import (
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// change runs statements on the database, as a bug or a person with another program may.
func change(t testing.TB, s *Store, statements ...string) {
	t.Helper()
	err := s.db.write(t.Context(), synced, func(t tx) error {
		for _, text := range statements {
			if _, err := t.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Events that an earlier version kept under a former name of their type are found, and count.
func TestFormerNames(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		handedOut(t, s, 1)
		do(t, s, core.Command{At: t0, By: ada, Task: 1, Agent: "Dev Das", Do: core.BeginWake{Version: mustTask(t, s, 1).Version, Tasks: []pipeline.TaskID{1}, AskedAt: t0}})
		do(t, s, core.Command{At: t0, By: ada, Task: 1, Do: core.EndStart{Key: mustTask(t, s, 1).Wakes[0].Key, Detail: "exit status 1"}})
		change(t, s, "UPDATE events SET type = 'RunEnded' WHERE type = 'StartEnded'")
		events, err := s.Events(t.Context(), core.EventFilter{Types: []string{"StartEnded", "WakeBegun"}})
		if err != nil || len(events) != 2 || events[1].Type() != "StartEnded" {
			t.Errorf("found %+v, %v", events, err)
		}
		check(t, s)
	})
}

// The states are replayed from the events, compared and replaced.
func TestRebuild(t *testing.T) {
	onEach(t, func(t *testing.T, open func() *Store) {
		s := open()
		for i := range 3 {
			handedOut(t, s, pipeline.TaskID(i+1))
		}
		do(t, s, core.Command{At: t0, By: ada, Agent: "mira", Do: core.ResumeAgent{}})
		for _, sink := range core.Sinks {
			settled(t, s, lease(t, s, sink, "me", t0)...)
		}
		check(t, s)
		if backup, found, err := Rebuild(t.Context(), s, t0); backup != "" || len(found) > 0 || err != nil {
			t.Errorf("nothing was to do: %q, %v, %v", backup, found, err)
		}
		change(t, s,
			`UPDATE tasks SET doc = replace(doc, '"task 1"', '"Task One"') WHERE id = 1`,
			`UPDATE tasks SET live = 0 WHERE id = 2`,
			`DELETE FROM agents`,
			`INSERT INTO wakes (key, task, agent_key, asked_at) VALUES ('otm-T-00009-x-1', 9, 'x', 0)`)
		found, err := Check(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range found {
			all = append(all, d.String())
		}
		text := strings.Join(all, "\n")
		for _, want := range []string{
			`title is "Task One", and the events say "task 1"`,
			`tasks T-00002: column live is "0", and the events say "1"`,
			`agents mira: agent is missing, and the events say "mira"`,
			`wakes otm-T-00009-x-1: column agent_key is "x", and the events say nothing`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the differences do not have %q:\n%s", want, text)
			}
		}
		if len(found) != 4 {
			t.Errorf("%d differences:\n%s", len(found), text)
		}
		backup, replaced, err := Rebuild(t.Context(), s, t0.Add(time.Hour))
		if err != nil || backup == "" || len(replaced) != 4 {
			t.Errorf("rebuilt: %q, %v, %v", backup, replaced, err)
		}
		check(t, s)
		if got := pending(t, s, core.SinkRender); len(got) != 2 {
			t.Errorf("pending: %+v", got)
		}
		do(t, s, retitle(1, "goes on"))
		check(t, s)
	})
}
