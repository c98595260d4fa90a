// Package inject brings drops to the engine, once each: a create becomes a task, an
// update a report on one.
//
//	core: the command                 its id is the drop's: once, however often it comes
//	board, renderings: the effects    the engine delivers them
//	processed/: the settled copy, then the inbox file goes
//
// If we crash at any point, the next sweep continues: the command is known, and the
// effects that are missing are delivered.
//
// # Order
//
// The updates of one task apply in the order of their file names. One that waits
// holds back the later ones of its task only. Reports come before creates, but for one
// create after each few reports. Agents take turns. The reports on one task, and the
// creates of one agent, come in the order of their names.
//
// # Failures
//
// An error of one file settles it in failed/, and the others go on. When the board
// or our disk is in trouble, files stay and the sweep says when to sweep again;
// Injector.Sweep draws the line. A missing option or a full list keeps the file
// until a person changes the board. A file whose effects wait for a later look at the
// board waits as well. A row that a person deleted is never made again: drops that it
// did not show yet, and later ones, are conflicts.
//
// A command stays carried out although its file failed because the board refuses a value:
// otm retry has the effects delivered again.
package inject
