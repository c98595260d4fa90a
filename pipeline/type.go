package pipeline

import (
	"maps"
	"slices"
	"time"
)

// Type is the kind of work that a task asks for.
type Type string

// The types of a task that need no configuration.
const (
	Action   Type = "action"   // do something
	Decision Type = "decision" // decide something
	Review   Type = "review"   // review or approve something
)

// TypeRules are the rules of otm.toml for tasks of one type.
type TypeRules struct {
	Review     bool // a person or a reviewer accepts the result
	MaxRetries int  // how many runs may follow failed ones
	// MaxRuntime ends a run that OTM can stop, see Runtime; nil: the default.
	MaxRuntime *time.Duration
	// ReclaimAfter is the silence after which OTM takes a task from its agent, whether
	// or not its run goes on; 0: never.
	ReclaimAfter time.Duration
	// Silence is how long nothing is heard of a task until each rung is reached. A rung
	// that it does not have is never reached.
	Silence []time.Duration
}

// Rung is how far the silence on a task has come.
type Rung int

// The rungs.
const (
	RungShown Rung = iota + 1 // it is shown
	RungAsked                 // an agent at the gateway is woken once
	RungLate                  // the agents that may review are told
	RungLong                  // also for people, and for a task that waits for a review or an answer
	RungLast
)

// DefaultTypeRules are those of a type without a table in otm.toml.
var DefaultTypeRules = TypeRules{
	Review: true, MaxRetries: 3, Silence: []time.Duration{10 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour, 72 * time.Hour},
}

// RungAfter is the silence that reaches a rung; false: none does.
func (r TypeRules) RungAfter(rung Rung) (time.Duration, bool) {
	if int(rung) > len(r.Silence) {
		return 0, false
	}
	return r.Silence[rung-1], true
}

// defaultRuntime is how long a run may last where otm.toml does not say.
const defaultRuntime = 24 * time.Hour

// Runtime is how long a run may last that OTM can stop; 0: without limit.
func (r TypeRules) Runtime() time.Duration {
	if r.MaxRuntime == nil {
		return defaultRuntime
	}
	return *r.MaxRuntime
}

// Types are the types with a table in otm.toml, by their folded names.
type Types map[Type]TypeRules

// Rules returns the rules of a type.
func (ts Types) Rules(t Type) TypeRules {
	if rules, ok := ts[t]; ok {
		return rules
	}
	return DefaultTypeRules
}

// All returns the types that a task may have, the built-in ones first.
func (ts Types) All() []Type {
	all := []Type{Action, Decision, Review}
	for _, t := range slices.Sorted(maps.Keys(ts)) {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// Has reports whether a task may have the type.
func (ts Types) Has(t Type) bool { return slices.Contains(ts.All(), t) }

// ParseType reads a type from a flag or a label. Types.Has reports whether it exists.
func ParseType(label string) (Type, bool) { return Type(FoldName(label)), ValidAgentName(label) }
