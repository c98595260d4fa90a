package complete

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDisturbedAtEachPlace: wherever a pass is told to stop, or the board fails, the
// next passes bring everything to where it comes without that.
func TestDisturbedAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	fails := func(e pipeline.BoardError) func(w *troubledWorld, now func() bool) {
		return func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.Before = boardtest.Failing(now, e) })
		}
	}
	for name, disturb := range map[string]func(w *troubledWorld, now func() bool){
		"not applied": fails(boardtest.AnswerLost),
		"not taken":   fails(boardtest.NotTaken),
		"refused":     fails(pipeline.BoardError{Method: "any", Code: "invalid_arguments", Class: pipeline.Refused}),
		"row gone":    fails(pipeline.BoardError{Method: "any", Code: "row_not_found", Class: pipeline.Refused, RowGone: true}),
		"applied": func(w *troubledWorld, now func() bool) {
			w.disturb(func(b *boardtest.Disturbed) { b.After = boardtest.Failing(now, boardtest.AnswerLost) })
		},
		"stopped": func(w *troubledWorld, now func() bool) {
			stop := func() error {
				if w.over.Load() {
					return nil
				}
				if now() {
					w.stop()
				}
				return w.ctx.Err()
			}
			crashtest.Below(t, w.dir, func(string, string) error { return stop() })
			w.disturb(func(b *boardtest.Disturbed) { b.Before = stop })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.OnceAtEachPlace(t, "otm/pipeline/complete", func(now func() bool) {
				w := newTroubledWorld(t)
				disturb(w, now)
				r, err := w.d.Pass(w.ctx, known)
				w.over.Store(true)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				w.holdAgainst(want, fmt.Sprintf("%+v, %v", r, err))
			})
		})
	}
}

// TestDiskFailsAtEachPlace: the same wherever the disk refuses.
func TestDiskFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	crashtest.EachOwnPlace(t, syscall.EIO, "otm/pipeline/complete", func(refuse crashtest.Refuse) {
		w := newTroubledWorld(t)
		var r *heartbeat.Report
		refused, err := refuse(w.dir, func() (err error) {
			r, err = w.d.Pass(t.Context(), known)
			return err
		})
		told := errors.Is(errors.Join(err, r.Trouble), syscall.EIO) || strings.Contains(r.Details(), syscall.EIO.Error())
		// Whose a lock is, is for people; what others left beside the snapshot only spares a walk.
		silent := refused.Of("write", "/locks/") || refused.Of("stat", "/board")
		if told != refused.Came() && !silent {
			t.Errorf("refused %q, and was told: %+v, %v", refused, r, err)
		}
		w.holdAgainst(want, fmt.Sprintf("refused %q: %+v, %v", refused, r, err))
	})
}

// troubledWorld is a world in which a pass has everything to do that there is.
type troubledWorld struct {
	*world
	tasks []*made
	ctx   context.Context
	stop  func()
	over  atomic.Bool // nothing disturbs any more
}

func newTroubledWorld(t *testing.T) *troubledWorld {
	t.Helper()
	w := &troubledWorld{world: newWorld(t)}
	w.ctx, w.stop = context.WithCancel(t.Context())
	t.Cleanup(w.stop)
	w.tasks = []*made{
		w.task(pipeline.InProgress, 2, 2), w.task(pipeline.InProgress, 2, 1), w.task(pipeline.InProgress, 1, 1),
		w.task(pipeline.New, 2, 2), w.task(pipeline.InProgress, 2, 1), w.task(pipeline.AgentDone, 1, 1), // the first ends when its agent says so
	}
	w.clock.Advance(time.Minute)
	w.doAs(core.Component("otm-dispatcher"), w.tasks[3].id, core.HandOut{Agent: "devdas", Workspace: "/w"})
	started := pipeline.InProgress
	w.do(w.tasks[3].id, core.Edits{Status: &started})
	w.deliver()
	w.clock.Advance(time.Minute)
	w.person(w.tasks[1].steps[1], w.ticked())
	w.person(w.tasks[3].row, w.cell("Completion", 7.0))
	w.person(w.tasks[4].row, w.cell("Completion", 7.0))
	w.person(w.tasks[5].row, w.cell("Status", "done"))
	if err := w.newEngine().Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Server.DeleteRow("", w.ListID, w.tasks[2].row); err != nil { // which the pass does not know yet
		t.Fatal(err)
	}
	return w
}

// disturb has all batches disturbed.
func (w *troubledWorld) disturb(disturb func(*boardtest.Disturbed)) {
	w.eng.Board = boardtest.Disturb(w.eng.Board, disturb)
}

// undisturbed is what a troubled world comes to by itself.
func undisturbed(t *testing.T) string {
	w := newTroubledWorld(t)
	w.passes()
	return w.outcome()
}

// holdAgainst lets other detectors go on, and holds what it comes to against what
// it should.
func (w *troubledWorld) holdAgainst(want, disturbance string) {
	w.t.Helper()
	w.passes()
	if got := w.outcome(); got != want || w.t.Failed() {
		w.t.Fatalf("%s; it comes to\n%s\nwant\n%s", disturbance, got, want)
	}
}

// passes lets other detectors finish what is to be done.
func (w *troubledWorld) passes() {
	w.t.Helper()
	for range 3 {
		w.clock.Advance(time.Minute)
		w.restart()
		if r, _, _ := w.pass(walked); r.Trouble != nil || len(r.Failed) > 0 {
			w.t.Errorf("in the end: %+v", r)
		}
	}
	if r, _, updates := w.pass(walked); r.Promoted+r.Repaired+updates > 0 {
		w.t.Errorf("it does not come to an end: %+v", r)
	}
}

// outcome is what became of all tasks, without ids of rows and times.
func (w *troubledWorld) outcome() string {
	w.t.Helper()
	var out strings.Builder
	for i, m := range w.tasks {
		state := w.state(m.id)
		fmt.Fprint(&out, m.id, " ", state.StepsDone(), " gone ", !state.GoneAt.IsZero(), " unshown ", state.Unshown())
		if i != 2 { // whether that one is completed before its row is missed depends on the disturbance
			row := w.row(m.row)
			fmt.Fprint(&out, " ", state.Status, " on the board ", row.Status, " ", row.Derived[pipeline.FieldRemaining], " ", row.Derived[pipeline.FieldCompletion], " ", row.Checked, " completed ", row.Derived[pipeline.FieldCompletedAt] != "")
		}
		out.WriteString("\n")
	}
	return out.String()
}
