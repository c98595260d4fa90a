package view

import (
	"strings"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// Summary is how a directory stands, as otm status and the page show it. No slice or
// map in it is nil.
type Summary struct {
	Dir        string                  `json:"dir"`
	Health     heartbeat.State         `json:"health"`
	Findings   []explain.Told          `json:"findings"` // why Health is not green
	Components []ComponentSummary      `json:"components"`
	Inbox      map[inbox.Kind]int      `json:"inbox"`
	Oldest     time.Time               `json:"oldest,omitzero"` // of what waits in an inbox
	Failed     int                     `json:"failed"`
	Reasons    []Reason                `json:"failedReasons"` // of the newest
	Agents     []AgentSummary          `json:"agents"`
	Queue      int                     `json:"sharedQueue"` // tasks that any agent may claim
	Board      Room                    `json:"board"`
	Tasks      map[pipeline.Status]int `json:"tasks"`
}

// ComponentSummary is how one component is.
type ComponentSummary struct {
	ID      string           `json:"id"`
	State   heartbeat.State  `json:"state"`  // the age of its last run
	Health  heartbeat.State  `json:"health"` // the age, and what that run said
	LastRun time.Time        `json:"lastRun,omitzero"`
	Result  heartbeat.Result `json:"result,omitempty"`
	Details string           `json:"details,omitempty"`
	PID     int              `json:"pid,omitempty"`
	Stays   bool             `json:"resident"` // a process stays for it now
}

// AgentSummary is how things stand with one agent.
type AgentSummary struct {
	Name    string                  `json:"name"`
	Trigger pipeline.Trigger        `json:"trigger,omitempty"` // "" for a person
	Trouble string                  `json:"trouble,omitempty"`
	Tasks   map[pipeline.Status]int `json:"tasks"`
}

// Reason is why a file failed.
type Reason struct {
	Name   string          `json:"name"`
	TaskID pipeline.TaskID `json:"taskId,omitempty"`
	Class  inbox.Class     `json:"class,omitempty"`
	Error  string          `json:"error"`
	Hint   string          `json:"hint,omitempty"`
	// Renumber says that it can succeed only under a new task id.
	Renumber bool `json:"renumber,omitempty"`
}

// Room is how full the list is.
type Room struct {
	WalkAt time.Time `json:"walkAt,omitzero"` // zero: it was not read yet
	Rows   int       `json:"rows"`
	Limit  int       `json:"limit,omitempty"` // see [Board.RowLimit]
}

// SummaryOf sums a view up, with the reasons of at most so many failed files.
func SummaryOf(v *View, reasons int) *Summary {
	problems := v.Problems()
	s := &Summary{
		Dir: v.Dir, Health: Health(problems), Findings: []explain.Told{},
		Inbox: v.Inbox.Waiting, Oldest: v.Inbox.Oldest.UTC(), Failed: len(v.Inbox.Failed), Reasons: []Reason{}, Agents: []AgentSummary{},
		Board: Room{WalkAt: v.Board.WalkAt.UTC(), Rows: v.Board.Count, Limit: v.RowLimit()}, Tasks: map[pipeline.Status]int{},
	}
	for _, f := range problems {
		s.Findings = append(s.Findings, explain.Tell(f, v.Now))
	}
	for _, f := range v.Failures(reasons) {
		s.Reasons = append(s.Reasons, reasonOf(f))
	}
	for _, c := range v.Components {
		s.Components = append(s.Components, summaryOf(&c))
	}
	counts := map[*pipeline.Agent]map[pipeline.Status]int{}
	s.Queue = InSharedQueue(v)
	for i := range v.Agents {
		a := &v.Agents[i]
		counts[a] = map[pipeline.Status]int{}
		its := AgentSummary{Name: a.Name, Tasks: counts[a]}
		if !a.Person {
			its.Trigger = a.Trigger
		}
		troubles := pipeline.Map(v.AgentProblems(a), func(f explain.Finding) string { return explain.Line(&f, v.Now) })
		its.Trouble = strings.Join(troubles, "; ")
		s.Agents = append(s.Agents, its)
	}
	for _, t := range v.Tasks() {
		s.Tasks[t.Status()]++
		if t.Agent != nil {
			counts[t.Agent][t.Status()]++
		}
	}
	return s
}

// InSharedQueue counts the tasks that any agent may claim.
func InSharedQueue(v *View) int {
	queue := v.read(core.Filter{Live: true, Agent: pipeline.SharedQueue})
	return len(pipeline.Filter(queue, func(t *core.Task) bool { return core.Claimable(t, v.Now) }))
}

func reasonOf(f Failure) Reason {
	if f.Err != nil {
		return Reason{Name: f.Name, Error: f.Err.Error()}
	}
	return Reason{
		Name: f.Name, TaskID: f.TaskID(), Class: f.Result.Class, Error: f.Result.Error, Hint: f.Result.Hint,
		Renumber: f.Result.Class == inbox.Conflict && f.Result.Inbox == inbox.NewTasks,
	}
}

func summaryOf(c *Component) ComponentSummary {
	s := ComponentSummary{ID: c.ID, State: c.State, Health: c.Health, Stays: c.Resident}
	if b := c.Beat; b != nil {
		s.LastRun, s.Result, s.Details, s.PID = b.LastRun, b.Result, b.Details, b.PID
	} else if c.Err != nil {
		s.Details = c.Err.Error()
	}
	return s
}
