package inject

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// TestDiskFailsAtEachPlace: wherever the disk refuses something once that the next
// file would not meet as well, the next sweeps finish what was begun, as after a
// kill.
func TestDiskFailsAtEachPlace(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	crashtest.EachPlace(t, syscall.EBUSY, "otm/pipeline/inject", func(refuse crashtest.Refuse) {
		t.Run("", func(t *testing.T) { // as thousands of worlds at once are too many
			w := newTroubledWorld(t)
			refused, err := refuse(w.dir, func() error { return w.disturbed(t.Context()) })
			w.holdAgainst(want, "refused "+refused.String(), err)
		})
	})
}

// TestDiskFailsFromEachPlaceOn: the same wherever it begins to refuse all.
func TestDiskFailsFromEachPlaceOn(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	crashtest.OnceAtEachPlace(t, "otm/pipeline/inject", func(now func() bool) {
		w := newTroubledWorld(t)
		w.disturb(func(b *boardtest.Disturbed) { short(b, nil) })
		var bad, mended atomic.Bool
		crashtest.Below(t, w.dir, func(string, string) error {
			if mended.Load() || !bad.Load() && !now() {
				return nil
			}
			bad.Store(true)
			return syscall.EIO
		})
		err := w.disturbed(t.Context())
		mended.Store(true)
		if bad.Load() && !errors.Is(err, syscall.EIO) {
			t.Errorf("all is refused, and was told: %v", err)
		}
		w.holdAgainst(want, "all refused", err)
	})
}

// TestUnreadIsNotOvertaken: an update that could not be read, or of which nobody
// could tell whether it is settled, comes before the later ones all the same.
func TestUnreadIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"task-updates", "processed"} {
		for _, refusal := range []error{syscall.EIO, syscall.EBUSY} {
			w := newWorld(t)
			w.createFor("olga", 1, "Hers", "a")
			w.sweepTo(1, 0, 0)
			first := w.update(1, report{result: "r1"})
			w.update(1, report{status: pipeline.AgentDone, steps: []string{"a"}, result: "r2"})
			refused, over := false, false
			crashtest.Below(t, w.dir, func(step, path string) error {
				if over || step != "read" || !strings.HasSuffix(path, dir+"/"+first) {
					return nil
				}
				refused = true
				return refusal
			})
			w.sweepTo(0, 0, 2)
			over = true
			w.sweepTo(2, 0, 0)
			if row := w.row(1); !refused || row.Result != "r2" || row.Status != pipeline.AgentDone {
				t.Errorf("%v in %s: %+v", refusal, dir, row)
			}
		}
	}
}

// TestUnreadHoldsUpNobodyForEver: an update that stays unreadable is passed by.
func TestUnreadHoldsUpNobodyForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "a")
	w.sweepTo(1, 0, 0)
	bad := w.update(2, report{result: "r1"})
	w.update(1, report{result: "r2"})
	crashtest.Below(t, w.dir, func(step, path string) error {
		if step == "read" && strings.HasSuffix(path, "task-updates/"+bad) {
			return syscall.EBUSY
		}
		return nil
	})
	w.sweepTo(0, 0, 2)
	w.clock.Advance(w.times.UpdateWait + time.Second)
	w.sweepTo(1, 0, 1)
}
