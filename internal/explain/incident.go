package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// Condition groups findings into one incident: several findings may say the same thing in other
// words, or that it became worse.
type Condition struct {
	Err  string // its code in the specification, such as ERR-01; "": it is one of ours
	Kind string // in plain words
}

var (
	silent      = Condition{"ERR-01", "silent"}
	drift       = Condition{"ERR-05", "row changed by hand"}
	noWord      = Condition{"ERR-06", "wake not acknowledged"}
	severalOpen = Condition{"ERR-07", "several tasks at once"}
	wakeFails   = Condition{"ERR-08", "wake fails"}
	rejected    = Condition{"ERR-09", "rejected rests"}
	ghost       = Condition{"ERR-10", "unknown agent"}
	repeated    = Condition{"ERR-11", "step reported twice"}
	rework      = Condition{"ERR-12", "rework not begun"}
	full        = Condition{"", "list full"}
	rests       = Condition{"", "waits for a person"}
	rateLimit   = Condition{"", "rate limit"}
	gateway     = Condition{"", "gateway away"}
	boardAway   = Condition{"", "board away"}
	dead        = Condition{"", "component dead"}
	failing     = Condition{"", "component failing"}
	unwritten   = Condition{"", "effect failing"}
)

// CauseBoard is the argument "cause" of what fails because the board is out of reach.
const CauseBoard = "board"

// Specified are the conditions of the specification, ERR-01 to ERR-12. ERR-02 to ERR-04 cannot
// occur, because the state of an agent follows from its tasks.
var Specified = []Condition{
	silent, {"ERR-02", "busy without a task"}, {"ERR-03", "idle with a task at work"}, {"ERR-04", "idle while a task waits"}, drift,
	noWord, severalOpen, wakeFails, rejected, ghost, repeated, rework,
}

// conditions are those that have more than one finding, or a code of the specification.
var conditions = map[Code]Condition{
	TaskQuiet: silent, TaskSilent: silent, TaskSilentLong: silent, ProcessSilent: silent, ProcessSilentLong: silent, ProcessHolds: silent,
	WakeUnheard: noWord, WakeFailed: wakeFails, WakeBarred: wakeFails, WakeUnknown: wakeFails,
	AgentSeveral: severalOpen, AgentLimited: rateLimit, ReworkQuiet: rework, TaskNoAgent: ghost, RowNoAgent: ghost,
	TaskRests: rests, TaskRestsLong: rests, ListFull: full, ListFullAt: full, ListNearlyFull: full, GatewayDown: gateway, GatewayRefusing: gateway,
	TokenRefused: boardAway, ListReadOnly: boardAway,
	ComponentUnknown: dead, ComponentStands: dead, ComponentNever: dead, ComponentAhead: dead, ComponentLate: dead, ComponentEnded: dead,
	ComponentFailing: failing, ComponentStuck: failing,
	EffectFails: unwritten, EffectWaits: unwritten, EffectsFail: unwritten, EffectsWait: unwritten, EffectUndelivered: unwritten,
}

// Condition returns the condition of a finding. A finding without a group is a condition of its
// own, named by its code.
func (f *Finding) Condition() Condition {
	if (f.Code == TaskRests || f.Code == TaskRestsLong) && f.Args["status"] == "rejected" {
		return rejected
	}
	if f.Args["cause"] == CauseBoard {
		return boardAway
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

// Key tells the conditions of findings apart. It never comes from a sentence.
func (f *Finding) Key() string {
	switch kind := f.Condition().Kind; {
	case kind == boardAway.Kind, f.Code == ComponentOldConfig: // of several components
		return kind
	case f.Args["sink"] != "": // of several tasks
		return kind + " " + f.About()
	default:
		return fmt.Sprint(kind, " ", f.Task, " ", f.About())
	}
}
