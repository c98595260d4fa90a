// Package crash names the places where the process may be killed without
// harm, so that tests can kill it there.
//
// A point stands right before or right after a step with an outside effect.
// In production the hook is nil and Point does nothing; only the test binaries
// install one, and they end the process with SIGKILL.
package crash

// Hook is called by Point with the point's name. It is nil outside of tests
// and must be set before any goroutine starts.
var Hook func(point string)

// Point marks a place at which a crash is recovered from by the next start.
func Point(name string) {
	if Hook != nil {
		Hook(name)
	}
}
