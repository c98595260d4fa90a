package pipeline

import "slices"

// Priority says which task comes first.
type Priority string

// The priorities, first to last. Medium is another name of Normal.
const (
	Critical  Priority = "critical"
	High      Priority = "high"
	Normal    Priority = "normal"
	Low       Priority = "low"
	Batchable Priority = "batchable"
)

// Priorities lists them, first to last.
var Priorities = []Priority{Critical, High, Normal, Low, Batchable}

// ParsePriority reads a priority from a flag or a label.
func ParsePriority(label string) (Priority, bool) {
	p := Priority(FoldName(label))
	if p == "medium" {
		p = Normal
	}
	return p, slices.Contains(Priorities, p)
}

// Rank is the place of p in Priorities, 0 coming first. An unknown priority
// ranks as normal.
func (p Priority) Rank() int {
	if i := slices.Index(Priorities, p); i >= 0 {
		return i
	}
	return slices.Index(Priorities, Normal)
}
