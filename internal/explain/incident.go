package explain

import (
	"cmp"
	"strings"
)

// Condition is what a finding says is wrong, as far as that tells incidents apart: several
// findings may say the same thing in other words, or that it became worse.
type Condition struct {
	Err  string // its code in the specification, such as ERR-01; "": it is one of ours
	Kind string // in plain words
}

var (
	silent    = Condition{"ERR-01", "silent"}
	noWord    = Condition{"ERR-06", "wake not acknowledged"}
	wakeFails = Condition{"ERR-08", "wake fails"}
	rejected  = Condition{"ERR-09", "rejected rests"}
	ghost     = Condition{"ERR-10", "unknown agent"}
	full      = Condition{"", "list full"}
	rests     = Condition{"", "waits for a person"}
	gateway   = Condition{"", "gateway away"}
	boardAway = Condition{"", "board away"}
	dead      = Condition{"", "component dead"}
	failing   = Condition{"", "component failing"}
	unwritten = Condition{"", "effect failing"}
)

// conditions are those that have more than one finding, or a code of the specification.
var conditions = map[Code]Condition{
	TaskQuiet: silent, TaskSilent: silent, TaskSilentLong: silent, ProcessSilent: silent, ProcessSilentLong: silent, ProcessHolds: silent,
	WakeUnheard: noWord, WakeFailed: wakeFails, WakeBarred: wakeFails, WakeUnknown: wakeFails,
	TaskNoAgent: ghost, RowNoAgent: ghost,
	TaskRests: rests, TaskRestsLong: rests, ListFull: full, ListFullAt: full, ListNearlyFull: full, GatewayDown: gateway, GatewayRefusing: gateway,
	TokenRefused: boardAway, ListReadOnly: boardAway,
	ComponentUnknown: dead, ComponentNever: dead, ComponentAhead: dead, ComponentLate: dead, ComponentEnded: dead,
	ComponentFailing: failing, ComponentStuck: failing,
	EffectFails: unwritten, EffectWaits: unwritten, EffectsFail: unwritten, EffectsWait: unwritten, EffectUndelivered: unwritten,
}

// Condition returns what the finding says is wrong. One that is of no group is a condition
// of its own, which its code names.
func (f *Finding) Condition() Condition {
	if (f.Code == TaskRests || f.Code == TaskRestsLong) && f.Args["status"] == "rejected" {
		return rejected
	}
	if c, ok := conditions[f.Code]; ok {
		return c
	}
	return Condition{Kind: strings.ReplaceAll(string(f.Code), "_", " ")}
}

// About is the agent, the component or the sink that the finding concerns, or the file; "":
// none.
func (f *Finding) About() string {
	return cmp.Or(f.Args["agent"], f.Args["component"], f.Args["sink"], f.Args["file"], f.Args["path"], f.Args["outlet"])
}
