package counter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"otm/internal/durable"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// Dir is the data directory as this package sees it. It is safe for use by several
// goroutines and processes.
type Dir struct {
	dir  string
	warn func(string)
	boot func() string // names the boot of the machine; "": not known
}

// Open returns the counter of a data directory. warn gets one sentence for each
// repair; it may be nil. Open reads and makes nothing.
func Open(dir string, warn func(string)) *Dir {
	if warn == nil {
		warn = func(string) {}
	}
	return &Dir{dir: dir, warn: warn, boot: durable.BootID}
}

// IDs lists the tasks that have a file in tasks/, in ascending order.
func (d *Dir) IDs() ([]pipeline.TaskID, error) {
	entries, err := durable.ReadDir(filepath.Join(d.dir, "tasks"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []pipeline.TaskID
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		if id, err := pipeline.ParseFileID(name); err == nil && id.String() == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Exists reports whether tasks/ has a file of the task.
func (d *Dir) Exists(id pipeline.TaskID) (bool, error) {
	_, err := durable.Stat(filepath.Join(d.dir, "tasks", id.String()+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Issued reports whether an id was given out, or lies below one that was. If the
// counter cannot be read, every id counts as issued.
func (d *Dir) Issued(id pipeline.TaskID) (bool, error) {
	next, err := d.Stored()
	if errors.Is(err, ErrBadCounter) {
		return true, nil
	}
	return int(id) < next, err
}

// Known reports whether an id was given out, or a create that waits in the inbox bears it. 0,
// which is no task, counts as given out.
func (d *Dir) Known(id pipeline.TaskID) (bool, error) {
	if issued, err := d.Issued(id); issued || err != nil {
		return issued, err
	}
	return d.InInbox(id)
}

// Raise makes sure that ids are never given out. It takes the lock only if the
// counter has to be raised. If an id is too far above the counter, the error is
// a *FarError, and the counter is raised above the others.
func (d *Dir) Raise(ctx context.Context, ids ...pipeline.TaskID) error {
	next, err := d.Stored()
	if err != nil || Above(pipeline.TaskID(next), ids...) != pipeline.TaskID(next) {
		c, err := d.Counter(ctx)
		if err != nil {
			return err
		}
		err = c.Raise(ids...)
		next = c.state.Next
		c.Release()
		if err != nil {
			return err
		}
	}
	if len(ids) > 0 && int(slices.Max(ids)) >= next {
		return &FarError{Next: pipeline.TaskID(next)}
	}
	return nil
}

// TakeOne gives an id out, durably.
func (d *Dir) TakeOne(ctx context.Context) (pipeline.TaskID, error) {
	c, err := d.Counter(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	return c.Take(1)
}

// RaiseAbove makes sure that no id on the board is given out: people type them as
// well. Call it after every walk, also another process's.
func (d *Dir) RaiseAbove(ctx context.Context, b pipeline.Batch) error {
	var ids []pipeline.TaskID
	for row := range b.Rows() {
		if id := row.Task(); id != 0 {
			ids = append(ids, id)
		}
	}
	var far *FarError // a person typed it, or another program
	if err := d.Raise(ctx, ids...); err != nil && !errors.As(err, &far) {
		return err
	}
	return nil
}

// MaxJump is how far above the counter an id from elsewhere may lie. One beyond it
// does not raise the counter, and a drop that bears it is refused: slips and
// mischief must not use up the ids. Such an id is not given out twice: it raises
// the counter once that has come near, and Take skips records that exist.
const MaxJump = 100_000

// FarError says that an id lies more than MaxJump above the counter.
type FarError struct {
	Next pipeline.TaskID // the counter
}

func (e *FarError) Error() string {
	return fmt.Sprintf("more than %d above %v, the next id to be given out", MaxJump, e.Next)
}

// Above returns the counter, now next, raised above each of the given ids that is
// at most MaxJump ahead of it.
func Above(next pipeline.TaskID, ids ...pipeline.TaskID) pipeline.TaskID {
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if id >= next && id-next <= MaxJump {
			next = id + 1
		}
	}
	return next
}

// UsedIDs reads all ids that files use: those of tasks, creates, and keys of otm-create. (Only a
// key may hold the id of a drop that is not delivered yet.) Updates do not count: a report on a task that does not exist must not use up an
// id.
func (d *Dir) UsedIDs() ([]pipeline.TaskID, error) {
	used, err := d.IDs()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{string(inbox.NewTasks), inbox.ProcessedDir, inbox.FailedDir, "keys"} {
		settled := dir == inbox.ProcessedDir || dir == inbox.FailedDir
		err := inbox.EachDrop(filepath.Join(d.dir, dir), func(o *drop.Object) {
			if !settled || o.Get("title") != nil { // else it is an update
				used = append(used, taskIDOf(o))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// InInbox reports whether a create for id waits in the inbox.
func (d *Dir) InInbox(id pipeline.TaskID) (bool, error) {
	found := false
	err := inbox.EachDrop(filepath.Join(d.dir, string(inbox.NewTasks)), func(o *drop.Object) {
		found = found || taskIDOf(o) == id
	})
	return found, err
}

// taskIDOf reads the taskId of a drop; 0 if there is no valid one.
func taskIDOf(o *drop.Object) pipeline.TaskID {
	var text string
	if json.Unmarshal(o.Get("taskId"), &text) != nil {
		return 0
	}
	id, err := pipeline.ParseFileID(text)
	if err != nil {
		return 0
	}
	return id
}
