package page

import (
	"context"
	"time"
)

// Source is where the page's data comes from, and where edits go.
type Source interface {
	// State returns all that the page shows.
	State(ctx context.Context) (*State, error)
	// Detail returns the history of the task of a row.
	Detail(ctx context.Context, row string) (*Detail, error)
	// Do carries out what a person asked for. The error is a *Refusal if the
	// person can do something about it.
	Do(ctx context.Context, a Action) (*Answer, error)
}

// Refusal is why something that a person asked for was not done.
type Refusal struct {
	Reason string
	Hint   string
}

func (r *Refusal) Error() string { return r.Reason }

// State is what the page shows. No slice in it is nil.
type State struct {
	Rest
	Tasks []Task `json:"tasks"`
}

// Rest is a state without its tasks. It is small, so a page gets all of it
// when a part has changed.
type Rest struct {
	Statuses   []string    `json:"statuses"`
	Priorities []string    `json:"priorities"`
	Types      []string    `json:"types"`
	Agents     []Agent     `json:"agents"`
	Health     Health      `json:"health"`
	Components []Component `json:"components"`
	Waiting    Waiting     `json:"waiting"`
	Failed     []Failed    `json:"failed"`
	Room       Room        `json:"room"`
	// CreateCommand is the command that makes a task, for an empty board. "": no
	// agent is configured yet; the file ConfigPath takes one.
	CreateCommand string `json:"createCommand,omitempty"`
	ConfigPath    string `json:"configPath,omitempty"`
}

// Agent is an agent or a person who can have tasks.
type Agent struct {
	Name   string `json:"name"`
	Person bool   `json:"person"`
}

// Task is a card.
type Task struct {
	ID        string    `json:"id"` // "": a row that a person typed has none yet
	Row       string    `json:"row"`
	Title     string    `json:"title"`
	Status    string    `json:"status"`
	Agent     string    `json:"agent"`
	Priority  string    `json:"priority"`
	Type      string    `json:"type,omitempty"`
	Project   string    `json:"project,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Result    string    `json:"result,omitempty"`
	Steps     []Step    `json:"steps"`
	Events    int       `json:"events,omitempty"` // length of the history: when it grows, the page reads it again
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Step is a step of a task.
type Step struct {
	Row string `json:"row"`
	// Number is the one that otm-update takes. 0: the step has none yet, because a
	// person has just added it on the board.
	Number int    `json:"number,omitempty"`
	Title  string `json:"title"`
	Done   bool   `json:"done"`
}

// Health is the judgement of the whole directory, as otm status gives it.
type Health struct {
	State    string    `json:"state"` // green, yellow or red; green only without problems
	Problems []Problem `json:"problems"`
}

// Problem is something that is wrong.
type Problem struct {
	Text string `json:"text"`
	Next string `json:"next,omitempty"` // what to do or to run
}

// Component is one component's health.
type Component struct {
	ID      string     `json:"id"`
	State   string     `json:"state"`
	LastRun *time.Time `json:"lastRun,omitempty"`
	Result  string     `json:"result,omitempty"`
	Details string     `json:"details,omitempty"`
}

// Waiting counts the files in the inboxes and in failed/.
type Waiting struct {
	NewTasks int `json:"newTasks"`
	Updates  int `json:"updates"`
	Failed   int `json:"failed"` // all of them; Rest.Failed holds the newest
}

// Failed is a drop that failed.
type Failed struct {
	Name   string `json:"name"`
	TaskID string `json:"taskId,omitempty"`
	Error  string `json:"error"`
	Class  string `json:"class"`
	Hint   string `json:"hint,omitempty"`
	// Renumber says that it can succeed only under a new task id.
	Renumber bool `json:"renumber,omitempty"`
}

// Room is how full the list is.
type Room struct {
	Rows  int `json:"rows"`
	Limit int `json:"limit,omitempty"`
	// Live says that the page shows the present. Otherwise it shows a snapshot as
	// of WalkAt; nil: the list was not read yet.
	Live   bool       `json:"live"`
	WalkAt *time.Time `json:"walkAt,omitempty"`
}

// Detail is what the view of one task shows beside its card.
type Detail struct {
	Why     string  `json:"why"`            // why the task is where it is
	Next    string  `json:"next,omitempty"` // what to do about it
	History []Event `json:"history"`
}

// Event is one thing that happened to a task.
type Event struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
}

// Action is what a person asks for. Do names it and decides which other fields
// it needs:
//
//	create    Title Agent Priority Type Project Steps: drop a task
//	edit      Row, and those of Status Agent Priority Reason that are to change
//	tick      Row of a step, Done
//	approve   Row: a task at agent_done becomes done
//	sendback  Row, Reason: a task at agent_done or blocked becomes new; at
//	          blocked, Reason answers the agent's question
//	retry     Name of a failed file, NewID: put it back into its inbox
type Action struct {
	Do string `json:"do"`

	Row      string   `json:"row,omitempty"`
	Status   string   `json:"status,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Priority string   `json:"priority,omitempty"`
	Done     bool     `json:"done,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Name     string   `json:"name,omitempty"`
	NewID    bool     `json:"newId,omitempty"`
	Title    string   `json:"title,omitempty"`
	Type     string   `json:"type,omitempty"`
	Project  string   `json:"project,omitempty"`
	Steps    []string `json:"steps,omitempty"`
}

// Answer is the result of an action.
type Answer struct {
	ID string `json:"id,omitempty"` // of a task that was created
}
