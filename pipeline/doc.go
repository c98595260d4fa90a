// Package pipeline holds the words of OTM: tasks, steps, statuses, priorities and rows,
// and the rules about them that need no file and no network.
//
// The vocabulary, the same in code, commands, logs, files and documents:
//
//	task      something to do, T-00035; one row on the board
//	step      one part of a task, which its agent reports as done; "subtask" in files and flags
//	agent     who receives tasks: a program, or a person
//	drop      a JSON file in an inbox: a create or an update
//	inbox     new-tasks/ or task-updates/, the folders where drops arrive
//	turn      of agents and tasks: whose file the injector handles next
//	park      of a drop: to bring its task to the board as blocked
//	settle    to move a drop to processed/ or failed/, with its result
//	board     the Slack List, or the embedded board
//	row       an item of the board: a task, or a step below it
//	walk      one complete read of the board
//	snapshot  the rows of the last walk, with our own writes since
//	stale     of a snapshot or status: older than a write that it should show
//	command   a request to the engine; its id makes repeats harmless
//	move      a change of a task's status; package core has the table of all
//	event     what happened; events are the truth
//	state     what the events say of a task or an agent now
//	effect    something that a sink does not show as the state says; kept in the outbox
//	sink      where effects go: the board, the dispatch files, the renderings
//	rendering tasks/T-00035.json, for otm-create and otm-update to check against
//	drift     what the board shows and nobody meant
//	finding   what a check says of the state of things, with a code and a next step
//	incident  a finding that held for a while, from its opening to its close
//	outlet    where people are told: a chat, a channel, a webhook or a command
//	audit     the threads in a Slack channel that mirror the events of tasks
//	loss      a person or a reviewer took a task from its agent, which is to be told
//	sweep     one run of the injector over the inboxes
//	pass      one run of the dispatcher or the completion detector over the board
//	adopt     to make a task of a row that a person typed
//	dispatch  to hand a task out to its agent: it becomes assigned
//	entry     a task in a dispatch file
//	wake      to start an agent, or to send it a prompt over the gateway
//	take      what an agent does to an entry, by otm next
//	run       one attempt of a task, numbered from 1: it begins when its agent takes the
//	          task; of an agent: what follows a wake, its process or its run at the gateway
//	retry     a run after a failed one; of a drop: otm retry puts it back into its inbox
//	dead letter  a task at failed, for which no retry is left
//	dormant   of a task: a person set it aside
//	pause     of an agent: a person, or OTM after failures, keeps it from being started
//	attempt   the number of a task's dispatches and wakes; it makes keys unique
//	report    an update by an agent
//	message   what somebody says in the thread of a task; it changes no status
//	thread    the part of a task's history that somebody wrote
//	token     the secret with which a person or a program acts by commands; it has a role
//	reviewer  an agent that may accept, reject and steer the tasks of others
//	beat      one writing of a component's heartbeat file
//	finding   something that was found, as data: a code and its arguments
//	view      what readers know of a directory and its board, read at once
//	health    one judgement of a component, or of all: green, yellow or red
//	registry  what each agent is doing, as otm agents shows it
//	resident  a component that stays, in contrast to a single run
//	conflict  of a drop: it contradicts what stands; it fails and says so
//
// The package reads no clock, no file and no environment.
package pipeline
