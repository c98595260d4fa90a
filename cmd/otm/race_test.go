//go:build race

package main

// raced says that this binary was built with the race detector.
const raced = true
