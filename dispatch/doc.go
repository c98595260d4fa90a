// Package dispatch hands tasks to their agents: it writes each into the dispatch
// file of the agent's workspace, flips it to assigned on the board, and wakes the
// agent.
//
// # Files
//
//	<workspace>/task-dispatch.json   what the agent sees
//	<workspace>/agent-state.json     what "otm next" says of the agent
//	agent-states/<agent>.json        how the agent's last runs ended (AgentState)
//	locks/dispatch-<device>-<inode>  held while the dispatch file of a workspace is changed
//	locks/exec-<agent>               held for the life of a started agent
//	tasks/                           what OTM knows of tasks (package pipeline, Record)
//
// # Order
//
//	record: dispatch begun, with its attempt
//	file:   the entry, durable
//	record: the entry stands
//	board:  new to assigned, with assigned_at
//	record: flipped
//	record: the wake, with its key
//	gateway or child: the wake
//	record: accepted
//
// The file comes first, so that an agent that is woken finds its task. The flip
// comes before the wake, so that a crash never wakes twice. After a crash at any
// point the next pass reads the record and continues behind the last step that is
// noted. A step that is repeated changes nothing: task and attempt name the entry,
// the cell has the value, and the wake has its key.
//
// A task that is new after its flip is dispatched again, with the next attempt. So
// is one that a person gave to another agent or set back to assigned.
//
// # The record is the truth
//
// Agents and people may do to a dispatch file what they like. OTM reads it again,
// merges, and replaces it; what OTM did not write stays as it stands. An entry that
// vanished without a report is put back. A file that is not JSON is set aside and
// written anew.
//
// # Clocks
//
// Times in records are of the wall clock, as they outlive the process. A time ahead
// of the clock was written before the clock was set back. It ends every wait that
// it would prolong beyond the wait's own length, and counts as earlier than all that
// happened since.
//
// # Waking
//
// A wake costs model tokens, and a woken agent takes one task after the other. So
// an agent has at most one wake outstanding. plan.go has the rules for the next
// one; it is pure.
//
// # Runs
//
// A run is one process of an exec agent, or one run at the gateway. When it ends
// without progress, the pause before the next one grows, and after three in a row
// the agent is left alone but for a probe every half hour. judge.go finds out that
// a run ended, and agentstate.go what follows.
//
// # A pass
//
// The parts of a pass are types of their own, which share a run (run.go): reader,
// adopter, departures, handout, keeper, waking.
package dispatch
