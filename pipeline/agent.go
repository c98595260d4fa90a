package pipeline

import "slices"

// Trigger is how an agent is woken.
type Trigger string

// The triggers.
const (
	TriggerGateway Trigger = "gateway" // over the OpenClaw gateway
	TriggerExec    Trigger = "exec"    // by starting a command
	TriggerNone    Trigger = "none"    // not at all: it looks by itself
)

// Source is where OTM knows an agent from.
type Source string

// The sources.
const (
	SourceOTM      Source = "otm.toml"
	SourceOpenClaw Source = "openclaw.json"
	SourceGateway  Source = "gateway" // its list of agents
)

// Agent is somebody who works on tasks.
type Agent struct {
	Name         string
	Label        string // on the board
	User         string // where the assignee column of the board holds people
	Person       bool   // never woken, never given a file
	Workspace    string // absolute; "" for persons
	Trigger      Trigger
	Command      []string // of TriggerExec
	GatewayAgent string   // at the gateway
	Source       Source
}

// SharedQueue stands in the place of an agent for a task that belongs to nobody: whichever
// agent asks for its next task claims it. No agent may be called so.
const SharedQueue = "queue"

// IsSharedQueue reports whether a name means the shared queue.
func IsSharedQueue(name string) bool { return FoldName(name) == SharedQueue }

// OneTask reports whether the agent works on one task at a time: it is one process, or one
// session at the gateway.
func (a *Agent) OneTask() bool {
	return !a.Person && (a.Trigger == TriggerExec || a.Trigger == TriggerGateway)
}

// Agents is everybody who is configured.
type Agents []Agent

// Named returns the agent with the given name; nil if none is.
func (as Agents) Named(name string) *Agent {
	folded := FoldName(name)
	return Find(as, func(a *Agent) bool { return FoldName(a.Name) == folded })
}

// Assigned returns the agent that an assignee on the board means: by label, by
// name or by user. Nil where none is.
func (as Agents) Assigned(assignee string) *Agent {
	folded := FoldName(assignee)
	if folded == "" {
		return nil
	}
	if a := Find(as, func(a *Agent) bool { return FoldName(a.Label) == folded || a.User != "" && a.User == assignee }); a != nil {
		return a
	}
	return as.Named(assignee)
}

// Names returns the names, in the order of the configuration.
func (as Agents) Names() []string { return Map(as, func(a Agent) string { return a.Name }) }

// Nearest returns the name that the given one may be a misspelling of, for
// messages; "" if none looks like it. An agent that is told another's name
// would do the other's work.
func (as Agents) Nearest(name string) string {
	folded := Map(as.Names(), FoldName)
	if i := slices.Index(folded, Nearest(FoldName(name), folded)); i >= 0 {
		return as[i].Name
	}
	return ""
}
