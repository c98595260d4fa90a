// Package counter gives out the ids of tasks, and keeps the keys that make a
// create unique. It is the only writer of next-task-id.json and keys/.
//
// # Files
//
//	next-task-id.json     {"next":36,"durable":64}
//	locks/next-task-id    the lock; its note is a copy of next, with the boot that wrote it
//	keys/<sha256>.json    one key of otm-create --key
//
// # Blocks
//
// Next is the next id to give out. It is written in place and not synced. Durable
// is the first id that no synced write covers: next rounded up to a multiple of
// 32. Only when next passes it is the file replaced and synced, once in 32 ids.
//
// A process that is killed takes nothing along: the kernel keeps what it wrote, and
// next goes on without a gap. A power failure may undo writes of next and of the
// note, in any order. So next counts only during the boot of the machine that wrote
// it, which the note names. After a restart durable counts, and at most 31 ids stay
// unused. The same holds if the note is lost. No id is given out twice, because none
// at or above durable is given out before a higher durable has been synced.
//
// A counter that is missing or damaged, or behind its note or an existing task, is
// repaired with one warning: the highest of next, note and ids in use wins.
//
// Not guaranteed: a disk that is pulled out while it is written to, and used again
// before the machine restarts, may lose the last next. Then an id may be given out
// twice, and the second drop fails as a conflict.
package counter
