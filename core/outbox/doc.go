// Package outbox delivers the effects of tasks: it brings renderings, dispatch files and
// the board to what the store holds.
//
// An effect is not a change. It says that a sink does not have a task as it is, so a
// sink writes the task's present state, and a newer change replaces an older one that
// still waits. A process leases effects before it delivers them. If it dies, the lease
// lapses, and another process delivers them again. Effects whose delivery twice would do
// harm say when they may have been asked for (core.Pending.AskedAt): their sink looks
// before it writes.
package outbox
