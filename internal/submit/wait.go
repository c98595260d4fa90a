package submit

import (
	"context"
	"fmt"
	"time"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline/inbox"
)

// A look for a settled file costs two system calls, and these commands link no
// watcher. So they look again and again, less often as time goes by.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// await waits until all drops are settled, the time is over, or ctx ends. In the
// last two cases the drops stay, and the exit code is cli.TryLater.
func (b *base) await(ctx context.Context, drops []dropped) error {
	deadline := time.Now().Add(b.waitFor)
	failed := false
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		var left []dropped
		for _, d := range drops {
			result, settled, err := b.settled(d)
			switch {
			case err != nil:
				return err
			case !settled:
				left = append(left, d)
			case result.Class != "":
				failed = true
				b.reportFailure(d, result)
			}
		}
		drops = left
		if len(drops) == 0 || !time.Now().Before(deadline) || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(pause, time.Until(deadline))):
		}
	}
	for _, d := range drops {
		if d.kind == inbox.NewTasks {
			b.Note("%v is queued; do not create it again", d.id)
		} else {
			b.Note("the update of %v is queued; do not send it again", d.id)
		}
	}
	e := cli.Exit(cli.Failed)
	switch {
	case len(drops) == 0 && !failed:
		return nil
	case !failed:
		b.Note("that is no failure (exit %d): the injector brings it in as soon as it runs", cli.TryLater)
		e.Code = cli.TryLater
	}
	switch len(drops) {
	case 0:
		return e
	case 1:
		return e.Hint("otm why %v", drops[0].id)
	}
	return e.Hint("otm why --all")
}

func (b *base) settled(d dropped) (inbox.Result, bool, error) {
	if waits, err := b.box.Waiting(d.kind, d.name); waits || err != nil {
		return inbox.Result{}, false, err
	}
	result, settled, err := b.box.Find(d.kind, d.name, d.data)
	if d.data == nil && err == nil && !settled {
		settled = true // it was delivered once, and has been cleared away since
	}
	return result, settled, err
}

func (b *base) reportFailure(d dropped, r inbox.Result) {
	fmt.Fprintf(b.Err, "otm: error: %v: %s\n", d.id, safe.Escape(r.Error))
	if r.Hint != "" {
		fmt.Fprintf(b.Err, "otm: hint: %s\n", safe.Escape(r.Hint))
	}
}
