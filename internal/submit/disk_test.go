package submit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses a command, it says
// so, and what it printed then, or when it is run again, stands in the inbox once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	words := []string{"--title", "A", "--agent", "a"}
	keyed := append([]string{"--key", "k"}, words...)
	settle := func(p *place) { // as the injector does, when the record was lost since
		name := p.drops("new-tasks")[0]["name"].(string)
		p.write("processed/"+name, `{"id":"d","taskId":"T-00001","title":"A","agent":"a","_result":{"at":"2026-03-14T09:00:00Z","inbox":"new-tasks","attempts":1}}`)
		if err := os.Remove(filepath.Join(p.dir, "new-tasks", name)); err != nil {
			t.Fatal(err)
		}
	}
	undelivered := func(p *place) { // killed before the key was noted as delivered
		refused := errors.New("refused")
		crashtest.Below(t, p.dir, func(step, path string) error {
			if step == "rename" && strings.Contains(path, "/keys/") && len(p.drops("new-tasks")) > 0 {
				return refused
			}
			return nil
		})
		p.create(keyed...)
		crashtest.Below(t, p.dir, func(string, string) error { return nil })
	}
	for name, c := range map[string]struct {
		before func(*place)
		do     func(*place) answered
		inbox  string
		drops  int  // in the end
		more   bool // or more: it was told that it failed, and had delivered
	}{
		"create":              {nil, func(p *place) answered { return p.create(words...) }, "new-tasks", 1, true},
		"key":                 {nil, func(p *place) answered { return p.create(keyed...) }, "new-tasks", 1, false},
		"key, not noted":      {undelivered, func(p *place) answered { return p.create(keyed...) }, "new-tasks", 1, false},
		"key, settled":        {func(p *place) { undelivered(p); settle(p) }, func(p *place) answered { return p.create(keyed...) }, "new-tasks", 0, false},
		"key, waited for":     {func(p *place) { p.create(keyed...); settle(p) }, func(p *place) answered { return p.create(append(keyed, "--wait")...) }, "new-tasks", 0, false},
		"update":              {func(p *place) { p.rendered(1, pipeline.Assigned) }, func(p *place) answered { return p.update("--task-id", "1", "--status", "in_progress") }, "task-updates", 1, true},
		"update, new task":    {func(p *place) { p.create(words...) }, func(p *place) answered { return p.update("--task-id", "1", "--status", "in_progress") }, "task-updates", 1, true},
		"update, behind ours": {func(p *place) { p.create(words...); p.write("next-task-id.json", `{"next":1}`) }, func(p *place) answered { return p.update("--task-id", "1", "--status", "in_progress") }, "task-updates", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				p := initialised(t)
				if c.before != nil {
					c.before(p)
				}
				var a answered
				refused, _ := refuse(p.dir, func() error { a = c.do(p); return nil })
				if told := strings.Contains(a.stderr, syscall.EIO.Error()); told != refused.Came() && !refused.Of("write", "locks/") {
					t.Errorf("refused %q, and said: %d, %s, %s", refused, a.code, a.stdout, a.stderr)
				}
				failed := a.code != 0
				if failed {
					if a.stdout != "" && c.drops > 0 { // else it stands there already
						t.Errorf("refused %q: failed, and printed %s", refused, a.stdout)
					}
					a = c.do(p)
				}
				if id := strings.TrimSpace(a.stdout); a.code != 0 || id == "" {
					t.Fatalf("refused %q; again: %d, %s", refused, a.code, a.stderr)
				}
				drops := p.drops(c.inbox)
				if n := len(drops); n != c.drops && !(failed && c.more && n == c.drops+1) {
					t.Errorf("refused %q: in the end %v", refused, drops)
				}
			})
		})
	}
}
