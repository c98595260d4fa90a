package counter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
)

const (
	// lockWait is how long to wait for the counter.
	lockWait = 10 * time.Second
	// block is how many ids one sync makes durable.
	block = 32
	// fileWidth is the length in bytes of the file, padded with blanks: next is
	// overwritten in place.
	fileWidth = 48

	counterFile = "next-task-id.json"
)

// ErrIDsUsedUp says that the last id, T-999999999, was given out.
var ErrIDsUsedUp = errors.New("all task ids are used up")

// ErrBadCounter says that the counter's file is missing or holds no counter. The
// next command that takes an id repairs it.
var ErrBadCounter = errors.New("counter unusable")

// Counter is the counter with its lock held. Release it soon: every create
// waits for it.
type Counter struct {
	dir     *Dir
	lock    *lock.Lock
	state   state // next, and the durable that a sync has confirmed
	file    state // what stands in the file
	inPlace bool  // the file's bytes are those that encode makes of file
}

// state is the content of the counter's file. The package comment explains it.
type state struct {
	Next    int `json:"next"`
	Durable int `json:"durable"`
}

// note is the note in the counter's lock file: the state after its write has
// returned, with the boot of the machine.
type note struct {
	state
	Boot string `json:"boot"`
}

// possible reports whether a counter can stand at n: at the next id, or at the
// number after the last one.
func possible(n int) bool { return n >= 1 && n <= int(pipeline.MaxTaskID)+1 }

// encode returns the content of the file, of fileWidth bytes.
func (s state) encode() []byte {
	return fmt.Appendf(nil, "%-*s\n", fileWidth-1, fmt.Sprintf(`{"next":%d,"durable":%d}`, s.Next, s.Durable))
}

// decode reads the content of the file. A file without durable was written by an
// earlier version, which synced each next.
func decode(data []byte) (state, error) {
	var s struct{ Next, Durable *int }
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("%w: %s holds %.40q", ErrBadCounter, counterFile, data)
	}
	switch {
	case s.Next != nil && s.Durable == nil && possible(*s.Next):
		return state{*s.Next, *s.Next}, nil
	case s.Durable == nil || !possible(*s.Durable):
		return state{}, fmt.Errorf("%w: %s holds %.40q", ErrBadCounter, counterFile, data)
	case s.Next == nil || !possible(*s.Next) || *s.Next > *s.Durable:
		return state{*s.Durable, *s.Durable}, nil
	}
	return state{*s.Next, *s.Durable}, nil
}

// Counter takes the counter's lock, waiting up to 10 s, and reads it. The error is
// a *lock.HeldError if another process keeps it longer. Counter locks the data
// directory as well: no id may be given out twice even if somebody removes the
// lock files.
func (d *Dir) Counter(ctx context.Context) (*Counter, error) {
	l, err := lock.AcquireIn(ctx, d.dir, d.lockPath(), lockWait)
	if err != nil {
		return nil, err
	}
	c := &Counter{dir: d, lock: l}
	loaded := false
	defer func() {
		if !loaded { // also if a test's crash unwinds load
			l.Release()
		}
	}()
	if err := c.load(); err != nil {
		return nil, err
	}
	loaded = true
	return c, nil
}

// Release gives the lock back.
func (c *Counter) Release() { c.lock.Release() }

// reading is the counter and its copy, as they are found.
type reading struct {
	state   state // what counts of the file
	file    state
	inPlace bool
	bad     error // matches ErrBadCounter
	reached int   // the next that counts of the note; 0 if there is none, or a torn one
	current bool  // the note is of this boot, so that next counts
}

// read reads the counter without a lock. If next is not of this boot, the state's
// next is durable. If it is, durable is what the note knows: a process that is
// killed while it replaces the file leaves one whose name may not be durable.
func (d *Dir) read() (reading, error) {
	var r reading
	left, err := lock.Note(d.lockPath())
	if err != nil {
		return r, err
	}
	var n note
	if json.Unmarshal(left, &n) != nil || !possible(n.Next) || n.Durable != 0 && !possible(n.Durable) {
		n = note{}
	}
	data, err := durable.ReadFile(d.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.bad = fmt.Errorf("%w: %s is missing", ErrBadCounter, counterFile)
	case errors.Is(err, durable.ErrNoFile):
		r.bad = fmt.Errorf("%w: %s %w", ErrBadCounter, counterFile, durable.ErrNoFile)
	case err != nil:
		return r, err
	default:
		r.file, r.bad = decode(data)
		r.inPlace = bytes.Equal(data, r.file.encode())
	}
	r.current = n.Boot != "" && n.Boot == d.boot()
	if r.current {
		r.reached = n.Next
		r.state = state{r.file.Next, min(r.file.Durable, n.Durable)}
	} else {
		r.reached = max(n.Next, n.Durable)
		r.state = state{r.file.Durable, r.file.Durable}
	}
	return r, nil
}

