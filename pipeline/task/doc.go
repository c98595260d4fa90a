// Package task keeps what OTM knows of each task: the counter that gives out ids,
// the keys that make a create unique, and one record a task. It is the only
// writer of next-task-id.json, keys/ and tasks/.
//
// # Files
//
//	next-task-id.json     {"next":36}, the next id to give out
//	locks/next-task-id    the counter's lock; its note is a copy of the counter
//	keys/<sha256>.json    one key of otm-create --key
//	tasks/T-00035.json    one record
//	locks/task-T-00035    the record's lock
//
// # The counter
//
// An id is durable in the counter before it is given out, so an id that was
// printed is never given out again. The note in the lock file is a second copy
// without fsync. It helps when a person or a restore sets the counter back, not
// after a power failure. The highest of counter, note and ids in use wins.
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
