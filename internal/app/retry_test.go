package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"otm/internal/cli"
	"otm/pipeline/inbox"
)

// TestRetriesAtOnce has several retries at work on the same failed files: each
// comes back once, under one id.
func TestRetriesAtOnce(t *testing.T) {
	h := newHome(t, "")
	const n = 12
	for i := range n {
		put(t, filepath.Join(h.Dir, inbox.FailedDir, fmt.Sprintf("c%02d.json", i)),
			fmt.Sprintf(`{"id":"id%d","taskId":"T-00100","title":"conf %d","agent":"dev","_result":{"inbox":"new-tasks","error":"e","class":"conflict"}}`, i, i))
	}
	names, err := h.Box.SettledNames(inbox.FailedDir)
	if err != nil || len(names) != n {
		t.Fatalf("failed are %q, %v", names, err)
	}
	h.asJSON = true
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if err := retry(t.Context(), h, names, true, true); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	files, err := h.Box.List(inbox.NewTasks)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, f := range files {
		data, _, err := h.Box.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		var d struct{ TaskID, Title string }
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
		ids[d.TaskID] = d.Title
	}
	if len(files) != n || len(ids) != n || ids["T-00100"] != "" {
		t.Errorf("%d files with the ids %v came back, want %d", len(files), ids, n)
	}
	if names, err := h.Box.SettledNames(inbox.FailedDir); len(names) != 0 || err != nil {
		t.Errorf("failed are still %q, %v", names, err)
	}
}

// TestRetrySaysWhatIsUnsaid is about a failed file that does not say from which
// inbox it came: the person is asked to.
func TestRetrySaysWhatIsUnsaid(t *testing.T) {
	h := newHome(t, "")
	var said strings.Builder
	h.Err = &said
	put(t, filepath.Join(h.Dir, inbox.FailedDir, "a.json"), "no JSON")
	if err := retry(t.Context(), h, []string{"a.json"}, false, false); err == nil || !strings.Contains(said.String(), "does not say from which inbox it came: move it there by hand") {
		t.Errorf("retry: %v, said:\n%s", err, said.String())
	}
	if !exists(filepath.Join(h.Dir, inbox.FailedDir, "a.json")) {
		t.Error("it is not in failed/ any more")
	}
}

// TestRetrySomeOnly: what cannot be put back does not keep the others, and is told.
func TestRetrySomeOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"some are not there":      {[]string{"good.json", "none.json"}, cli.Partial, "none.json: is not in failed/"},
		"none is there":           {[]string{"none.json"}, cli.Failed, "none.json: is not in failed/"},
		"an update has no new id": {[]string{"--new-id", "good.json", "update.json"}, cli.Partial, "update.json: is an update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &patient{T: t, h: newHome(t, "")}
			put(t, filepath.Join(p.h.Dir, inbox.FailedDir, "good.json"), `{"id":"d1","taskId":"T-00100","title":"Good","agent":"devdas","_result":{"inbox":"new-tasks"}}`)
			put(t, filepath.Join(p.h.Dir, inbox.FailedDir, "update.json"), `{"id":"u1","taskId":"T-00100","status":"done","_result":{"inbox":"task-updates"}}`)
			code, out := p.main(append([]string{"otm", "retry"}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.says) || !strings.Contains(out, "otm: hint: ls ") {
				t.Errorf("exit %d: %s", code, out)
			}
			waiting, err := p.h.Box.List(inbox.NewTasks)
			if put := strings.Contains(strings.Join(c.args, " "), "good.json"); err != nil || (len(waiting) == 1) != put {
				t.Errorf("%d came back: %v", len(waiting), err)
			}
			if !exists(filepath.Join(p.h.Dir, inbox.FailedDir, "update.json")) {
				t.Error("the update is not in failed/ any more")
			}
		})
	}
}

func TestExplainedOf(t *testing.T) {
	t.Parallel()
	names := []string{"failed/a.json", "failed/a.json.error.json", "b.json.error.json"}
	if got := explainedOf(names); !slices.Equal(got, []string{"failed/a.json", "b.json"}) {
		t.Errorf("explainedOf = %q", got)
	}
}
