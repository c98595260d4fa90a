package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// Message is what somebody says in the thread of a task. It changes no status.
type Message struct {
	Text     string   `json:"text"`
	Tag      Tag      `json:"tag,omitempty"`
	Percent  *int     `json:"percent,omitempty"`  // how much of the task is done, by its author's word; nil: not said
	Mentions []string `json:"mentions,omitempty"` // agents that are shown it although the task is another's, and people who are told
}

// Tag is the kind of a message.
type Tag string

// The tags.
const (
	TagHandoff  Tag = "handoff"  // the task passes to another agent
	TagProgress Tag = "progress" // how far the work is
	TagComplete Tag = "complete" // the work is finished
	TagBlocked  Tag = "blocked"  // its author waits for something
	TagEscalate Tag = "escalate" // the orchestrator has to decide
	TagResult   Tag = "result"   // a result for the next agent
	TagNote     Tag = "note"     // for information
)

// Tags lists them.
var Tags = []Tag{TagHandoff, TagProgress, TagComplete, TagBlocked, TagEscalate, TagResult, TagNote}

// ParseTag reads a tag from a flag or a file.
func ParseTag(label string) (Tag, bool) {
	t := Tag(FoldName(label))
	return t, slices.Contains(Tags, t)
}

// String is the message for people: [PROGRESS] half of it (50%) @archibald.
func (m *Message) String() string {
	text := m.Text
	if m.Tag != "" {
		text = fmt.Sprintf("[%s] %s", strings.ToUpper(string(m.Tag)), text)
	}
	if m.Percent != nil {
		text += fmt.Sprintf(" (%d%%)", *m.Percent)
	}
	for _, name := range m.Mentions {
		text += " @" + name
	}
	return text
}
