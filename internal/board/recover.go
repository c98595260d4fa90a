package board

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
)

// openJournal reads the log into an empty state and repairs a torn tail. An
// error matches ErrCorrupt if the file is damaged otherwise; then nothing has
// been changed.
func openJournal(path string, st *state, now time.Time, log *slog.Logger) (*journal, error) {
	file, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, file: file, log: log}
	err = j.recover(st, now)
	if err == nil {
		// What a killed process had written but not synced is shown to readers
		// from now on, so it must be durable from now on.
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	if j.puts > 2*st.size()+openGarbage {
		if err := j.compact(st); errors.Is(err, errUnknownState) {
			j.file.Close()
			return nil, err
		} else if err != nil {
			log.Warn("store not compacted", "err", err)
		}
	}
	return j, nil
}

// recover replays the file. Where the first unreadable line is one that no
// other line vouches for, it and what follows were never answered for: a torn
// write. Everything else that does not fit is corruption.
func (j *journal) recover(st *state, now time.Time) error {
	in := bufio.NewReaderSize(j.file, 1<<16)
	head, err := readLine(in)
	if err != nil {
		return err
	}
	var h header
	if jsonErr := json.Unmarshal(head.text, &h); jsonErr != nil || !head.ended || h.Format != journalFormat {
		return j.corrupt(1, "not the header of a board store")
	}
	if h.Version > journalVersion {
		return fmt.Errorf("%q has version %d, this program knows %d: use a newer one", j.path, h.Version, journalVersion)
	}
	j.size, j.synced = int64(len(head.text)), h.Synced
	for number := 2; ; number++ {
		l, err := readLine(in)
		if err != nil {
			return err
		}
		if len(l.text) == 0 {
			break
		}
		var e entry
		if json.Unmarshal(l.text, &e) != nil {
			return j.cutTail(in, l, number, now)
		}
		if e.Seq != j.seq+1 {
			return j.corrupt(number, fmt.Sprintf("entry %d follows entry %d", e.Seq, j.seq))
		}
		if err := st.apply(&e); err != nil {
			return j.corrupt(number, err.Error())
		}
		j.seq = e.Seq
		j.synced = max(j.synced, e.Synced)
		j.puts += e.size()
		j.size += int64(len(l.text))
		if !l.ended {
			return j.endLine(number)
		}
	}
	if j.seq < j.synced {
		return j.corrupt(int(j.seq)+2, fmt.Sprintf("the store ends after entry %d, and held %d", j.seq, j.synced))
	}
	j.synced = j.seq
	return nil
}

// cutTail handles the first unreadable line, bad. If it was answered for, the
// file is refused. Else the file is cut before it; whole lines that go with it
// are kept in a file of their own.
func (j *journal) cutTail(in *bufio.Reader, bad line, number int, now time.Time) error {
	tail := bytes.Clone(bad.text)
	vouched := j.synced
	for {
		l, err := readLine(in)
		if err != nil {
			return err
		}
		if len(l.text) == 0 {
			break
		}
		tail = append(tail, l.text...)
		var e struct{ Synced uint64 }
		if json.Unmarshal(l.text, &e) == nil {
			vouched = max(vouched, e.Synced)
		}
	}
	if vouched > j.seq {
		return j.corrupt(number, "unreadable, and later lines follow it")
	}
	facts := []any{"file", filepath.Base(j.path), "line", number, "bytes", len(tail)}
	if bytes.IndexByte(tail, '\n') >= 0 {
		aside := j.aside(now)
		if err := durable.WriteNew(aside, tail); err != nil {
			return fmt.Errorf("keep torn tail of %q: %w", j.path, err)
		}
		facts = append(facts, "kept_in", filepath.Base(aside))
	}
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	// If we crash here, the tail is gone or is found again.
	crash.Point("board.repaired")
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	j.synced = j.seq
	j.log.Warn("dropped torn record at the end of the store", facts...)
	return nil
}

// endLine completes the last line, of which only the line feed is missing.
func (j *journal) endLine(number int) error {
	if j.seq < j.synced {
		return j.corrupt(number, "the store ends before entries that were durable")
	}
	if _, err := j.file.Write([]byte("\n")); err != nil {
		return fmt.Errorf("end last line of %q: %w", j.path, err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("end last line of %q: %w", j.path, err)
	}
	j.size++
	j.synced = j.seq
	j.log.Info("completed last line of the store", "file", filepath.Base(j.path), "line", number)
	return nil
}

func (j *journal) corrupt(number int, what string) error {
	return fmt.Errorf("%w: %q line %d: %s", ErrCorrupt, j.path, number, what)
}

// A line is one line of the log with its line feed, if it has one. At the end
// of the file, text is empty.
type line struct {
	text  []byte
	ended bool
}

func readLine(in *bufio.Reader) (line, error) {
	text, err := in.ReadBytes('\n')
	switch {
	case err == nil:
		return line{text, true}, nil
	case errors.Is(err, io.EOF):
		return line{text, false}, nil
	}
	return line{}, err
}

// openOrCreateJournal opens the log at path; where there is none, it is made
// from what first returns.
func openOrCreateJournal(path string, st *state, now time.Time, log *slog.Logger, first func() []*entry) (*journal, error) {
	j, err := openJournal(path, st, now, log)
	if !errors.Is(err, os.ErrNotExist) {
		return j, err
	}
	if err := createJournal(path, first()); err != nil {
		return nil, fmt.Errorf("make store: %w", err)
	}
	// If we crash here, the next open finds the store made.
	crash.Point("board.created")
	return openJournal(path, st, now, log)
}
