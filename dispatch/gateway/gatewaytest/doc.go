// Package gatewaytest is an OpenClaw gateway for tests: hostile, and true to
// what was seen of the real one.
//
// It has a profile for each of two versions that differ in most of what
// matters, and was written from observations of those, not from the client in
// package gateway. What was only read in their code or is a guess is marked so
// beside the code.
//
//	g := gatewaytest.Start(t, gatewaytest.Profile2026_9_6)
//	g.Inject(gatewaytest.DropQueued)        // the next agent request meets this
//	... the code under test calls g.URL() with g.Token() ...
//	g.Until(t, func() bool { return len(g.Runs()) == 1 })
//
// Runs is the oracle: it holds a run for every time that an agent was really
// given a message. An agent is a Go function or a command; without either its
// turn ends at once.
//
// Between any two responses the gateway sends events: known ones, unknown ones,
// ones with fields that nobody expects, and a response that nobody asked for.
//
// What a real gateway keeps in memory dies with Kill, Shutdown, Restart and
// Crash; what it keeps on disk (transcripts, paired devices) does not. The
// memory of idempotency keys runs on the gateway's own clock, which Advance
// moves.
//
// Main is the same as a program, for scripts.
package gatewaytest
