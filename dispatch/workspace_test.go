package dispatch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/internal/crash/crashtest"
	"otm/internal/patience"
	"otm/pipeline"
)

// C46: the workspace of one agent lies on a file system that does not answer. The
// others get their tasks, also by otm next; one operation hangs, and no more pile
// up behind it.
func TestC46WorkspaceDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	mine, other := w.create("x", "alpha", pipeline.Critical), w.create("y", "beta", pipeline.Normal)
	hung := crashtest.Hang(t, w.agent("alpha").Workspace)
	w.d.Entries.patience = 5 * time.Second // a busy machine needs less for the other agent
	for range 2 {
		r := w.pass()
		if len(r.Failed) == 0 || !strings.Contains(r.Failed[0], "does not answer") {
			t.Errorf("failed: %q", r.Failed)
		}
	}
	want(t, "the other", w.boardStatus(other), pipeline.Assigned)
	want(t, "it stays new", w.boardStatus(mine), pipeline.New)
	want(t, "wakes", w.waker.keys(), core.WakeKey(other, "beta", 1))
	desk := w.desk()
	desk.patience = w.d.Entries.patience
	taken, err := desk.Next(t.Context(), w.agent("beta"), false)
	if err != nil || taken == nil || taken.Task.ID != other {
		t.Errorf("otm next of the other: %+v, %v", taken, err)
	}
	if _, err := desk.Next(t.Context(), w.agent("alpha"), false); !patience.IsSilent(err) {
		t.Errorf("its own otm next: %v", err)
	}
	want(t, "operations that hang", hung.Load(), int32(1))
}

// C46: silent workspaces are waited for side by side, and before the pass takes the
// board's lock, which others need.
func TestC46WaitsWithoutTheBoard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	arrived, both := make(chan struct{}), make(chan struct{})
	go func() {
		<-arrived
		<-arrived
		close(both)
	}()
	w.d.Entries.patience = time.Minute
	for _, agent := range []string{"alpha", "beta"} {
		crashtest.Below(t, w.agent(agent).Workspace, func(string, string) error {
			select {
			case arrived <- struct{}{}:
				<-both
			case <-both:
			}
			return nil
		})
	}
	w.board.seen = func() {
		select {
		case <-both:
		default:
			t.Error("the pass looks at the board before it knows the workspaces")
		}
	}
	w.pass()
	<-both
}

// C34: an agent's own dispatch file of many megabytes delays nobody. It is neither
// read nor set aside, and the agent is left alone and told of.
func TestC34DispatchFileTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	w.create("x", "alpha", pipeline.Normal)
	other := w.create("y", "beta", pipeline.Normal)
	if err := os.WriteFile(w.path("alpha"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.path("alpha"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	r := w.pass()
	if len(r.Failed) == 0 || !strings.Contains(r.Failed[0], "move it away") {
		t.Errorf("failed: %q", r.Failed)
	}
	want(t, "wakes", w.waker.keys(), core.WakeKey(other, "beta", 1))
	info, err := os.Stat(w.path("alpha"))
	if err != nil || info.Size() != maxFile+1 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// C34: the work that a file makes grows with its size, and not with its square: an
// agent filled it with entries of one task that has ended.
func TestC34ManyEntriesOfOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.create("x", "alpha", pipeline.Normal)
	w.pass()
	w.next("alpha")
	w.report(id, pipeline.AgentDone)
	row := w.record(id).RowID
	size := crashtest.Fewer(maxFile - 200)
	if !crashtest.Whole() {
		size /= 4
	}
	var b strings.Builder
	b.WriteString(`{"dispatched":[`)
	for n := 0; b.Len() < size; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"taskId":"T-00001","agent":"alpha","slackItemId":%q,"n":%d}`, row, n)
	}
	b.WriteString(`]}`)
	w.write(w.path("alpha"), []byte(b.String()))
	w.pass()
	want(t, "entries", len(w.entries("alpha")), 0)
}

// C12: a task that was cancelled on the board is not given out once OTM has read the
// board, also while its entry still stands.
func TestC12CancelledIsNotHandedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	first, second := w.create("x", "alpha", pipeline.High), w.create("y", "alpha", pipeline.Normal)
	w.pass()
	w.edit(first, w.status(pipeline.Cancelled))
	want(t, "the other one", w.next("alpha"), second)
	w.edit(second, w.status(pipeline.Cancelled))
	want(t, "nor is it continued", w.next("alpha"), pipeline.TaskID(0))
	want(t, "entries", w.ids("alpha"), "T-00001 T-00002")
}
