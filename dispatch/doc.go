// Package dispatch hands tasks to their agents: it writes each into the dispatch
// file of the agent's workspace, flips it to assigned on the board, and wakes the
// agent.
//
// # Files
//
//	<workspace>/task-dispatch.json   the agent's tasks, for the agent
//	<workspace>/agent-state.json     whether the agent works or is idle, by "otm next"
//	agent-states/<agent>.json        how the agent's last runs ended (AgentState)
//	locks/dispatch-<device>-<inode>  held while the dispatch file of a workspace is changed
//	locks/exec-<agent>               held for the life of a started agent
//	locks/execgroup-<agent>          the same; its children inherit it (group.go)
//	tasks/                           the records of tasks (package pipeline, Record)
//
// # Order
//
//	record: dispatch begun, with its attempt
//	file:   the entry, durable
//	record: the entry is written
//	board:  new to assigned, with assigned_at
//	record: flipped
//	record: the wake, with its key
//	gateway or child: the wake
//	record: accepted
//
// The file comes first, so that a woken agent finds its task. The flip comes
// before the wake, so that a crash never wakes twice. After a crash the next pass
// reads the record and continues after the last step noted there. Each step is
// idempotent: task and attempt identify the entry, the cell already has its value,
// and the wake has its key.
//
// OTM dispatches a task again, with the next attempt, if it is new after its flip,
// or if a person gave it to another agent or set it back to assigned.
//
// # The record is the truth
//
// Agents and people may change a dispatch file as they like. OTM reads it again,
// merges, and replaces it, and keeps what others wrote. It puts back an entry that
// vanished without a report. It sets aside a file that is not JSON, and writes a
// new one.
//
// # Clocks
//
// Records hold wall clock times, as they outlive the process. A time ahead of the
// clock was written before the clock was set back. Such a time never makes a wait
// longer than its own length, and it counts as earlier than all others.
//
// # Waking
//
// A wake costs model tokens, and a woken agent takes one task after the other. So
// an agent has at most one wake outstanding. plan.go decides about the next one;
// its functions are pure.
//
// # Runs
//
// A run is one process of an exec agent, or one run at the gateway. Each run in a
// row that ends without progress makes the pause before the next one longer. After
// three, OTM leaves the agent alone but for a probe every half hour. judge.go
// notices the end of a run, and agentstate.go decides what follows.
//
// # A pass
//
// The parts of a pass are types that share a run (run.go): reader, adopter,
// departures, handout, keeper, waking.
package dispatch
