package pipeline

import "slices"

// Status is the state of a task, or of a step, on the board.
type Status string

// The states of a task. docs/state-machine.md lists the moves, and who may make them.
const (
	New        Status = "new"         // on the board, nobody was told
	Assigned   Status = "assigned"    // in its agent's dispatch file, or a person's
	Pending    Status = "pending"     // waits behind another task of its agent, or for its next run; OTM alone sets it
	InProgress Status = "in_progress" // the agent took it
	Blocked    Status = "blocked"     // the agent cannot go on; Reason says why
	AgentDone  Status = "agent_done"  // the agent's part is done; somebody reviews
	Done       Status = "done"        // accepted, or of a type that needs no review
	Rejected   Status = "rejected"    // reviewed, and not good enough
	Failed     Status = "failed"      // a dead letter: ended without success, and nobody retries it
	Cancelled  Status = "cancelled"   // no longer wanted
	Dormant    Status = "dormant"     // a person set it aside
	Archived   Status = "archived"    // a person put it away
)

// Statuses lists every state in the order of a task's life.
var Statuses = []Status{New, Assigned, Pending, InProgress, Blocked, AgentDone, Done, Rejected, Failed, Cancelled, Dormant, Archived}

// ParseStatus reads a state from a label: "In Progress" is in_progress.
func ParseStatus(label string) (Status, bool) {
	s := Status(FoldName(label))
	return s, slices.Contains(Statuses, s)
}

// Instead is what a board shows in place of a status for which it has no option; the
// status itself: nothing can stand for it.
func (s Status) Instead() Status {
	switch s {
	case Dormant:
		return Pending
	case Pending:
		return New
	}
	return s
}

// Active reports whether an agent still has to do something: the task was handed
// out and is not finished.
func (s Status) Active() bool { return s == Assigned || s == InProgress || s == Blocked }

// NeedsAgent reports whether a task in this state is work that an agent has or is to get.
func (s Status) NeedsAgent() bool { return s == New || s == Pending || s.Active() }

// Finished reports whether agents have nothing more to do with the task, until somebody
// sends it back.
func (s Status) Finished() bool {
	switch s {
	case AgentDone, Done, Rejected, Failed, Cancelled, Archived:
		return true
	}
	return false
}

// Over reports whether a task in this state needs nobody any more.
func (s Status) Over() bool { return s == Done || s == Cancelled || s == Archived }

// StepDone reports whether a step in this state counts as done.
func (s Status) StepDone() bool { return s == AgentDone || s == Done }

// Reportable lists the states that an update may set.
var Reportable = []Status{InProgress, Blocked, AgentDone, Failed}

// WhoSets says who sets a state that updates may not, for messages.
func WhoSets(s Status) string {
	switch s {
	case New:
		return "a task is new when it comes onto the board, or when somebody sends it back"
	case Assigned:
		return "the dispatcher sets assigned when it hands the task out"
	case Pending:
		return "OTM sets pending while a task waits for its next run"
	case Done:
		return "a person or a reviewing agent sets done, after review"
	case Rejected, Cancelled:
		return "a person or a reviewing agent sets " + string(s)
	default:
		return "a person sets " + string(s)
	}
}
