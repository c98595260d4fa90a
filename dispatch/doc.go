// Package dispatch hands tasks to their agents: it writes them into the
// dispatch file of the agent's workspace, flips them to assigned on the board,
// and wakes the agent.
//
// # Files
//
//	<workspace>/task-dispatch.json   what the agent sees
//	<workspace>/agent-state.json     what "otm next" says of the agent
//	locks/dispatch-<hash>            held while a dispatch file is changed
//	locks/exec-<agent>               held for the life of a started agent
//	tasks/                           what OTM knows (package pipeline, Record)
//
// # Order
//
//	record: dispatch begun, with its attempt
//	file:   the entry, durable
//	record: the entry stands, the flip is asked for
//	board:  new to assigned, with assigned_at
//	record: flipped
//	record: the wake, with its key
//	gateway or child: the wake
//	record: accepted
//
// The file comes first, so that an agent that is woken finds its task; the
// flip comes before the wake, so that a crash never wakes twice. If we crash
// anywhere, the next pass reads the record and goes on behind the last step
// that is noted; a step that is repeated changes nothing: the entry is known
// by task and attempt, the cell has the value, and the wake has its key.
//
// A task that is new after its flip is handed out again, with the next attempt;
// so is one that a person gave to another agent or set back to assigned,
// whatever its state was.
//
// # The record is the truth
//
// Agents and people may do to a dispatch file what they like. It is read
// again, merged and replaced, and what OTM did not write stays in it, as it
// stands. An entry that vanished without a word from the agent is put back; a
// file that is not JSON is set aside and written anew.
//
// # Clocks
//
// Times in records are of the wall clock, as they outlive the process. What is
// ahead of the clock was written before it was set back: it ends every wait
// that it would prolong beyond the wait's own length, and comes before all that
// happened since.
//
// # Waking
//
// A wake costs model tokens, and an agent that was woken takes one task after
// the other. So an agent has at most one wake outstanding; plan.go has the
// rules for when it gets another.
package dispatch
