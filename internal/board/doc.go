// Package board is the embedded board: a server on loopback that speaks the
// Slack Lists Web API over a row store of its own, for people without Slack.
//
// # Overview
//
// The same client talks to Slack and to this server; only the base URL
// differs. It is therefore also an honest double of Slack: same shapes, same
// errors, same surprises. What Slack leaves unpublished is decided in
// CHOICES.md, and where the decision may differ from what a workspace does, a
// Quirks switch shows the other behaviour.
//
// # Files
//
// All stand in Options.Dir and belong to the one process that has it open:
//
//	rows.jsonl     the store: a header line, then one mutation a line, append only
//	token          the bot's token, mode 0600, made at first open
//	endpoint.json  where the server listens; there only while it does
//
// The directory itself is locked (flock) while a Server has it open. A crash
// may leave rows.jsonl with a torn tail, which the next Open cuts off and logs.
// Where somebody else removes the file, replaces it or writes into it, it is
// written anew before the next call is answered, and what was put there kept
// beside it; to restore a copy of it, stop the board.
//
// # Writers and readers
//
// Every mutation is a transaction run by one goroutine, the committer, which
// checks it against the rows as they will be, appends one line for it, syncs
// the file once for all that wait, and only then shows the new rows to readers
// and answers. So an answer means durable, readers never see what a crash
// could take back, and an update of many cells is applied whole or not at all.
//
// Rows and lists are immutable once published; a change makes a new one.
//
// # Who may do what
//
// Programs come through Handler with a token. People's edits come through the
// exported methods of Server (EditRow, AddRow, ...), which the page calls and
// which tests use as the side door; they take the same cells and are checked
// by the same code, but are marked with the person's id.
//
// # What this does not guarantee
//
// Chat messages and export jobs live in memory and are gone after a restart.
// After a failed fsync nothing more is written (the state on disk is unknown):
// every write is answered fatal_error, and Serve returns the error.
package board
