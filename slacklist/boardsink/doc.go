// Package boardsink writes the tasks of the store to the rows of the board. No other code
// writes to the board.
//
// A delivery looks first: it walks the board where the snapshot is too old, has the
// differ read what people changed, and finds rows that earlier tries made without an
// answer. Then it deletes the rows of archived tasks, updates stale cells, many tasks in
// a call, and makes rows and steps. Receipts (core.Written) go to the store in groups.
//
//	sink.go      Sink, Deliver and what it returns
//	find.go      looking: walks, and rows whose answers were lost
//	update.go    stale cells, and rows to delete
//	create.go    rows and steps that are missing
//	cell.go      the cells of a task
package boardsink
