package board

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A former is the rows.jsonl of a former version: a header, then one transaction a
// line. A crash may have torn the last line; nobody had an answer for it.
//
//	{"format":"otm-board","version":1,"synced":2}
//	{"seq":1,"lists":[{"id":"F…",…}]}
//	{"seq":2,"at":"…","by":"U0OTMBOT","rows":[{"list":"F…","id":"Rec…",…}]}
type former struct {
	path string
	data []byte
}

type formerHeader struct {
	Format string `json:"format"`
	Synced uint64 `json:"synced"` // the file never had fewer lines than this
}

type formerEntry struct {
	Seq     uint64  `json:"seq"` // one more than the line before
	Lists   []*List `json:"lists"`
	Rows    []*Row  `json:"rows"`
	Deleted []struct {
		List string `json:"list"`
		ID   string `json:"id"`
	} `json:"deleted"`
	Dropped []string `json:"dropped"` // ids of lists
}

// importInto puts the rows of the file into an empty database. The error matches
// ErrCorrupt if the file is damaged where no crash can have damaged it.
func (f *former) importInto(t *Tx) error {
	lines := bytes.Split(bytes.TrimSuffix(f.data, []byte("\n")), []byte("\n"))
	var h formerHeader
	if json.Unmarshal(lines[0], &h) != nil || h.Format != "otm-board" {
		return f.corrupt(1, "not the header of a board store")
	}
	seq := uint64(0)
	for i, line := range lines[1:] {
		var e formerEntry
		if json.Unmarshal(line, &e) != nil {
			if i+2 == len(lines) {
				break // torn
			}
			return f.corrupt(i+2, "unreadable, and later lines follow it")
		}
		if seq++; e.Seq != seq {
			return f.corrupt(i+2, fmt.Sprintf("entry %d stands where entry %d belongs", e.Seq, seq))
		}
		if err := e.apply(t); err != nil {
			return f.corrupt(i+2, err.Error())
		}
	}
	if seq < h.Synced {
		return f.corrupt(len(lines)+1, fmt.Sprintf("the store ends after entry %d, and held %d", seq, h.Synced))
	}
	return nil
}

func (f *former) corrupt(number int, what string) error {
	return fmt.Errorf("%w: %q line %d: %s", ErrCorrupt, f.path, number, what)
}

func (e *formerEntry) apply(t *Tx) error {
	for _, l := range e.Lists {
		t.PutList(l)
	}
	for _, r := range e.Rows {
		if t.List(r.List) == nil {
			return fmt.Errorf("row %q of list %q, which does not exist", r.ID, r.List)
		}
		t.PutRow(r)
	}
	for _, d := range e.Deleted {
		if t.List(d.List) == nil {
			return fmt.Errorf("deletion in list %q, which does not exist", d.List)
		}
		t.exec("INSERT OR IGNORE INTO deleted (list, id) VALUES ($1, $2)", d.List, d.ID)
		t.exec("DELETE FROM rows WHERE list = $1 AND id = $2", d.List, d.ID)
	}
	for _, id := range e.Dropped {
		delete(t.lists, id)
		t.exec("DELETE FROM lists WHERE id = $1", id)
		t.exec("DELETE FROM rows WHERE list = $1", id)
	}
	return nil
}
