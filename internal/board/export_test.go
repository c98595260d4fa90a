package board

import (
	"iter"
	"maps"
)

// MethodNames are all methods of the API.
func MethodNames() iter.Seq[string] { return maps.Keys(apiMethods()) }
