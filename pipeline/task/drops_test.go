package task

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"otm/pipeline"
)

func TestDrops(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	if got, err := s.Drops(); len(got) != 0 || err != nil {
		t.Errorf("Drops of nothing = %v, %v", got, err)
	}
	drop := func(path string, id pipeline.TaskID, steps, more string) {
		write(t, filepath.Join(s.dir, path), fmt.Sprintf(`{"taskId":"%v","title":"x","agent":"a","subtasks":[%s]%s}`, id, steps, more))
	}
	drop("processed/b.json", 1, `"a","b"`, `,"_result":{"inbox":"new-tasks"}`)
	drop("processed/a.json", 1, `"other"`, `,"_skipped_duplicate":true`)
	drop("failed/a.json", 1, `"a conflict"`, "")
	drop("new-tasks/a.json", 1, `"again"`, "")
	drop("new-tasks/b.json", 2, `"waits"`, "")
	drop("new-tasks/.c.json", 3, `"not delivered"`, "")
	drop("failed/b.json", 4, `"failed"`, "")
	drop("processed/c.json", 5, `"skipped"`, `,"_skipped_duplicate":true`)
	write(t, filepath.Join(s.dir, "processed", "update.json"), `{"taskId":"T-00006","status":"in_progress"}`)
	write(t, filepath.Join(s.dir, "failed", "text.json"), `T-00007`)
	want := map[pipeline.TaskID]pipeline.Dropped{
		1: {Steps: []string{"a", "b"}, Waiting: true}, 2: {Steps: []string{"waits"}, Waiting: true},
		4: {Steps: []string{"failed"}}, 5: {Steps: []string{"skipped"}},
	}
	if got, err := s.Drops(); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("Drops = %v, %v; want %v", got, err, want)
	}
}
