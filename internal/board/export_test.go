package board

import (
	"iter"
	"maps"
)

// What the board keeps at most.
const (
	MaxJobs  = maxJobs
	MaxLists = maxLists
)

// MethodNames are all methods of the API.
func MethodNames() iter.Seq[string] { return maps.Keys(apiMethods()) }

// AddLists adds n lists at once.
func AddLists(s *Server, n int) error {
	return s.store.do("", func(t *tx) error {
		for range n {
			t.putList(t.newList(listInput{name: "One of many"}))
		}
		return nil
	})
}
