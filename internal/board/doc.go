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
//	board.db       the rows and lists, an SQLite database (with -wal and -shm)
//	token          the bot's token, mode 0600, made at first open
//	endpoint.json  where the server listens; only there while it does
//
// The directory, and the file lock in it, are locked (flock) while a Server has
// it open. A rows.jsonl of a former version is imported at open, once, and renamed to
// rows.jsonl.before-sqlite. To restore a copy of board.db, stop the board, and
// remove its -wal.
//
// # Writers and readers
//
// A call that writes is one transaction. It is answered when it is durable, and
// readers see it then. Calls that wait at the same time share a commit, but each is
// applied whole or not at all.
//
// # What this does not guarantee
//
// If a disk refuses a write, the call is answered internal_error, and its change is
// gone; if the power fails right then, the change may come back. If another program
// removes, replaces or writes board.db while the board runs, rows can be lost.
package board
