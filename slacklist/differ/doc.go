// Package differ finds what people changed on the board. It compares the rows of a
// snapshot with what each row showed when OTM last saw or wrote it (core.Shown), and
// makes commands of the differences. No other code interprets a person's edit.
//
// A cell is a person's edit if it differs both from what it showed and from the state
// of the task. A cell that only differs from what it showed has our own write, whose
// answer was lost. Rows belong to tasks by their row ids, because people clear, change
// and copy Task IDs. A cell that cannot be read, or a status that OTM does not know,
// decides nothing.
//
//	compare.go   the rows of tasks and of their steps, against the tasks
//	drift.go     cells that OTM derives and nobody should change
//	stranger.go  rows that no task has: typed, copied, or of a lost task
//	differ.go    Differ: a whole comparison, with its calls and its commands; missing rows
package differ
