package submit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
)

// TestKillSweep kills otm-create again and again, at its crash points and at
// random moments, beside others that are left alone. Every id that was printed
// with exit 0 stands in the inbox once; none was given out twice; and the lock
// of one that was killed is free at once.
func TestKillSweep(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	p := initialised(t)
	start := func(how, title string) (*exec.Cmd, *strings.Builder) {
		cmd := exec.Command(os.Args[0], "--title", title, "--agent", "devdas")
		cmd.Env = append(os.Environ(), as+"="+how, "OTM_DIR="+p.dir)
		out := &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	const workers, rounds = 4, 25
	var mu sync.Mutex // guards printed and killed
	printed, killed := map[string]string{}, 0
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				title := fmt.Sprintf("%d %d", w, r)
				how := "create"
				if r%2 == 0 {
					how = "create kill"
				}
				cmd, out := start(how, title)
				if how == "create" {
					time.AfterFunc(rand.N(250*time.Millisecond), func() { cmd.Process.Kill() })
				}
				err := cmd.Wait()
				mu.Lock()
				if err != nil {
					killed++
				} else {
					printed[strings.TrimSpace(out.String())] = title
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The next one finds the lock free: else it would end with 75.
	cmd, out := start("create", "last")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the next command after %d kills: %v", killed, err)
	}
	printed[strings.TrimSpace(out.String())] = "last"

	found := map[string]string{}
	for _, e := range mustReadDir(t, p.dir+"/new-tasks") {
		if strings.HasPrefix(e.Name(), ".") {
			if err := os.Remove(p.dir + "/new-tasks/" + e.Name()); err != nil { // what a killed one left
				t.Fatal(err)
			}
		}
	}
	for _, d := range p.drops("new-tasks") {
		id := d["taskId"].(string)
		if other, taken := found[id]; taken {
			t.Errorf("%s stands in the inbox twice: %q and %q", id, other, d["title"])
		}
		found[id] = d["title"].(string)
	}
	for id, title := range printed {
		if found[id] != title {
			t.Errorf("%s was printed for %q, the inbox has %q", id, title, found[id])
		}
	}
	t.Logf("%d killed, %d printed, %d in the inbox", killed, len(printed), len(found))
	if killed < workers*rounds/4 {
		t.Errorf("only %d of %d were killed: it does not show much", killed, workers*rounds)
	}
}
