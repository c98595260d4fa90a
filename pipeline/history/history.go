// Package history keeps the tasks that left the board, in one file, a line of
// JSON each. Lines are only ever added.
//
// Whoever appends holds locks/board, so there is one writer. A line is durable
// and was read back when Append returns: only then may its rows be deleted. If
// we crash while a line is written, the torn line is cut off by the next
// Append; nobody was told of it.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
)

// FileName is the name of the file in the data directory.
const FileName = "history.jsonl"

// Entry is a task as it left the board.
type Entry struct {
	ArchivedAt time.Time        `json:"archivedAt"`
	TaskID     pipeline.TaskID  `json:"taskId"`
	Row        pipeline.Row     `json:"row"`
	Steps      []pipeline.Row   `json:"steps"`            // in the order in which they were to be done
	Record     *pipeline.Record `json:"record,omitempty"` // nil: it was lost
}

// Same tells whether two entries are of one task in one state: its row was
// asked to be deleted, and stands there still.
func (e *Entry) Same(o *Entry) bool {
	return e.TaskID == o.TaskID && e.Row.ID == o.Row.ID && e.Row.Updated == o.Row.Updated && e.Row.Status == o.Row.Status
}

// Append adds entries to the file of a data directory.
func Append(dir string, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var lines bytes.Buffer
	for i := range entries {
		line, err := json.Marshal(&entries[i])
		if err != nil {
			return err
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	f, err := open(filepath.Join(dir, FileName))
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := cutTorn(f)
	if err != nil {
		return err
	}
	crash.Point("history.before")
	if _, err := f.WriteAt(lines.Bytes(), end); err != nil {
		return errors.Join(err, f.Truncate(end)) // a full disk: nothing of it is to be read as a line
	}
	crash.Point("history.written")
	if err := f.Sync(); err != nil {
		return err
	}
	back := make([]byte, lines.Len())
	if _, err := f.ReadAt(back, end); err != nil || !bytes.Equal(back, lines.Bytes()) {
		return fmt.Errorf("read %s back: it is not what was written (%w)", FileName, err)
	}
	crash.Point("history.after")
	return nil
}

// open opens the file, and makes it durable that it is there.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, durable.FileMode); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// cutTorn cuts off a last line that a crash tore, and returns where the next
// begins.
func cutTorn(f *os.File) (end int64, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return 0, err
	}
	const step = 64 << 10
	for at := size; at > 0; {
		from := max(0, at-step)
		block := make([]byte, at-from)
		if _, err := f.ReadAt(block, from); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			end = from + int64(i) + 1
			break
		}
		at = from
	}
	if end < size {
		return end, f.Truncate(end)
	}
	return end, nil
}

// Read yields the entries of a data directory, oldest first. A line that is no
// entry is yielded as an error, and does not keep the others; a torn last line
// is passed over.
func Read(dir string) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		f, err := os.Open(filepath.Join(dir, FileName))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		r := bufio.NewReader(f)
		for n := 1; ; n++ {
			line, err := r.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil || e.TaskID == 0 {
				if !yield(nil, fmt.Errorf("%s: line %d is no entry", FileName, n)) {
					return
				}
				continue
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}
