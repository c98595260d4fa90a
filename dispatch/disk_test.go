package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachPlace: the disk refuses one operation of a pass. The next
// passes reach the same state as without the failure.
func TestDiskFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for _, part := range []string{"", "alpha", "gamma"} { // the data directory, or a workspace
		t.Run("in "+part, func(t *testing.T) {
			t.Parallel()
			crashtest.EachPlace(t, syscall.EIO, "otm/dispatch", func(refuse crashtest.Refuse) {
				w := newTroubledWorld(t)
				dir := w.dir
				if part != "" {
					dir = w.agent(part).Workspace
				}
				refused, err := refuse(dir, func() error { return w.disturbed(t.Context()) })
				w.passes()
				if got := w.outcome(); got != want {
					t.Fatalf("refused %q: %v; it comes to\n%s\nwant\n%s\nlog:\n%s", refused, err, got, want, w.log)
				}
			})
		})
	}
}

// TestNextWhereTheDiskFails: the disk refuses one operation of otm next. The agent
// is given the same task the next time, and its state file keeps what it added,
// also if its dispatch file and its state were lost.
func TestNextWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "alpha"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("in %s, lost %v", part, lost), func(t *testing.T) {
				t.Parallel()
				crashtest.EachPlace(t, syscall.EIO, "otm/dispatch", func(refuse crashtest.Refuse) { nextRefused(t, refuse, part, lost) })
			})
		}
	}
}

func nextRefused(t *testing.T, refuse crashtest.Refuse, part string, lost bool) {
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.High)
	w.create("y", "alpha", pipeline.Normal)
	w.pass()
	state := w.statePath("alpha")
	if lost {
		want(t, "taken before", w.next("alpha"), id)
		w.write(w.path("alpha"), []byte("garbage"))
		if err := os.Remove(state); err != nil {
			t.Fatal(err)
		}
	} else {
		w.write(state, []byte(`{"status":"idle"}`))
	}
	dir, warned := w.dir, ""
	if part != "" {
		dir = w.agent(part).Workspace
	}
	desk := w.desk()
	desk.Warn = func(s string) { warned += s + "\n" }
	refused, err := refuse(dir, func() error {
		_, err := desk.Next(t.Context(), w.agent("alpha"), false)
		return err
	})
	// State and pid are for people.
	silent := refused.Of("read", filepath.Base(state)) || refused.Of("write", "locks/")
	told := err != nil || strings.Contains(warned, syscall.EIO.Error())
	if told != refused.Came() && !silent {
		t.Errorf("refused %q, and was told: %v %s", refused, err, warned)
	}
	if got := w.next("alpha"); got != id {
		t.Errorf("refused %q: %v; then it is given %v", refused, err, got)
	}
	if s, err := w.d.Entries.files().state(w.agents, w.agent("alpha")); err != nil || s.Status != stateWorking || *s.TaskID != id {
		t.Errorf("refused %q: the state is %+v, %v", refused, s, err)
	}
}
