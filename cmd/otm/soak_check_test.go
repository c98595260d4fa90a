package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// comeToRest waits until no task is open and no drop waits.
func (s *soak) comeToRest() {
	s.Helper()
	s.until("all tasks to be over", func() string {
		left := map[string]bool{}
		cards, err := s.desk.cards()
		if err != nil {
			return err.Error()
		}
		known := s.store.all()
		for id := range known {
			onBoard := slices.ContainsFunc(cards, func(c card) bool {
				return c.cells["task_id"] == id.String() && pipeline.Status(c.cells["status"]).Finished()
			})
			if !onBoard && !s.isOver(id) {
				left[id.String()] = true
			}
		}
		for title, id := range s.titles {
			if id != "" && known[must(pipeline.ParseFileID(id))] == nil {
				left[fmt.Sprintf("%s %q", id, title)] = true
			}
		}
		if n := count(s.dir, "new-tasks") + count(s.dir, "task-updates"); n > 0 {
			left[fmt.Sprint(n, " drops")] = true
		}
		for _, c := range cards {
			if c.Parent == "" && c.cells["assignee"] != "" && c.cells["task_id"] == "" {
				left[fmt.Sprintf("row %q", c.cells["title"])] = true
			}
		}
		return strings.Join(slices.Sorted(maps.Keys(left)), ", ")
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// atRest runs the components, with nobody else about, until nothing is left to be done:
// otm fsck finds nothing, and the tables follow from the events. Some of it has its time: a
// write that the board's end cut off, or an entry that an agent's own program lost.
func (s *soak) atRest() {
	s.Helper()
	if s.boardDies() && s.killBoard == nil {
		s.startBoard("")
	}
	lines := [][]string{
		{"otm-injector", "--once"}, {"otm-dispatcher", "--once"}, {"otm-completion-detector", "--once"},
		{"otm", "fsck", "--at-rest"}, {"otm", "rebuild", "--check"},
	}
	var wrong []string
	soon(patience, func() bool {
		wrong = nil
		for _, line := range lines {
			if out, said, code := s.do("", line...); code != 0 {
				wrong = append(wrong, fmt.Sprintf("%v: exit %d\n%s%s", line, code, out, said))
			}
		}
		return wrong == nil
	})
	for _, text := range wrong {
		s.Error(text)
	}
}

// check holds what came of it against what was promised.
func (s *soak) check() {
	s.Helper()
	lines, err := readAgentLines(s.logDir())
	if err != nil {
		s.Fatal(err)
	}
	records := s.store.all()
	s.checkCreates(records)
	s.checkReports(records, lines)
	s.checkWork(records, lines)
	s.checkLogs()
}

// checkCreates: what was acknowledged is known, under its id; nothing stands
// twice.
func (s *soak) checkCreates(records map[pipeline.TaskID]*core.Task) {
	byTitle := map[string][]pipeline.TaskID{}
	for id, r := range records {
		byTitle[r.Title] = append(byTitle[r.Title], id)
	}
	ids := map[string]string{}
	for title, id := range s.titles {
		switch got := byTitle[title]; {
		case id == "" && len(got) > 1:
			s.Errorf("%q, which nobody was told of, stands %d times: %v", title, len(got), got)
		case id != "" && (len(got) != 1 || got[0].String() != id):
			s.Errorf("%q was acknowledged as %s; known are %v", title, id, got)
		case id != "" && ids[id] != "":
			s.Errorf("%s was given to %q and to %q", id, title, ids[id])
		}
		if id != "" {
			ids[id] = title
		}
	}
	settled := map[string]int{}
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir} {
		for _, c := range s.settled(dir) {
			id := c.TaskID().String()
			if c.Result.Inbox != inbox.NewTasks || c.Result.SkippedDuplicate {
				continue
			}
			settled[id]++
			if dir == inbox.FailedDir && s.touched[id] == nil { // a row that was deleted while it was made
				s.Errorf("the create of %s failed: %s", id, c.Result.Error)
			}
		}
	}
	for id, title := range ids {
		if settled[id] != 1 {
			s.Errorf("the create of %s %q was settled %d times", id, title, settled[id])
		}
	}
}

func (s *soak) settled(dir string) []*inbox.Settled {
	box := inbox.Open(s.dir)
	var all []*inbox.Settled
	for _, name := range must(box.SettledNames(dir)) {
		all = append(all, must(box.ReadSettled(dir, name)))
	}
	return all
}

// checkReports: what was reported took effect once, or failed for a reason that
// the agent had to expect.
func (s *soak) checkReports(records map[pipeline.TaskID]*core.Task, lines []agentLine) {
	fate := map[string][]*inbox.Settled{}
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir} {
		for _, settled := range s.settled(dir) {
			fate[settled.Name] = append(fate[settled.Name], settled)
		}
	}
	said := 0
	for _, l := range lines {
		if l.What != "said" {
			continue
		}
		said++
		got := fate[l.File]
		if len(got) != 1 {
			s.Errorf("%v: the report %s (%s) was settled %d times", l.Task, l.File, l.Text, len(got))
			continue
		}
		applied := 0
		for _, drop := range s.store.reports(l.Task) {
			if drop == l.File {
				applied++
			}
		}
		switch failed := got[0].Result.Class != ""; {
		case failed && s.touched[l.Task.String()] == nil && !l.Again:
			s.Errorf("%v: the report %s (%s) failed: %s", l.Task, l.File, l.Text, got[0].Result.Error)
		case failed && applied > 0 && !slices.Contains(s.touched[l.Task.String()], "deleted"): // applied, and then the board had no row to show it
			s.Errorf("%v: the report %s (%s) failed, and was applied", l.Task, l.File, l.Text)
		case !failed && applied != 1:
			s.Errorf("%v: the report %s (%s) was applied %d times", l.Task, l.File, l.Text, applied)
		}
	}
	s.Logf("%d reports", said)
}

// checkWork: a task that nobody but its agent touched was handed over, done and
// ended once.
func (s *soak) checkWork(records map[pipeline.TaskID]*core.Task, lines []agentLine) {
	given, fresh, result := map[pipeline.TaskID]int{}, map[pipeline.TaskID]int{}, map[pipeline.TaskID]string{}
	for _, l := range lines {
		switch {
		case l.What == "trouble":
			s.Errorf("%s: %s", l.Agent, l.Text)
		case l.What == "refused" && s.touched[l.Task.String()] == nil && !l.Again:
			s.Errorf("%s: a report on %v was refused: %s", l.Agent, l.Task, l.Text)
		case l.What == "given":
			given[l.Task]++
			if !l.Continue {
				fresh[l.Task]++
			}
		case l.What == "said" && l.Result != "":
			result[l.Task] = l.Result
		}
	}
	for id, r := range records {
		dispatches, ended := 0, 0
		for _, e := range s.store.events(id) {
			switch data := e.Data.(type) {
			case core.HandedOut:
				dispatches++
			case core.TaskMoved:
				if data.To == pipeline.AgentDone {
					ended++
				}
			}
		}
		if fresh[id] > max(dispatches, 1) {
			s.Errorf("%v was dispatched %d times, and handed over %d times", id, dispatches, fresh[id])
		}
		if s.touched[id.String()] != nil || pipeline.FoldName(r.Agent) == "olga" {
			continue
		}
		open := len(r.Steps) - r.StepsDone()
		if ended == 0 && r.Status == pipeline.Done {
			ended = 1 // the detector died before it could write it down, and a person was quick
		}
		if given[id] == 0 || ended != 1 || open != 0 || !slices.Contains([]pipeline.Status{pipeline.AgentDone, pipeline.Done}, r.Status) {
			s.Errorf("%v %q (%s) was given %d times and ended %d times, and has %d open steps:\n%+v", id, r.Title, r.Status, given[id], ended, open, s.store.history(id))
		}
		untold := fmt.Sprintf(soakResult, id, r.Agent) // the agent died before it could write down that it had reported
		if r.Result != result[id] && (result[id] != "" || r.Result != untold) {
			s.Errorf("%v: the result is %q, reported was %q", id, r.Result, result[id])
		}
	}
}

// checkLogs: no daemon wrote of a fault of its own.
func (s *soak) checkLogs() {
	filepath.WalkDir(filepath.Join(s.dir, "logs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "panic") || strings.Contains(line, "internal error") && strings.Contains(line, "level=ERROR") {
				s.Errorf("%s: %s", e.Name(), line)
			}
		}
		return nil
	})
}
