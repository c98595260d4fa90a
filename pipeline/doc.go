// Package pipeline holds the words of OTM: what a task is, which states it
// has, and which moves between them are allowed.
//
// The vocabulary, the same in code, commands, logs, files and documents:
//
//	drop      a JSON file as it was delivered in an inbox: a create or an update
//	settle    to give a drop its last place, in processed/ or failed/
//	record    what OTM knows of one task, a file in tasks/
//	board     the Slack List, or the embedded board
//	row       an item of the board; a task is a row, each of its steps a row below it
//	step      one part of a task, which an agent reports as done; "subtask" in files and flags
//	snapshot  the rows of the last complete walk over the board
//	sweep     one look through the inboxes by the injector
//	pass      one look over the board by the dispatcher or the completion detector
//	dispatch  to write a task into its agent's dispatch file and flip it to assigned
//	wake      to tell an agent that something waits
//	take      what an agent does to an entry of its dispatch file
//	attempt   the count of dispatches and wakes of a task
//	beat      one writing of a component's heartbeat file
//
// The package is pure: it reads no clock, no file and no environment.
package pipeline
