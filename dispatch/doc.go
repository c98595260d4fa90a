// Package dispatch hands tasks to their agents: each gets an entry in the dispatch file
// of the agent's workspace, becomes assigned, and the agent is woken.
//
// # Files
//
//	<workspace>/task-dispatch.json   the agent's tasks, for the agent
//	<workspace>/agent-state.json     whether the agent works or is idle, by "otm next"
//	locks/dispatch-<device>-<inode>  held while the dispatch file of a workspace is changed
//	locks/exec-<agent>               held for the life of a started agent
//	locks/execgroup-<agent>          the same; its children inherit it (group.go)
//
// Tasks, wakes and the states of agents are in the store (package core).
//
// # Order
//
//	store:  handed out, and assigned
//	file:   the entry
//	board:  assigned, with assigned_at
//	store:  the wake is begun, with its key
//	gateway or child: the wake
//	store:  accepted
//
// A woken agent finds its task in the file, and people see it on the board: the outbox
// delivers entries before it writes the board, and a wake names only tasks that the
// board shows. A wake that we crashed in is sent again under its key.
//
// # Dispatch files
//
// Agents and people may change a dispatch file as they like. OTM reads it again,
// merges, and replaces it, and keeps what others wrote. It puts back an entry that
// vanished while nobody took the task. It sets aside a file that is not JSON, and
// writes a new one. A mark that somebody sets by hand means that the task is taken.
//
// # Clocks
//
// The store holds wall clock times, as they outlive the process. A time ahead of the
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
// notices the end of a run, and core.JudgeStart decides what follows.
//
// An agent at the gateway that lost a task to a person's command is told by a wake of
// its own, after its turns on that task were aborted (loss.go).
//
// # A pass
//
// The parts of a pass are types that share a run (dispatcher.go): handout, keeper, waking.
package dispatch
