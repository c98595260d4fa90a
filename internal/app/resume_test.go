package app

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"otm/core"
)

// otm resume of an agent whose process runs promises no start: it says that it runs,
// since when, and how to end it.
func TestResumeOfARunningAgent(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	runner := w.h.Config.Agents.Named("runner")
	if r, err := resume(t.Context(), w.h, core.Command{By: core.ByPerson("robin")}, runner, true); err != nil || !strings.HasPrefix(r.Text, "was not paused; ") {
		t.Errorf("without a process: %+v, %v", r, err)
	}
	w.runs()
	r, err := resume(t.Context(), w.h, core.Command{By: core.ByPerson("robin")}, runner, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{fmt.Sprintf("was not paused; the process of runner, pid %d, has run since ", os.Getpid()), fmt.Sprintf("kill -- -%d", os.Getpid())} {
		if !strings.Contains(r.Text, part) || strings.Contains(r.Text, "starts it now") {
			t.Errorf("with a process: %q lacks %q", r.Text, part)
		}
	}
}
