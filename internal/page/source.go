package page

import (
	"context"

	"otm/internal/view"
	"otm/pipeline"
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

// State is what the page shows.
type State struct {
	Rest
	Tasks []view.Card `json:"cards"`
}

// Rest is a state without its tasks. It is small, so a page gets all of it
// when a part has changed.
type Rest struct {
	view.Summary
	Statuses   []pipeline.Status   `json:"statuses"`
	Priorities []pipeline.Priority `json:"priorities"`
	Types      []pipeline.Type     `json:"types"`
	Commands   []Command           `json:"commands"`
	Registry   []view.Registered   `json:"registry"` // the agents, and what they are doing
	// Live says that the page shows the present, and not what a walk found.
	Live bool `json:"live"`
	// CreateCommand is the command that makes a task, for an empty board. "": no
	// agent is configured yet; the file ConfigPath takes one.
	CreateCommand string `json:"createCommand"`
	ConfigPath    string `json:"configPath"`
}

// Command is what a person may do with a task by a command, which has a button.
type Command struct {
	Name     string            `json:"name"`
	From     []pipeline.Status `json:"from"`               // the statuses in which it may be done
	Reason   string            `json:"reason,omitempty"`   // what to write with it; "": nothing
	Optional bool              `json:"optional,omitempty"` // Reason may be left out
	Steps    bool              `json:"steps,omitempty"`    // it may add and remove steps
	Resets   bool              `json:"resets,omitempty"`   // it may restart the count of failed runs
}

// Detail is what the view of one task shows beside its card.
type Detail struct {
	Why     string      `json:"why"`            // why the task is where it is
	Next    string      `json:"next,omitempty"` // what to do about it
	Or      string      `json:"or,omitempty"`   // what may be done instead
	Body    string      `json:"body,omitempty"` // what its agent is to know beside the title
	History []view.Line `json:"history"`
	Log     *Log        `json:"log,omitempty"`
}

// Log is the end of what the process of a run has printed. The agent wrote it: it is
// untrusted.
type Log struct {
	Run   int    `json:"run"`
	Path  string `json:"path"`
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"` // why there is no text
}

// Action is what a person asks for. Do names it and decides which other fields
// it needs:
//
//	create    Title Agent Priority Type Project Steps: drop a task
//	edit      Row, and those of Status Agent Priority Reason that are to change
//	tick      Row of a step, Done
//	a Command Row, Reason, Reset, Steps to add, Drop: what the command of this name does
//	pause, resume
//	          Agent: what the commands of these names do
//	say       Row, Text: a message on a task
//	retry     Name of a failed file, NewID: put it back into its inbox
type Action struct {
	Do string `json:"do"`

	Row      string   `json:"row,omitempty"`
	Status   string   `json:"status,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Priority string   `json:"priority,omitempty"`
	Done     bool     `json:"done,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Text     string   `json:"text,omitempty"`
	Name     string   `json:"name,omitempty"`
	NewID    bool     `json:"newId,omitempty"`
	Title    string   `json:"title,omitempty"`
	Type     string   `json:"type,omitempty"`
	Project  string   `json:"project,omitempty"`
	Steps    []string `json:"steps,omitempty"`
	Drop     []string `json:"drop,omitempty"` // numbers of steps to remove
	Reset    bool     `json:"reset,omitempty"`
}

// Answer is the result of an action.
type Answer struct {
	ID   string `json:"id,omitempty"`   // of a task that was created
	Text string `json:"text,omitempty"` // what came of it
}
