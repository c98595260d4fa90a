package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"otm/internal/crash"
	"otm/internal/durable"
)

const (
	journalFormat  = "otm-board"
	journalVersion = 1

	// The log is compacted when it holds several times what is alive, and this
	// many objects more. At open nobody waits, so it is done sooner.
	openGarbage = 256
	runGarbage  = 4096
)

// A header is the first line of the log.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Synced is the number of the last line of the file when it got its name.
	Synced uint64 `json:"synced"`
}

// A journal is the open log of entries. One transaction at a time uses it.
//
//	{"format":"otm-board","version":1,"synced":2}
//	{"seq":1,"lists":[{"id":"F…",…}]}
//	{"seq":2,"rows":[{"list":"F…","id":"Rec…",…}]}
//	{"seq":3,"at":"…","by":"U0OTMBOT","rows":[…]}
//
// Each line is synced before the next one is written, so a crash can damage the
// last line only. A fault in any other line is corruption and never cut off.
type journal struct {
	path string
	file logFile
	log  *slog.Logger

	size int64  // bytes that are good
	seq  uint64 // of the last line
	puts int    // objects in the log, alive or not
}

// A logFile is the file of a journal; tests let it fail.
type logFile interface {
	io.ReadWriteCloser
	Stat() (os.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// createJournal makes the file with the entries. It is durable and whole, or
// not there.
func createJournal(path string, entries []*entry) error {
	data, err := encodeWhole(entries)
	if err != nil {
		return err
	}
	return durable.WriteNew(path, data)
}

// encodeWhole encodes header and entries as a new file, numbering from one.
func encodeWhole(entries []*entry) ([]byte, error) {
	var buf bytes.Buffer
	h := header{Format: journalFormat, Version: journalVersion, Synced: uint64(len(entries))}
	if err := encodeLine(&buf, h); err != nil {
		return nil, err
	}
	for i, e := range entries {
		e.Seq = uint64(i + 1)
		if err := encodeLine(&buf, e); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), nil
}

// encodeLine appends v as one line. HTML is not escaped, so that text that was
// stored as raw JSON comes back byte for byte.
func encodeLine(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// append makes the entry durable. On errNotWritten the file is as before; on
// errUnknownState nothing is known about it.
func (j *journal) append(e *entry) error {
	var buf bytes.Buffer
	e.Seq = j.seq + 1
	if err := encodeLine(&buf, e); err != nil {
		return fmt.Errorf("%w: encode entry: %v", errNotWritten, err)
	}
	if _, err := j.file.Write(buf.Bytes()); err != nil {
		return j.undo(err)
	}
	// If we crash here, any part of the line may be in the file, but nobody has
	// an answer; recovery keeps a whole line and cuts a torn one.
	crash.Point("board.appended")
	if err := j.file.Sync(); err != nil {
		// The kernel may have dropped the pages and report success next time.
		return fmt.Errorf("%w: sync %q: %v", errUnknownState, j.path, err)
	}
	j.size += int64(buf.Len())
	j.seq = e.Seq
	j.puts += e.size()
	return nil
}

// undo cuts off what a failed write left behind, such as on a full disk.
func (j *journal) undo(cause error) error {
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("%w: %v, then %v", errUnknownState, cause, err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("%w: %v, then sync: %v", errUnknownState, cause, err)
	}
	return fmt.Errorf("%w: %v", errNotWritten, cause)
}

// grown reports whether the log is mostly history: several times what is alive,
// and more than the given number of objects.
func (j *journal) grown(st *state, garbage int) bool {
	return j.puts > 4*st.size()+garbage
}

// compact rewrites the log with what is alive. If it fails, the old log stays
// in use, unless the error matches errUnknownState.
func (j *journal) compact(st *state) error {
	entries := st.snapshot()
	data, err := encodeWhole(entries)
	if err != nil {
		return fmt.Errorf("compact %q: %w", j.path, err)
	}
	// If we crash here, the old log stands.
	crash.Point("board.compacting")
	if err := durable.Replace(j.path, data); err != nil {
		j.puts /= 2 // try again only after the log has grown again
		return j.judgeReplace(err)
	}
	// If we crash here, the new log stands; it holds the same.
	crash.Point("board.compacted")
	file, err := openAppend(j.path)
	if err != nil {
		return fmt.Errorf("%w: reopen after compaction: %v", errUnknownState, err)
	}
	j.file.Close() // the old file has no name any more
	j.file = file
	before := j.size
	j.size = int64(len(data))
	j.seq = uint64(len(entries))
	j.puts = st.size()
	j.log.Info("compacted store", "bytes_before", before, "bytes", j.size)
	return nil
}

// judgeReplace distinguishes a replacement that did not happen from one whose
// outcome is unknown. Our handle must be the file that has the name, or what we
// append would be lost with the old one.
func (j *journal) judgeReplace(cause error) error {
	named, err := durable.Stat(j.path)
	if err != nil {
		return fmt.Errorf("%w: compact: %v, then %v", errUnknownState, cause, err)
	}
	ours, err := j.file.Stat()
	if err != nil || !os.SameFile(named, ours) {
		return fmt.Errorf("%w: compact %q: %v", errUnknownState, j.path, cause)
	}
	return fmt.Errorf("compact %q: %w", j.path, cause)
}

func (j *journal) close() error { return j.file.Close() }

func openAppend(path string) (*durable.File, error) {
	return durable.OpenFile(path, os.O_RDWR|os.O_APPEND)
}

// size is how many objects the state would put into a fresh log.
func (s *state) size() int {
	n := 0
	for _, sh := range s.shelves {
		n += 1 + len(sh.rows) + len(sh.gone)
	}
	return n
}

// goneChunk keeps the lines of tombstones short.
const goneChunk = 1000

// snapshot returns entries that make this state out of an empty one.
func (s *state) snapshot() []*entry {
	var entries []*entry
	for _, sh := range s.lists() {
		l := sh.list.Clone()
		l.Updated, l.Editor = sh.updated, sh.editor
		entries = append(entries, &entry{Lists: []*List{l}})
		rows := slices.Clone(sh.order)
		slices.SortFunc(rows, byCreation)
		for _, r := range rows {
			entries = append(entries, &entry{Rows: []*Row{r}})
		}
		var refs []rowRef
		for id := range sh.gone {
			refs = append(refs, rowRef{l.ID, id})
		}
		for chunk := range slices.Chunk(refs, goneChunk) {
			entries = append(entries, &entry{Deleted: chunk})
		}
	}
	return entries
}
