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
// If we crash at any point, the next sweep continues from the record. A row or
// step that was asked for and has no id may exist or not. The sweep looks for the
// row by its Task ID, for a step by parent and title. It counts as not made only
// when a complete walk that began SettleAfter later lacks it. So nothing is lost,
// and nothing is made twice.
//
// # An update
//
//	record: what to write, decided    (Reporting)
//	board: the cells
//	record: its id among Updates
//	processed/
//
// The updates of one task apply in the order of their file names. One that waits
// holds back the later ones of its task only. If we crash in between, the
// recorded decision is written again, which changes nothing.
//
// # Order
//
// Reports come before creates, but for one create after each few reports. Agents
// take turns. The reports on one task, and the creates of one agent, come in the
// order of their names.
//
// # Failures
//
// An error of one file settles it in failed/, and the others go on. When the board
// or our disk is in trouble, files stay and the sweep says when to sweep again;
// Injector.Sweep draws the line. A missing option or a full list keeps the file
// until a person acts on the board. A row that a person deleted is never made
// again: later drops for it are conflicts.
package inject
