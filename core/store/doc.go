// Package store keeps the events and states of package core in a database, SQLite
// or PostgreSQL, and the outbox of effects.
//
// A change is one transaction (do.go): load the states of the commands, let
// core.Decide decide, append the events, save the states, enqueue the effects. It is
// durable on return.
//
//	store.go    open, close, open anew
//	place.go    identity: which data directory the store belongs to
//	dialect.go  what SQLite and PostgreSQL do differently
//	schema.go   numbered migrations
//	do.go       commands
//	save.go     the rows of states, wakes and commands
//	read.go     queries, and how they are built and read
//	live.go     the live tasks, kept in memory
//	events.go   the table of events
//	outbox.go   effects: leases, settling, retries
//	rebuild.go  states replayed from events
//	archive.go  old events in files, and snapshots of the states
//	errors.go   errors with their next step
package store
