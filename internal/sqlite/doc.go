// Package sqlite opens SQLite databases the one way that OTM uses them. It owns
// the driver.
//
// # Durability
//
// The journal mode is WAL and synchronous is FULL, so a write that returned nil
// survives a power failure. Open reads these settings back and refuses a
// database on which they do not hold.
//
// # Processes and goroutines
//
// Several processes may have a database open. In each, one connection writes, and
// a few others read. Every write transaction begins with BEGIN IMMEDIATE. Writes
// that wait at the same time share one transaction and one sync.
//
// Only this package may open a file whose name begins with that of a database
// (https://www.sqlite.org/howtocorrupt.html, 2.2). The driver uses locks of the
// open file (OFD), so another program that reads these files does no harm. Make
// copies with Backup.
//
// A database must stand on a local file system that has such locks.
package sqlite
