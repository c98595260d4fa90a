package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
)

const (
	journalFormat  = "otm-board"
	journalVersion = 1

	// Compaction pays when the log holds several times what is alive. At open
	// nobody waits, so it is done sooner than at run time.
	openGarbage = 256
	runGarbage  = 4096
)

// A header is the first line of the log.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Synced is the last line that was durable when the file got its name.
	Synced uint64 `json:"synced"`
}

// A journal is the open log of entries. Only the committer uses it.
//
//	{"format":"otm-board","version":1,"synced":2}
//	{"seq":1,"synced":0,"lists":[{"id":"F…",…}]}
//	{"seq":2,"synced":0,"rows":[{"list":"F…","id":"Rec…",…}]}
//	{"seq":3,"synced":2,"at":"…","by":"U0OTMBOT","rows":[…]}
//
// The number in synced tells a torn write from damage: lines that a later line
// vouches for were answered for, and a fault there is never cut off.
type journal struct {
	path string
	file logFile
	log  *slog.Logger

	size   int64  // bytes that are good
	seq    uint64 // of the last line
	synced uint64 // last line that is durable
	puts   int    // objects in the log, living or not
}

// A logFile is the file of a journal; tests let it fail.
type logFile interface {
	io.ReadWriteCloser
	Stat() (os.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// createJournal makes the file with the entries, durable and whole.
//
//	durable.WriteNew(path)
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
		e.Seq, e.Synced = uint64(i+1), 0
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

// append makes the entries durable. On errNotWritten the file is as before; on
// errUnknownState it is not known how it is.
//
//	write(all lines) fsync
func (j *journal) append(entries []*entry) error {
	var buf bytes.Buffer
	seq, puts := j.seq, 0
	for _, e := range entries {
		seq++
		e.Seq, e.Synced = seq, j.synced
		puts += e.size()
		if err := encodeLine(&buf, e); err != nil {
			return fmt.Errorf("%w: encode entry: %v", errNotWritten, err)
		}
	}
	if _, err := j.file.Write(buf.Bytes()); err != nil {
		return j.undo(err)
	}
	// If we crash here, any part of what was written may be in the file, but
	// nobody was told; recovery keeps whole lines and cuts the torn one.
	crash.Point("board.appended")
	if err := j.file.Sync(); err != nil {
		// The kernel may have dropped the pages and report success next time.
		return fmt.Errorf("%w: sync %q: %v", errUnknownState, j.path, err)
	}
	j.size += int64(buf.Len())
	j.seq, j.synced = seq, seq
	j.puts += puts
	return nil
}

// undo cuts off what a failed write has left, as on a full disk.
func (j *journal) undo(cause error) error {
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("%w: %v, then %v", errUnknownState, cause, err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("%w: %v, then sync: %v", errUnknownState, cause, err)
	}
	return fmt.Errorf("%w: %v", errNotWritten, cause)
}

// grown says whether the log is mostly history.
func (j *journal) grown(st *state) bool {
	return j.puts > 4*st.size()+runGarbage
}

// compact rewrites the log as what is alive. If it fails, the old log goes on,
// unless the error matches errUnknownState.
//
//	durable.Replace(path) open(path)
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
	j.synced = j.seq
	j.puts = st.size()
	j.log.Info("compacted store", "bytes_before", before, "bytes", j.size)
	return nil
}

// reclaim writes the log anew where somebody removed it, put another file in its
// place or wrote into it: what was answered for stands nowhere else. What is there
// is kept beside it. It tells whether it did. An error matches errNotWritten: the
// next write tries again.
//
//	link(path, aside) durable.Replace(path)
func (j *journal) reclaim(st *state) (anew bool, err error) {
	named, err := durable.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.log.Error("somebody removed the store while the board ran; it is written anew")
	case err != nil:
		return false, fmt.Errorf("%w: %v", errNotWritten, err)
	default:
		ours, err := j.file.Stat()
		if err != nil {
			return false, fmt.Errorf("%w: %v", errNotWritten, err)
		}
		if os.SameFile(named, ours) && named.Size() == j.size {
			return false, nil
		}
		aside := j.aside(named.ModTime()) // the same if we come here again
		if err := os.Link(j.path, aside); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, fmt.Errorf("%w: keep what somebody else put into %q: %v", errNotWritten, j.path, err)
		}
		j.log.Error("somebody changed the store while the board ran; it is written anew", "kept_in", filepath.Base(aside))
	}
	// If we crash here, what somebody else put there is what the next start finds.
	if err := j.compact(st); err != nil {
		return false, fmt.Errorf("%w: %v", errNotWritten, err)
	}
	return true, nil
}

// aside is where something is kept that stood in the log and is none of it.
func (j *journal) aside(now time.Time) string {
	return j.path + ".torn-" + now.UTC().Format("20060102T150405.000000000Z")
}

// judgeReplace tells a replacement that did not happen from one of which we
// cannot know: our handle must be the file that has the name, or what we
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

// forgetDeleted lets go of the deleted rows, as a compacted log does; their
// ids stay.
func (s *state) forgetDeleted() {
	for _, sh := range s.shelves {
		for id := range sh.gone {
			sh.gone[id] = nil
		}
	}
}

// goneChunk keeps the lines of tombstones short.
const goneChunk = 1000

// snapshot returns entries that make this state out of an empty one.
func (s *state) snapshot() []*entry {
	var entries []*entry
	for _, sh := range slices.Backward(s.lists()) {
		l := sh.list.clone()
		l.Updated, l.Editor = sh.updated, sh.editor
		entries = append(entries, &entry{Lists: []*list{l}})
		rows := slices.Clone(sh.order)
		slices.SortFunc(rows, byCreation)
		for _, r := range rows {
			entries = append(entries, &entry{Rows: []*row{r}})
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
