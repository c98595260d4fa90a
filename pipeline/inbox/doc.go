// Package inbox is the protocol of the directories through which work enters:
// how a drop is delivered, found and settled.
//
// # Files
//
//	new-tasks/      creates wait here
//	task-updates/   updates wait here
//	processed/      what took effect, with _result added
//	failed/         what did not, with the reason in _result
//
// Delivered is a file that stands in an inbox under a name that ends in .json
// and does not begin with a dot. Everything else there belongs to whoever made
// it and is not touched, but for directories, pipes and links with a delivered
// name: they are moved to failed/, never followed.
//
// # Settling
//
// The settled copy is durable before the inbox file is unlinked. If we crash
// between the two, the next sweep finds the same bytes in both places and
// unlinks what was left. For the unlinking the file is first given a name that
// begins with ".otm-taken-", as a writer may rename its next drop over the old
// one at any moment; if we crash then, PutBack ends it. Nothing is ever overwritten: a name that is taken
// gets -2, -3 and so on. What is no JSON object settles byte for byte, and a
// file beside it, with .error.json added to its name, says why; no drop ever
// settles under such a name.
//
// Who may settle is the holder of the injector's work lock; there is no claim
// of single files.
//
// What this does not guarantee: two programs that deliver under one name at
// one moment overwrite each other before we see either.
package inbox
