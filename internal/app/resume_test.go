package app

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"otm/core"
	"otm/pipeline"
)

// otm resume of an agent whose process runs promises no start: it says that it runs,
// since when, and how to end it.
func TestResumeOfARunningAgent(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	var out bytes.Buffer
	w.h.Out = &out
	runner := []*pipeline.Agent{w.h.Config.Agents.Named("runner")}
	if err := resume(t.Context(), w.h, core.ByPerson("robin"), runner); err != nil || !strings.HasPrefix(out.String(), "runner: was not paused; ") {
		t.Errorf("without a process: %q, %v", &out, err)
	}
	out.Reset()
	w.runs()
	if err := resume(t.Context(), w.h, core.ByPerson("robin"), runner); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{fmt.Sprintf("pid %d, has run since ", os.Getpid()), fmt.Sprintf("kill -- -%d\n", os.Getpid())} {
		if !strings.Contains(out.String(), part) || strings.Contains(out.String(), "starts it now") {
			t.Errorf("with a process: %q lacks %q", &out, part)
		}
	}
}
