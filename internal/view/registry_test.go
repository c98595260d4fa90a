package view

import (
	"testing"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/pipeline"
)

// What an agent is doing follows from its tasks and its runs.
func TestRegistered(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 8, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	task := func(id pipeline.TaskID, change func(*core.Task)) *Task {
		s := &core.Task{ID: id, Agent: "a", Priority: pipeline.Normal, Status: pipeline.Assigned, Steps: []core.Step{{ID: 1}}, Dispatch: &core.Dispatch{Agent: "a", At: ago(time.Hour)}}
		if change != nil {
			change(s)
		}
		return &Task{ID: id, State: s}
	}
	taken := func(s *core.Task) { s.Status, s.Dispatch.TakenAt = pipeline.InProgress, ago(time.Minute) }
	for _, tt := range []struct {
		name   string
		person bool
		tasks  []*Task
		wake   *core.Wake
		runs   core.AgentState
		alive  bool            // its process
		took   bool            // it took a task since its wake
		over   bool            // the start of its wake has ended
		orphan bool            // its process is what a killed one left
		left   pipeline.TaskID // by a process that ended
		state  Doing
		at     pipeline.TaskID
		next   pipeline.TaskID
		until  time.Time // as Until, where that is given
	}{
		{name: "nothing to do", state: Free},
		{name: "looks by itself", tasks: []*Task{task(2, nil), task(1, nil)}, state: Free, next: 1},
		{name: "the urgent one is next", tasks: []*Task{task(1, nil), task(2, func(s *core.Task) { s.Priority = pipeline.High })}, state: Free, next: 2},
		{name: "at work", tasks: []*Task{task(1, taken), task(2, nil)}, state: Working, at: 1, next: 2},
		{name: "woken", tasks: []*Task{task(1, nil)}, wake: &core.Wake{AskedAt: ago(time.Second), Accepted: now}, state: Woken, next: 1},
		{name: "its run ended", tasks: []*Task{task(1, nil)}, wake: &core.Wake{AskedAt: ago(time.Minute), StartResult: core.StartResult{Ended: now}}, over: true, state: Free, next: 1},
		{name: "its process is gone", tasks: []*Task{task(1, nil)}, wake: &core.Wake{AskedAt: ago(time.Minute), Accepted: now}, over: true, state: Free, next: 1},
		{name: "its process ended, and left its task", tasks: []*Task{task(1, taken), task(2, nil)}, wake: &core.Wake{AskedAt: ago(time.Minute), StartResult: core.StartResult{Ended: now}}, over: true, left: 1, state: Ended, at: 1, next: 2},
		{name: "what a killed one left is ended", tasks: []*Task{task(1, taken)}, runs: core.AgentState{Ends: &core.Ends{Task: 1, Orphan: true}}, alive: true, orphan: true, state: Ending, at: 1},
		{name: "its run takes too long, and is ended", tasks: []*Task{task(1, taken)}, runs: core.AgentState{Ends: &core.Ends{Task: 1, Late: true}}, alive: true, state: Working, at: 1},
		{name: "its task was not handed out yet", tasks: []*Task{task(1, func(s *core.Task) { s.Status, s.Dispatch = pipeline.New, nil })}, state: Free, next: 1},
		{name: "OTM ends its process", tasks: []*Task{task(1, nil)}, runs: core.AgentState{Ends: &core.Ends{Task: 2}}, alive: true, state: Ending, next: 1},
		{name: "waits", tasks: []*Task{task(1, nil)}, runs: core.AgentState{NextStart: now.Add(time.Minute)}, state: Waits, next: 1},
		{name: "waits with a task that waits for its next run", tasks: []*Task{task(1, func(s *core.Task) {
			s.Status, s.Dispatch, s.Wait = pipeline.Pending, nil, &core.Wait{Why: core.WaitBackoff, Until: now.Add(time.Second)}
		})}, runs: core.AgentState{NextStart: now.Add(time.Minute)}, state: Waits, next: 1},
		{name: "only its next run is to come", tasks: []*Task{task(1, func(s *core.Task) {
			s.Status, s.Wait = pipeline.Pending, &core.Wait{Why: core.WaitBackoff, Until: now.Add(time.Hour)}
		})}, runs: core.AgentState{NextStart: now.Add(time.Minute)}, state: Waits, next: 1, until: now.Add(time.Hour)},
		{name: "left alone, and its next run is later", tasks: []*Task{task(1, func(s *core.Task) {
			s.Status, s.Wait = pipeline.Pending, &core.Wait{Why: core.WaitBackoff, Until: now.Add(time.Hour)}
		})}, runs: core.AgentState{LeftAlone: now, NextStart: now.Add(time.Minute)}, state: LeftAlone, next: 1, until: now.Add(time.Hour)},
		{name: "answered while at work on another one", tasks: []*Task{task(1, taken), task(2, func(s *core.Task) { taken(s); s.Dispatch.TakenAt, s.ResumedAt = now, now })},
			state: Working, at: 1, next: 2},
		{name: "it unblocked its task itself", tasks: []*Task{task(1, func(s *core.Task) { taken(s); s.ResumedAt, s.ResumedBy = now, core.Agent })}, state: Working, at: 1},
		{name: "answered, and not asked for", tasks: []*Task{task(1, func(s *core.Task) { taken(s); s.ResumedAt = now })}, state: Free, next: 1},
		{name: "its process runs on", wake: &core.Wake{AskedAt: ago(time.Minute), Accepted: now}, took: true, alive: true, state: StillRuns},
		{name: "it has nothing, and the next task would wait", runs: core.AgentState{NextStart: now.Add(time.Minute)}, state: Waits, until: now.Add(time.Minute)},
		{name: "left alone", tasks: []*Task{task(1, taken)}, runs: core.AgentState{LeftAlone: ago(time.Hour)}, state: LeftAlone, at: 1},
		{name: "paused", tasks: []*Task{task(1, taken)}, runs: core.AgentState{LeftAlone: ago(time.Hour), Paused: &core.Pause{At: now}}, state: Paused, at: 1},
		{name: "a person at work", person: true, tasks: []*Task{task(1, func(s *core.Task) { s.Status = pipeline.InProgress })}, state: Working, at: 1},
		{name: "a person's turn", person: true, tasks: []*Task{task(1, nil)}, state: Free, next: 1},
	} {
		a := &Agent{Agent: &pipeline.Agent{Name: "a", Person: tt.person}, Tasks: tt.tasks}
		if !tt.person {
			a.Outlook = dispatch.Outlook{Wake: tt.wake, Took: tt.took, Over: tt.over, Left: map[pipeline.TaskID]bool{tt.left: tt.left != 0}, Health: dispatch.Health{AgentState: &tt.runs, Process: dispatch.Process{Running: tt.alive, Orphan: tt.orphan}}}
		}
		r := Registered{Tasks: map[pipeline.Status]int{}}
		r.fill(a, now)
		if !tt.until.IsZero() && !r.Until.Equal(tt.until) {
			t.Errorf("%s: until %v, want %v", tt.name, r.Until, tt.until)
		}
		if r.State != tt.state || r.TaskID != tt.at || r.Next != tt.next {
			t.Errorf("%s: %s at %v, next %v; want %s at %v, next %v", tt.name, r.State, r.TaskID, r.Next, tt.state, tt.at, tt.next)
		}
	}
}

