// Package inject brings drops to the board, once each: a create becomes a row
// and its steps, an update becomes status, ticks, reason and result.
//
// # A create
//
//	record: the row is asked for      locks/task-<id>
//	board: the row                    with the Task ID in the creating call
//	record: its id, step 1 asked for
//	board: step 1
//	…
//	record: all ids
//	processed/: the settled copy, then the inbox file goes
//
// If we crash at any point, the next sweep reads the record. A row or step
// that was asked for and has no id may stand on the board or not: it is looked
// for, the row by its Task ID, a step by parent and title, and counts as not
// made only when a complete walk that began SettleAfter later lacks it. So
// what was begun is finished, and nothing is made twice.
//
// # An update
//
//	record: what to write, decided    (Reporting)
//	board: the cells
//	record: its id among Updates
//	processed/
//
// The updates of one task apply in the order of their file names; one that has
// to wait holds back the later ones of its task, not those of others. If we
// crash in between, what was decided is written again, which changes nothing.
//
// # Failures
//
// An item error settles that one file in failed/ and the next goes on. Where
// the board or our own disk is in trouble, files stay where they are and the
// sweep says when to come back; Injector.Sweep draws the line. A missing option
// or a full list keeps the file, as a person has to act on the board. A row that
// a person deleted is never made again: what still comes for it is a conflict.
package inject
