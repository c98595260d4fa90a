package board

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A formerEntry is a line of the rows.jsonl of a former version, after its header:
//
//	{"format":"otm-board","version":1}
//	{"seq":1,"lists":[{"id":"F…",…}]}
//	{"seq":2,"at":"…","by":"U0OTMBOT","rows":[{"list":"F…","id":"Rec…",…}]}
type formerEntry struct {
	Seq     int     `json:"seq"` // one more than the line before
	Lists   []*List `json:"lists"`
	Rows    []*Row  `json:"rows"`
	Deleted []struct {
		List string `json:"list"`
		ID   string `json:"id"`
	} `json:"deleted"`
	Dropped []string `json:"dropped"` // ids of lists
}

// importFormer puts the rows of a rows.jsonl into an empty database. A crash may have torn
// its last line; nobody had an answer for it. The error matches ErrCorrupt if the file is
// damaged where no crash can have damaged it.
func importFormer(t *Tx, path string, data []byte) error {
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	var header struct{ Format string }
	if json.Unmarshal(lines[0], &header) != nil || header.Format != "otm-board" {
		return fmt.Errorf("%w: %q line 1: not the header of a board store", ErrCorrupt, path)
	}
	for i, line := range lines[1:] {
		var e formerEntry
		err := json.Unmarshal(line, &e)
		if err != nil && i+2 == len(lines) {
			return nil // torn
		}
		if err != nil || e.Seq != i+1 {
			return fmt.Errorf("%w: %q line %d: unreadable, or out of order", ErrCorrupt, path, i+2)
		}
		e.apply(t)
	}
	return nil
}

func (e *formerEntry) apply(t *Tx) {
	for _, l := range e.Lists {
		t.PutList(l)
	}
	for _, r := range e.Rows {
		t.PutRow(r)
	}
	for _, d := range e.Deleted {
		t.exec("DELETE FROM rows WHERE list = $1 AND id = $2", d.List, d.ID)
	}
	for _, id := range e.Dropped {
		delete(t.lists, id)
		t.exec("DELETE FROM lists WHERE id = $1", id)
		t.exec("DELETE FROM rows WHERE list = $1", id)
	}
}
