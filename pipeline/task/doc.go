// Package task keeps what OTM knows of each task: one record a task. It is the
// only writer of tasks/.
//
// # Files
//
//	tasks/T-00035.json    one record
//	locks/task-T-00035    the record's lock
//
// # Records
//
// A record is written before each outside effect, to say that it is attempted,
// and after it, to say that it happened. After a crash it may be behind the
// board, never ahead of it: an effect that it has happened, one that it has as
// attempted may have. The next process asks the board. Effects that are derived
// from the board alone are not recorded before: they come out the same again.
// A record is changed under its lock, by reading it again and replacing the file.
// The lock is never held over a network call.
package task
