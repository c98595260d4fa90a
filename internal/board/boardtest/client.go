package boardtest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// webAPI names the folder in which the npm package @slack/web-api is
// installed. If it is set, Call goes through Slack's own client for Node instead
// of a plain form call: the same suite, a second client.
const webAPI = "OTM_TEST_SLACK_WEB_API"

//go:embed client.js
var clientJS string

// A sidecar is a Node process that makes calls with Slack's client.
type sidecar struct {
	mu  sync.Mutex // one call at a time
	in  io.WriteCloser
	out *bufio.Reader
}

var node = sync.OnceValues(func() (*sidecar, error) {
	cmd := exec.Command("node", "-e", clientJS)
	cmd.Dir, cmd.Stderr = os.Getenv(webAPI), os.Stderr
	// Without the mark of the run (package leak): it serves until the tests' own
	// process ends.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TEST_RUN_DIR=") || strings.HasPrefix(v, "TMPDIR=")
	})
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &sidecar{in: in, out: bufio.NewReader(out)}, cmd.Start() // it ends with our end of the pipe
})

// call makes one call, and returns the answer as the client gives it.
func (s *sidecar) call(base, token, method string, args map[string]any) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	request, err := json.Marshal(map[string]any{"base": base, "token": token, "method": method, "args": args})
	if err != nil {
		return nil, err
	}
	if _, err := s.in.Write(append(request, '\n')); err != nil {
		return nil, err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answer struct {
		Answer map[string]any
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, fmt.Errorf("%.200q: %w", line, err)
	}
	if answer.Answer == nil {
		return nil, fmt.Errorf("the client says: %s", answer.Error)
	}
	return answer.Answer, nil
}

// viaWebAPI makes the call with Slack's client, if webAPI is set.
func viaWebAPI(t testing.TB, base, token, method string, args map[string]any) (answer map[string]any, done bool) {
	t.Helper()
	if os.Getenv(webAPI) == "" {
		return nil, false
	}
	s, err := node()
	if err == nil {
		answer, err = s.call(base, token, method, args)
	}
	if err != nil {
		t.Fatalf("%s with @slack/web-api: %v", method, err)
	}
	return answer, true
}
