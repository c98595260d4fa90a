package core

import (
	"strings"

	"otm/pipeline"
)

// Kind is what sort of actor somebody is. The table of moves goes by it.
type Kind string

// The kinds of actors.
const (
	OTM    Kind = "otm"    // a component; its name is that of the program
	Agent  Kind = "agent"  // an AI agent
	Worker Kind = "worker" // a person to whom the task was given, reporting as an agent does
	Person Kind = "person" // a person on the board, on the page, or by a command
	Board  Kind = "board"  // somebody on the board, which does not say who
	// Reviewer is an AI agent that [review] agents of otm.toml names: it reviews and
	// steers the tasks of others.
	Reviewer Kind = "reviewer"
	Creator  Kind = "creator" // who dropped the task
)

// Actor is who does something.
type Actor struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
	// Via is the person who reported in the agent's name; "": the agent did, as far as is known.
	Via string `json:"via,omitempty"`
}

// The prefixes of agents' names in texts.
const (
	agentPrefix    = "agent "
	reviewerPrefix = "reviewer "
)

// String is the actor as histories show it: "agent devdas", "reviewer archibald",
// "otm-injector", or the name of a person.
func (a Actor) String() string {
	switch {
	case a.Via != "":
		return agentPrefix + a.Name + " (by " + a.Via + ")"
	case a.Name != "" && (a.Kind == Agent || a.Kind == Worker):
		return agentPrefix + a.Name
	case a.Kind == Reviewer:
		return reviewerPrefix + a.Name
	case a.Name != "":
		return a.Name
	case a.Kind == Creator:
		return "otm-create"
	}
	return string(a.Kind)
}

// Component is the actor of a program of ours.
func Component(name string) Actor { return Actor{Kind: OTM, Name: name} }

// ByAgent is the actor of an agent.
func ByAgent(name string) Actor { return Actor{Kind: Agent, Name: name} }

// ByReviewer is the actor of an agent that acts as a reviewer.
func ByReviewer(name string) Actor { return Actor{Kind: Reviewer, Name: name} }

// ByPerson is a person. Without a name, somebody on the board acted, and it does
// not say who.
func ByPerson(name string) Actor {
	if name == "" {
		return Actor{Kind: Board}
	}
	return Actor{Kind: Person, Name: name}
}

// ActorNamed reads the text of String, as records before the engine hold it.
func ActorNamed(who string) Actor {
	name, agent := strings.CutPrefix(who, agentPrefix)
	switch {
	case agent:
		return ByAgent(name)
	case who == "otm-create":
		return Actor{Kind: Creator}
	case strings.HasPrefix(who, "otm"):
		return Component(who)
	case who == "board":
		return Actor{Kind: Board}
	}
	return ByPerson(who)
}

// isPerson reports whether a human acted outside of an agent's role: every move
// is open to him.
func (a Actor) isPerson() bool { return a.Kind == Person || a.Kind == Board }

// ownTask reports whether the actor is a reviewer, and has the task or has worked on it.
func (a Actor) ownTask(t *Task) bool {
	_, worked := t.Heard[pipeline.FoldName(a.Name)]
	return a.Kind == Reviewer && (worked || SameAgent(a.Name, t.Agent))
}
