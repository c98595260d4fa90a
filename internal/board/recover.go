package board

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"otm/internal/crash"
)

// openJournal reads the log into an empty state and repairs a torn tail. An
// error matches ErrCorrupt if the file is damaged otherwise; then nothing has
// been changed.
func openJournal(path string, st *state, log *slog.Logger) (*journal, error) {
	file, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, file: file, log: log}
	err = j.recover(st)
	if err == nil {
		// A killed process may have written a line without a sync. Readers see it
		// from now on, so it must be durable, as must a repair.
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	if j.grown(st, openGarbage) {
		if err := j.compact(st); errors.Is(err, errUnknownState) {
			j.file.Close()
			return nil, err
		} else if err != nil {
			log.Warn("store not compacted", "err", err)
		}
	}
	return j, nil
}

// recover replays the file. An unreadable last line is a torn write; any other
// misfit is corruption.
func (j *journal) recover(st *state) error {
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
	j.size = int64(len(head.text))
	var last line // with its text if it is unreadable
	last.ended = true
	for number := 2; ; number++ {
		l, err := readLine(in)
		switch {
		case err != nil:
			return err
		case len(l.text) == 0 && j.seq < h.Synced:
			return j.corrupt(number, fmt.Sprintf("the store ends after entry %d, and held %d", j.seq, h.Synced))
		case len(l.text) == 0:
			return j.mendEnd(last, number-1)
		case last.text != nil:
			return j.corrupt(number-1, "unreadable, and later lines follow it")
		}
		last.ended = l.ended
		var e entry
		if json.Unmarshal(l.text, &e) != nil {
			last.text = l.text
			continue
		}
		if e.Seq != j.seq+1 {
			return j.corrupt(number, fmt.Sprintf("entry %d follows entry %d", e.Seq, j.seq))
		}
		if err := st.apply(&e); err != nil {
			return j.corrupt(number, err.Error())
		}
		j.seq = e.Seq
		j.puts += e.size()
		j.size += int64(len(l.text))
	}
}

// mendEnd cuts off an unreadable last line, and ends a readable one that lacks
// its line feed.
func (j *journal) mendEnd(last line, number int) error {
	if last.text != nil {
		if err := j.file.Truncate(j.size); err != nil {
			return fmt.Errorf("cut torn tail: %w", err)
		}
		// If we crash here, the tail is gone or is found again.
		crash.Point("board.repaired")
		j.log.Warn("dropped torn record at the end of the store", "file", rowsFile, "line", number, "bytes", len(last.text))
	} else if !last.ended {
		if _, err := j.file.Write([]byte("\n")); err != nil {
			return fmt.Errorf("end last line of %q: %w", j.path, err)
		}
		j.size++
		j.log.Info("completed last line of the store", "file", rowsFile, "line", number)
	}
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

// openOrCreateJournal opens the log in dir. If there is none, it is made with
// the entries that first returns.
func openOrCreateJournal(dir string, st *state, log *slog.Logger, first func() []*entry) (*journal, error) {
	path := filepath.Join(dir, rowsFile)
	j, err := openJournal(path, st, log)
	if !errors.Is(err, os.ErrNotExist) {
		return j, err
	}
	if err := createJournal(path, first()); err != nil {
		return nil, fmt.Errorf("make store: %w", err)
	}
	// If we crash here, the next open finds the store made.
	crash.Point("board.created")
	return openJournal(path, st, log)
}
