// Package board is the embedded board: a server on loopback that speaks the
// part of the Slack Lists Web API that our client uses, over a row store of its
// own, for people without Slack.
//
// The same client talks to Slack and to this server; only the base URL
// differs. For the methods it has, the board is therefore an honest double of
// Slack: same shapes, same errors, same surprises. CHOICES.md says what it does
// where Slack's behaviour is unpublished. What tests of the client need beyond
// that (people in Slack, list making, scopes, odd behaviour) is in boardtest.
//
// # Files
//
// All stand in Options.Dir and belong to the one process that has it open:
//
//	rows.jsonl     the store: a header line, then one mutation a line, append only
//	token          the bot's token, mode 0600, made at first open
//	endpoint.json  where the server listens; only there while it does
//
// The directory is locked (flock) while a Server has it open. A crash may leave
// rows.jsonl with a torn last line, which the next Open cuts off and logs. To
// restore a copy of it, stop the board.
//
// # Writers and readers
//
// Transactions run one at a time. Each checks its changes, appends one line for
// them, syncs the file, and only then shows the new rows to readers and
// answers. So an answer means durable, readers never see what a crash could
// take back, and an update of many cells is applied whole or not at all.
//
// Rows and lists are immutable once published; a change makes a new one.
//
// # What this does not guarantee
//
// After a failed fsync nothing more is written (the state on disk is unknown):
// every write is answered fatal_error, and Serve returns the error. If another
// program removes, replaces or writes rows.jsonl while the board runs, rows can
// be lost.
package board
