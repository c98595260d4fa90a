// Package task keeps what OTM knows of each task: the counter that gives out
// ids, the keys that make a create unique, and one record a task. It is the
// only writer of next-task-id.json, keys/ and tasks/.
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
// that needs no fsync: it is for the day on which a person or a restore sets
// the counter back, not for a power failure. Where counter, note and the
// highest id found in the files disagree, the highest wins.
//
// # Records
//
// The record is written before each outside effect, to say that it is
// attempted, and after, to say that it happened. Not before those that are
// decided anew from the board alone, and come to the same: a promotion,
// progress, an id that is written back, what a person does on the page. After a
// crash, what stands in the record is the oldest that can be true: an effect
// that is noted happened, one that is noted as attempted may have. Whoever goes
// on asks the board. A record is changed under its lock by reading it again,
// changing it and replacing the file; the lock is never held over a network
// call.
package task
