package fsck

import (
	"errors"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/pipeline/inbox"
)

// TestDiskFailsAtEachStep: at whichever step of a look the disk refuses, that is an
// error, or a finding: nothing that could not be looked at is taken for right.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.o.Quiet = false
	w.settle(inbox.NewTasks, "t3.json", `{"id":"d3","taskId":"T-00001","title":"One","agent":"devdas"}`)
	w.write("failed/f1.json", `{"id":"f1","taskId":"T-00001","status":"in_progress","_result":{"at":"2026-03-14T09:00:00Z","inbox":"task-updates","attempts":1,"error":"no","class":"invalid"}}`)
	w.write("new-tasks/n1.json", `{"id":"n1","taskId":"T-00001","title":"One","agent":"devdas"}`)
	w.write("keys/k.json", `{"key":"k","taskId":"T-00001","file":"t1.json","delivered":true}`)
	w.open()
	plain, err := Check(t.Context(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.o.Dir, w.ws} {
		crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
			var findings []Finding
			refused, err := refuse(dir, func() (err error) {
				findings, err = Check(t.Context(), w.o)
				return err
			})
			if refused.Came() && !errors.Is(err, syscall.EIO) && len(findings) <= len(plain) {
				t.Errorf("refused %q, and found %+v, %v", refused, findings, err)
			}
		})
	}
}
