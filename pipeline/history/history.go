// Package history keeps the tasks that left the board in one file, a line of JSON
// each. Lines are only ever added.
//
// The writer holds locks/board, so there is one. Append returns when its lines
// are durable and were read back: only then may their rows be deleted. If we crash
// while a line is written, the next Append moves the torn line into a file beside
// it (history.jsonl.torn-TIME). A whole line without its line feed, as editors
// leave it, is a line.
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

// Same reports whether two entries are of one task in one state: its row was to be
// deleted, and is still there.
func (e *Entry) Same(o *Entry) bool {
	return e.TaskID == o.TaskID && e.Row.ID == o.Row.ID && e.Row.Updated == o.Row.Updated && e.Row.Status == o.Row.Status
}

// FromRecord makes the entry of an archived task from its record, if the one of
// its row was lost. What only the row had is missing.
func FromRecord(r *pipeline.Record) Entry {
	e := Entry{TaskID: r.TaskID, Record: r, Row: pipeline.Row{
		ID: r.RowID, Title: r.Title, TaskID: r.TaskID.String(), Type: string(r.Type), Assignee: r.Agent, Project: r.Project,
		Priority: r.Priority, Status: r.Status, Reason: r.Reason, Result: r.Result, Created: r.CreatedAt.Unix(),
	}}
	if r.ArchivedAt != nil {
		e.ArchivedAt = *r.ArchivedAt
	}
	for _, s := range r.Steps {
		e.Steps = append(e.Steps, pipeline.Row{ID: s.RowID, Parent: r.RowID, Title: s.Title, Checked: s.Done})
	}
	return e
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
	end, err := mendEnd(f)
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
	if _, err := f.ReadAt(back, end); err != nil {
		return fmt.Errorf("read %s back: %w", FileName, err)
	}
	if !bytes.Equal(back, lines.Bytes()) {
		return fmt.Errorf("read %s back: it is not what was written", FileName)
	}
	crash.Point("history.after")
	return nil
}

// open opens the file. If it makes it, its name is durable.
func open(path string) (*durable.File, error) {
	err := mustBeFile(path)
	if err == nil {
		return durable.OpenFile(path, os.O_RDWR)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := durable.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mustBeFile refuses what is no file, also behind a link. Opening a pipe would
// block, and a dangling link means that the history is elsewhere, not that there
// is none.
func mustBeFile(path string) error {
	info, err := durable.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%q is not a file: move it away", path)
	case errors.Is(err, fs.ErrNotExist):
		if to, err := os.Readlink(path); err == nil {
			return fmt.Errorf("%q is a link to %q, which is not there: bring that back, or remove the link", path, to)
		}
	}
	return err
}

// mendEnd makes the file end with a whole line, and returns the offset of the
// next.
func mendEnd(f *durable.File) (end int64, err error) {
	start, size, err := lastLine(f)
	if err != nil || start == size {
		return size, err
	}
	tail := make([]byte, size-start)
	if _, err := f.ReadAt(tail, start); err != nil {
		return 0, err
	}
	if parse(tail) != nil {
		_, err := f.WriteAt([]byte("\n"), size)
		return size + 1, err // synced with what comes behind it
	}
	aside := f.Name() + ".torn-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := durable.WriteNew(aside, tail); err != nil {
		return 0, err
	}
	crash.Point("history.aside")    // it stands in both, and is put aside again
	return start, f.Truncate(start) // synced with what comes behind it
}

// lastLine returns the offset of an unfinished last line; size if there is none.
func lastLine(f *durable.File) (start, size int64, err error) {
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, 0, err
	}
	const step = 64 << 10
	for at := size; at > 0; {
		from := max(0, at-step)
		block := make([]byte, at-from)
		if _, err := f.ReadAt(block, from); err != nil {
			return 0, 0, err
		}
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			return from + int64(i) + 1, size, nil
		}
		at = from
	}
	return 0, size, nil
}

// parse reads a line; nil if it is no entry.
func parse(line []byte) *Entry {
	var e Entry
	if err := json.Unmarshal(withoutMark(line), &e); err != nil || e.TaskID == 0 {
		return nil
	}
	return &e
}

// withoutMark removes the byte order mark that some editors write.
func withoutMark(line []byte) []byte { return bytes.TrimPrefix(line, []byte("\ufeff")) }

// ErrNoEntry says that a line is no entry.
var ErrNoEntry = errors.New("is no entry")

// Read yields the entries of a data directory, oldest first. A bad line is yielded
// as ErrNoEntry, and reading goes on. Blank lines and a torn last one are skipped.
// Any other error ends it.
func Read(dir string) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		path := filepath.Join(dir, FileName)
		err := mustBeFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		f, err := durable.OpenFile(path, os.O_RDONLY)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		r := bufio.NewReader(f)
		for n := 1; ; n++ {
			line, err := r.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			last, goOn := err != nil, true
			switch e := parse(line); {
			case e != nil:
				goOn = yield(e, nil)
			case !last && len(bytes.TrimSpace(withoutMark(line))) > 0:
				goOn = yield(nil, fmt.Errorf("%s: line %d %w", FileName, n, ErrNoEntry))
			}
			if last || !goOn {
				return
			}
		}
	}
}
