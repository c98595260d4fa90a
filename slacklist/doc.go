// Package slacklist is the client of the board: a Slack List, or the embedded
// board, which speaks the same API. It owns slack-go, the schema, the shared
// snapshot, the budget of calls and the decoding of what comes back.
//
// # Files
//
//	board/snapshot.json   the rows of the last complete walk, patched with our
//	                      own writes; the schema; the times of recent calls
//	board/unsaved         stands while the board is ahead of snapshot.json
//	board/changed         touched by whoever has changed the board
//	board/edited          touched by the embedded board when a person edited
//	locks/board           held by whoever reads, decides and writes
//
// # Sessions
//
// The board knows no compare-and-set. Begin therefore takes locks/board, and
// everything between it and End is one batch: look, decide, write. Within a
// host no two batches overlap. A batch lasts at most BatchTime; whoever has
// more to do ends it and begins another, after leaving the board to other
// processes for a moment.
//
// # Freshness
//
// Reads are the scarcest calls (20 a minute for the whole token), so one walk
// serves every process of the directory. Each row says as of when its status
// is known: the start of the walk that showed it, or our own write. Refresh
// walks only where that is not good enough for the caller.
//
// A walk may be older than our own writes, as Slack does not promise to read
// them at once. For SettleAfter after a write, a row that a walk shows without
// our write keeps it, and a row that we made and a walk lacks stays.
//
// # Decoding
//
// Pages are cut, not decoded into structs (cut.go): a cell of an unexpected
// form is passed over, and of a row of which the status may have been such a
// cell, the status is Unreadable. A page that is no whole array of items is no
// page, and its walk failed.
//
// # Errors
//
// Every failed call is a *pipeline.BoardError of one of three classes: Refused
// (this row or value), Transient (try later), Fatal (an operator must act). It
// also says whether a write may have been applied all the same. Where the list
// lacks a column or an option, also by the word of the board when the schema
// was read anew, it is a *pipeline.MissingError. No error, log or file holds
// the token.
//
// What this does not guarantee: that two data directories on one list keep out
// of each other's way.
package slacklist
