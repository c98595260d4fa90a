// Package leak holds tests to what they promise for a program: nothing that they
// started or made outlives them, however they end.
package leak

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"go.uber.org/goleak"
)

// tries is how often Run looks whether all goroutines have ended. One look takes
// about half a second; a busy machine may need ten.
const tries = 20

// Run is Main for packages whose tests must leave no goroutine either. Fuzzing
// has goroutines of its own, and is not held to that.
func Run(m interface{ Run() int }) (code int) { return Main(checked{m, tries}) }

// checked are tests that fail if a goroutine outlives them.
type checked struct {
	tests interface{ Run() int }
	tries int
}

func (c checked) Run() (code int) {
	code = c.tests.Run()
	http.DefaultClient.CloseIdleConnections()
	if code != 0 || flag.Lookup("test.fuzz").Value.String() != "" {
		return code
	}
	var err error
	for range c.tries {
		if err = goleak.Find(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
