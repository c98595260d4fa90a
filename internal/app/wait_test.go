package app

import (
	"bytes"
	"testing"
	"time"

	"otm/core"
	"otm/internal/cli"
	"otm/pipeline"
)

// A task whose row was deleted has ended, whatever its status was, and not well.
func TestWaitEndsWithTheRow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := waiter{Home: &Home{Streams: cli.Streams{Out: &out}}, left: []pipeline.TaskID{3, 4}}
	if err := w.note(&core.Task{ID: 3, Status: pipeline.InProgress, GoneAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "T-00003  in_progress  its row was deleted\n" || len(w.left) != 1 || w.ended[0].OK {
		t.Errorf("said %q, left %v, ended %+v", &out, w.left, w.ended)
	}
}
