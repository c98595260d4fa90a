package core

import (
	"strings"
)

// Kind is what sort of actor somebody is. The table of moves goes by it.
type Kind string

// The kinds of actors.
const (
	OTM     Kind = "otm"     // a component; its name is that of the program
	Agent   Kind = "agent"   // an AI agent
	Worker  Kind = "worker"  // a person to whom the task was given, reporting as an agent does
	Person  Kind = "person"  // a person on the board, on the page, or by a command
	Board   Kind = "board"   // somebody on the board, which does not say who
	Creator Kind = "creator" // who dropped the task
)

// Actor is who does something.
type Actor struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// agentPrefix comes before the name of an agent in texts.
const agentPrefix = "agent "

// String is the actor as histories show it: "agent devdas", "otm-injector", or
// the name of a person.
func (a Actor) String() string {
	switch {
	case a.Kind == Agent, a.Kind == Worker:
		return agentPrefix + a.Name
	case a.Name != "":
		return a.Name
	case a.Kind == Creator:
		return "otm-create"
	}
	return string(a.Kind)
}

// Component is the actor of a program of ours.
func Component(name string) Actor { return Actor{OTM, name} }

// ByAgent is the actor of an agent.
func ByAgent(name string) Actor { return Actor{Agent, name} }

// ByPerson is a person. Without a name, somebody on the board acted, and it does
// not say who.
func ByPerson(name string) Actor {
	if name == "" {
		return Actor{Kind: Board}
	}
	return Actor{Person, name}
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