// ERR-02, ERR-03 and ERR-04 of the specification cannot occur: whether an agent is busy is
// stored nowhere. Whatever its tasks are, it is at work exactly if one of them is, and a
// task that waits while its agent is free is the next that it is given.
func TestAgentsAndTasksAgree(t *testing.T) {
	t.Parallel()
	for _, one := range pipeline.Statuses {
		for _, two := range pipeline.Statuses {
			a := &Agent{Agent: &pipeline.Agent{Name: "a"}, Outlook: dispatch.Outlook{Health: dispatch.Health{AgentState: &core.AgentState{}}}}
			atWork, waits := map[pipeline.TaskID]bool{}, false
			for i, status := range []pipeline.Status{one, two} {
				s := &core.Task{ID: pipeline.TaskID(i + 1), Agent: "a", Priority: pipeline.Normal, Status: status, Steps: []core.Step{{ID: 1}}, Dispatch: &core.Dispatch{Agent: "a"}}
				if status == pipeline.InProgress {
					s.Dispatch.TakenAt, atWork[s.ID] = time.Unix(int64(i), 0), true
				}
				waits = waits || status == pipeline.Assigned
				a.Tasks = append(a.Tasks, &Task{ID: s.ID, State: s})
			}
			r := Registered{Tasks: map[pipeline.Status]int{}}
			r.fill(a, time.Now())
			if (r.State == Working) != (len(atWork) > 0) || r.State == Working && !atWork[r.TaskID] || r.State == Free && waits && r.Next == 0 {
				t.Errorf("%s and %s: it is %s at %v, next %v", one, two, r.State, r.TaskID, r.Next)
			}
		}
	}
}