// Stored returns the next id, without a lock. The error matches ErrBadCounter if
// the counter's file holds none.
func (d *Dir) Stored() (int, error) {
	r, err := d.read()
	return r.state.Next, errors.Join(err, r.bad)
}

// load finds the next id. A good counter costs two reads and one stat. A damaged
// one, or one that was set back, is repaired from the ids in use, with a warning.
func (c *Counter) load() error {
	r, err := c.dir.read()
	if err != nil {
		return err
	}
	c.state, c.file, c.inPlace = r.state, r.file, r.inPlace
	exists, err := c.dir.Exists(pipeline.TaskID(r.state.Next))
	if err != nil {
		return err
	}
	wrong := ""
	switch {
	case r.bad != nil:
		wrong = r.bad.Error()
	case r.state.Next < r.reached:
		wrong = fmt.Sprintf("%s says %d, but %d was reached before", counterFile, r.state.Next, r.reached)
	case exists:
		wrong = fmt.Sprintf("%s says %d, but that task exists", counterFile, r.state.Next)
	case r.current || c.dir.boot() == "":
		return nil
	default: // from here on the file's next is of this boot
		return c.put(r.state)
	}
	used, err := c.dir.UsedIDs()
	if err != nil {
		return fmt.Errorf("look for the task ids in use: %w", err)
	}
	next := pipeline.TaskID(max(r.state.Next, r.reached, 1))
	if r.bad != nil && len(used) > 0 {
		next = max(next, slices.Min(used)) // nothing else tells where the ids begin
	}
	next = Above(next, used...)
	c.dir.warn(fmt.Sprintf("%s; going on with %v", wrong, next))
	return c.put(state{int(next), int(next)})
}

// Take gives out n ids in a row and returns the first. It has made sure on return
// that no crash or power failure lets them be given out again: if they are not
// used, they stay unused.
func (c *Counter) Take(n int) (pipeline.TaskID, error) {
	first := pipeline.TaskID(c.state.Next)
	for i := first; n <= int(pipeline.MaxTaskID-first)+1 && i < first+pipeline.TaskID(n); i++ {
		exists, err := c.dir.Exists(i)
		if err != nil {
			return 0, err
		}
		if exists { // far ahead of us when it came
			first = i + 1
		}
	}
	if n > int(pipeline.MaxTaskID-first)+1 {
		return 0, ErrIDsUsedUp
	}
	if err := c.advance(int(first) + n); err != nil {
		return 0, err
	}
	return first, nil
}

// Raise makes sure that ids which came from elsewhere are never given out.
func (c *Counter) Raise(ids ...pipeline.TaskID) error {
	next := Above(pipeline.TaskID(c.state.Next), ids...)
	if int(next) == c.state.Next {
		return nil
	}
	return c.advance(int(next))
}

// advance sets next, and makes a block of ids durable if next passes durable.
func (c *Counter) advance(next int) error {
	s := state{next, c.state.Durable}
	switch {
	case next <= s.Durable:
	case c.dir.boot() == "": // nothing tells of a restart
		s.Durable = next
	default:
		s.Durable = (next + block - 1) / block * block
	}
	return c.put(s)
}

// put writes the state: in place, unless durable rises. The note comes last: if we
// crash before, the file is ahead of it, and right.
func (c *Counter) put(s state) error {
	crash.Point("counter.before")
	if s != c.file {
		write := durable.Replace
		if c.inPlace && s.Durable <= c.state.Durable {
			write = overwrite
		}
		if err := write(c.dir.path(), s.encode()); err != nil {
			return err
		}
		c.file, c.inPlace = s, true
	}
	c.state = s
	crash.Point("counter.after")
	copied, err := json.Marshal(note{s, c.dir.boot()})
	if err != nil {
		return err
	}
	c.lock.SetNote(copied) // if it fails, durable counts
	return nil
}

// overwrite writes over the content of a file, which has the same length. It is not
// durable. All of it lies in one sector, so that after a power failure the file
// holds what it held before, or data.
func overwrite(path string, data []byte) error {
	f, err := durable.OpenFile(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	return err
}

func (d *Dir) path() string { return filepath.Join(d.dir, counterFile) }

func (d *Dir) lockPath() string { return filepath.Join(d.dir, "locks", "next-task-id") }
