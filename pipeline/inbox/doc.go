// Package inbox is the protocol of the directories through which work enters:
// how a drop is delivered, found and settled.
//
// # Files
//
//	new-tasks/      creates wait here
//	task-updates/   updates wait here
//	processed/      drops that took effect, with _result added
//	failed/         drops that did not, with the reason in _result
//
// A file is delivered if it stands in an inbox under a name that ends in .json
// and does not begin with a dot. All other files there belong to their writers
// and are not touched. Directories, pipes and links with a delivered name are
// moved to failed/, never followed.
//
// # Settling
//
// The settled copy is durable before the inbox file is unlinked. If we crash
// between the two, the next sweep finds the same bytes in both places and
// unlinks the inbox file. For that, x.json first becomes x-otm-taken-<random>.json:
// a writer may rename its next drop over the old name at any moment. If we crash
// then, the next sweep finds a drop under the new name, and takes it for x.json.
// Nothing is overwritten: a name
// that is taken gets -2, -3 and so on. A file that is no JSON object settles byte for
// byte, and a file beside it, with .error.json added to its name, says why. No
// drop settles under such a name. Only what OTM wrote counts as a result.
//
// Only the holder of the injector's work lock settles. Single files are not
// claimed.
//
// Not guaranteed: two programs that deliver under one name at one moment
// overwrite each other before we see either.
package inbox
