// Package core decides. It is the one owner of what a task, its wakes and its
// agent are, and it is pure: no clock, no file, no SQL, no network.
//
// Everybody who wants something changed makes a Command. Decide checks the
// command against the state and the table of moves (moves.go), and returns
// events, or a *Refused that says why. Apply changes the state by an event, and
// nothing else changes it: live and in a rebuild. Package store keeps events
// and states in a database, in one transaction.
//
//	moves.go     who may move a task from which status to which
//	request.go   a drop, or a row that a person typed, becomes a task
//	report.go    what an agent reports
//	person.go    what a person changed on the board or the page
//	say.go       messages on a task
//	handout.go   tasks are handed out, taken, promoted, archived
//	wake.go      agents are woken
//	run.go       runs end, and the next one follows
//	loss.go      agents at the gateway are told of tasks that they lost
//	agent.go     what the runs of an agent add up to
//	incident.go  something wrong, from when it was found until it is over
//	apply.go     the effect of each event
//	shown.go     what the board is to show, and what it showed last
package core
