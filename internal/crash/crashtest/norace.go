//go:build !race

package crashtest

// Raced says that this binary was built with the race detector, which takes several
// times as long.
const Raced = false
