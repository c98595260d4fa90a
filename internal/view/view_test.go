package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/pipeline"
	"otm/slacklist"
)

// load makes a view of a directory with the given rows and records.
func load(t *testing.T, agents pipeline.Agents, rows []pipeline.Row, records ...*pipeline.Record) *View {
	t.Helper()
	s := Sources{Dir: t.TempDir(), LogDir: t.TempDir(), Agents: agents, Now: time.Now(), Snapshot: &slacklist.Snapshot{Rows: rows, Count: len(rows)}}
	v, err := Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		if _, err := v.Records.Change(t.Context(), rec.TaskID, func(r *pipeline.Record) error { *r = *rec; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// TestC10OneNumbering: steps have the numbers of the record, which otm-update takes.
// A step that a person has just added comes last and has none.
func TestC10OneNumbering(t *testing.T) {
	t.Parallel()
	rows := []pipeline.Row{
		{ID: "R1", TaskID: "T-00001", Title: "One", Assignee: "devdas"},
		{ID: "S3", Parent: "R1", Title: "added"},
		{ID: "S2", Parent: "R1", Title: "b", Checked: true},
		{ID: "S1", Parent: "R1", Title: "a"},
	}
	v := load(t, nil, rows, &pipeline.Record{TaskID: 1, RowID: "R1", Steps: []pipeline.StepRecord{{Title: "a", RowID: "S1"}, {Title: "b", RowID: "S2"}, {Title: "c"}}})
	want := []Step{{1, "a", false, "S1"}, {2, "b", true, "S2"}, {3, "c", false, ""}, {0, "added", false, "S3"}}
	if got := v.Task(1).Steps; !slices.Equal(got, want) {
		t.Errorf("the steps are %v, want %v", got, want)
	}
	if open, all := v.Task(1).Open(); open != 2 || all != 3 {
		t.Errorf("%d of %d steps open, want 2 of 3 on the board", open, all)
	}
	rows[0].TaskID = "" // its row is found all the same
	if got := v.Tasks(); len(got) != 1 || got[0].ID != 1 || !slices.Equal(got[0].Steps, want) {
		t.Errorf("without its id: %+v", got)
	}
}

// TestC46SilentWorkspace: a workspace on a file system that does not answer is named,
// and no other agent's is kept from being looked at.
func TestC46SilentWorkspace(t *testing.T) {
	t.Parallel()
	hangs, well, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	crashtest.Hang(t, hangs)
	agents := pipeline.Agents{
		{Name: "hangs", Workspace: hangs, Trigger: pipeline.TriggerExec}, {Name: "well", Workspace: well, Trigger: pipeline.TriggerExec},
		{Name: "gone", Workspace: filepath.Join(well, "no such")}, {Name: "file", Workspace: file}, {Name: "person", Person: true},
	}
	v := load(t, agents, nil)
	for i, want := range []explain.Code{explain.WorkspaceSilent, "", explain.WorkspaceMissing, explain.WorkspaceNoDir, ""} {
		got := explain.Code("")
		if f := v.Workspace(&agents[i]); f != nil {
			got = f.Code
			if text := f.Text(v.Now); !strings.Contains(text, agents[i].Workspace) || f.Next(v.Now) == "" {
				t.Errorf("%q, next %q", text, f.Next(v.Now))
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", agents[i].Name, got, want)
		}
	}
}

// TestC46LooksOnce: many workspaces do not answer, and a page looks again and again.
// One step hangs for each of them, and each is named by every look.
func TestC46LooksOnce(t *testing.T) {
	t.Parallel()
	var agents pipeline.Agents
	var hung []*atomic.Int32
	var rows []pipeline.Row
	for n := range 10 {
		ws := t.TempDir()
		hung = append(hung, crashtest.Hang(t, ws))
		agents = append(agents, pipeline.Agent{Name: fmt.Sprintf("a%d", n), Label: fmt.Sprintf("a%d", n), Workspace: ws})
		rows = append(rows, pipeline.Row{ID: fmt.Sprintf("R%d", n), TaskID: fmt.Sprintf("T-0000%d", n+1), Assignee: agents[n].Label})
	}
	var cache WorkspaceCache
	for look := range 3 {
		v := load(t, agents, rows)
		v.Workspaces = cache.Get(agents, v.Now.Add(time.Duration(look)*time.Hour))
		for i := range agents {
			if its := v.Agent(&agents[i]); !patience.IsSilent(its.Err) || !strings.Contains(its.Err.Error(), agents[i].Workspace) {
				t.Errorf("look %d, %s: %v", look, agents[i].Name, its.Err)
			}
		}
	}
	for i, n := range hung {
		if n.Load() != 1 {
			t.Errorf("%d steps hang in the workspace of %s", n.Load(), agents[i].Name)
		}
	}
}

// TestWaits: of several methods that the rate limit holds off, the one that waits
// longest counts.
func TestWaits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := Board{Snapshot: &slacklist.Snapshot{Limits: []slacklist.Limited{{Method: "a", Until: now.Add(time.Second)}, {Method: "b", Until: now.Add(time.Minute)}, {Method: "c", Until: now.Add(time.Hour)}}}}
	if l, ok := b.Waits("a", "b"); !ok || l.Method != "b" {
		t.Errorf("%+v, %v", l, ok)
	}
	if l, ok := b.Waits("d"); ok {
		t.Errorf("of another method: %+v", l)
	}
}

// TestC18NeverWellFor: a directory in which something is amiss is never well, whatever
// the heartbeats say.
func TestC18NeverWellFor(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for name, c := range map[string]struct {
		spoil  func(v *View)
		health heartbeat.State
		code   explain.Code
	}{
		"nothing":       {func(*View) {}, heartbeat.Green, ""},
		"no agent":      {func(v *View) { v.Agents = nil }, heartbeat.Red, explain.NoAgents},
		"no workspace":  {func(v *View) { v.Agents[0].Workspace += "/gone" }, heartbeat.Red, explain.WorkspaceMissing},
		"a failed file": {func(v *View) { v.Inbox.Failed = []string{"x.json"} }, heartbeat.Yellow, explain.FilesFailed},
		"a full list":   {func(v *View) { v.Board.Limit, v.Board.Count = 3, 3 }, heartbeat.Yellow, explain.ListFullAt},
		"little room":   {func(v *View) { v.Board.Limit, v.Board.Count = 10, 9 }, heartbeat.Yellow, explain.ListNearlyFull},
		"a backlog":     {func(v *View) { v.Inbox.Oldest = v.Now.Add(-time.Hour) }, heartbeat.Red, explain.BacklogOld},
		"failures": {func(v *View) {
			v.Component(heartbeat.Detector).Found = []explain.Finding{{Code: explain.TaskRefused}}
		}, heartbeat.Red, explain.TaskRefused},
	} {
		v := load(t, pipeline.Agents{{Name: "devdas", Workspace: ws}}, nil)
		for _, id := range heartbeat.Components {
			v.Component(id).Problem = nil
		}
		c.spoil(v)
		problems := v.Problems()
		code := explain.Code("")
		if len(problems) > 0 {
			code = problems[0].Code
		}
		if got := Health(problems); got != c.health || code != c.code {
			t.Errorf("%s: %q with %s, want %q with %q", name, got, fmt.Sprint(problems), c.health, c.code)
		}
	}
}
