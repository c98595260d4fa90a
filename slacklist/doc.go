// Package slacklist is the client of the board: a Slack List, or the embedded
// board, which speaks the same API. It owns slack-go, the schema, the shared
// snapshot, the budget of calls and the decoding of answers. Chat (chat.go) posts
// messages to channels of Slack.
//
// # Files
//
//	board/snapshot.json   the rows of the last complete walk, patched with our
//	                      own writes; the schema; the times of recent calls
//	board/unsaved         stands while the board is ahead of snapshot.json
//	board/changed         touched after each change of the board
//	board/edited          touched by the embedded board when a person edited
//	locks/board           held while a process reads, decides and writes
//
// # Sessions
//
// The board knows no compare-and-set. Begin therefore takes locks/board, and
// everything until End is one batch: read, decide, write. Within a host no two
// batches overlap. A batch lasts at most BatchTime; a process with more to do
// ends it and begins another, after leaving the board to others for a moment.
//
// A Session has parts that know one thing each: gate the budget of calls,
// schemas the columns, walker the rows, writer the writes. They share a batch,
// which holds the snapshot.
//
// # Freshness
//
// Reads are the scarcest calls (20 a minute for the whole token), so one walk
// serves every process of the directory. Each row says as of when its status is
// known: the start of the walk that showed it, or our own write. Refresh walks
// only if the snapshot is too stale for the caller.
//
// A walk may predate our own writes, because Slack does not promise to read them
// at once. For SettleAfter after a write, a row that a walk shows without our
// write keeps it, and a row that we made and a walk lacks stays.
//
// # Decoding
//
// A value of an unexpected type reads as one that is missing. If it may have been
// the status, the row's status is Unreadable. A page without an array of items
// fails its walk. A walk has bounds (maxPages), so that no board can keep it
// going for ever.
//
// # Errors
//
// Every failed call is a *pipeline.BoardError of one of three classes: Refused
// (this row or value), Transient (try later), Fatal (an operator must act). It
// also says whether a write may have been applied. If the list lacks a column or
// an option, the error is a *pipeline.MissingError. No error, log or file holds
// the token.
//
// What this does not guarantee: that two data directories on one list keep out
// of each other's way.
package slacklist
