// Package leak holds tests to what they promise for a program: that whatever
// was started has ended.
package leak

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"go.uber.org/goleak"
)

// tries is how often is looked whether all have ended. One look goes on for
// about half a second; a busy machine may take ten.
const tries = 20

// Run runs tests, and fails where a goroutine outlives them. Fuzzing has
// goroutines of its own.
func Run(m interface{ Run() int }) (code int) { return run(m, tries) }

func run(m interface{ Run() int }, tries int) (code int) {
	code = m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code != 0 || flag.Lookup("test.fuzz").Value.String() != "" {
		return code
	}
	var err error
	for range tries {
		if err = goleak.Find(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
