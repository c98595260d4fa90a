package pipeline

import (
	"strings"

	"github.com/google/uuid"
)

// Task is what is known of a task from its drop, or from the row that a person
// typed. Project and Context are "" if there is none.
type Task struct {
	ID       TaskID
	Title    string
	Agent    string
	Priority Priority
	Project  string
	Type     Type
	Context  string   // one of Contexts
	Inputs   []string // paths and links of what the task starts from
	Body     string   // what its agent is to know beside the title, in any number of lines
	Parent   TaskID   // the task of which it is a part, or which it follows; 0: there is none
	Steps    []string // titles, in the order in which they are to be done
}

// Contexts are what a task may belong to.
var Contexts = []string{"project", "research", "operations", "support", "internal"}

// NewDropID returns a new id for a drop.
func NewDropID() string { return uuid.NewString() }

// DropIDOf returns the id of a drop that stands for these words: always the same one.
func DropIDOf(words ...string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(words, "\n"))).String()
}

// DropIDInName returns the UUID at the end of a drop's file name, or "" if the
// name does not end in one. Our own drops are called <time>-<uuid>.json, and a
// foreign drop that has no id of its own is known by it.
func DropIDInName(name string) string {
	const length = 36
	name = strings.TrimSuffix(name, ".json")
	if len(name) < length {
		return ""
	}
	id, err := uuid.Parse(name[len(name)-length:])
	if err != nil {
		return ""
	}
	return id.String()
}

// Dropped is what the create of a task asked for.
type Dropped struct {
	Steps   []string // their titles, in order
	Waiting bool     // it stands in the inbox: the task may still be in the making
}
