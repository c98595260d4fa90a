package board_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// object and array are decoded JSON.
type (
	object = map[string]any
	array  = []any
)

// dig walks into decoded JSON by member names and indices.
func dig(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch at := step.(type) {
		case string:
			m, ok := v.(object)
			if !ok {
				t.Fatalf("%v: %v is no object", path[:i], v)
			}
			v = m[at]
		case int:
			a, ok := v.(array)
			if !ok || at >= len(a) {
				t.Fatalf("%v: no element %d in %v", path[:i], at, v)
			}
			v = a[at]
		}
	}
	return v
}

// decode turns JSON text into what an answer decodes to.
func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// wantCode fails unless the answer is an error with the code, or ok for "".
func wantCode(t *testing.T, answer object, code string) {
	t.Helper()
	if code == "" {
		if answer["ok"] != true {
			t.Errorf("got %v, want ok", answer)
		}
		return
	}
	if answer["ok"] != false || answer["error"] != code {
		t.Errorf("got %v, want error %q", answer, code)
	}
}

// codeOf is the code of an edit's error, "" for none.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := err.(*board.Error)
	if !ok {
		t.Fatalf("got error %v, want a *board.Error", err)
	}
	return e.Code
}

// listAll walks all pages of the list.
func listAll(t *testing.T, b *boardtest.Board, listID string, limit int) []object {
	t.Helper()
	var items []object
	cursor := ""
	for {
		answer := b.Must(t, "slackLists.items.list", object{"list_id": listID, "limit": limit, "cursor": cursor})
		for _, item := range answer["items"].(array) {
			items = append(items, item.(object))
		}
		cursor = dig(t, answer, "response_metadata", "next_cursor").(string)
		if cursor == "" {
			return items
		}
	}
}

// info is the row as items.info shows it.
func info(t *testing.T, b *boardtest.Board, listID, rowID string) object {
	t.Helper()
	return b.Must(t, "slackLists.items.info", object{"list_id": listID, "id": rowID})["record"].(object)
}

// fieldOf is the field of the item in the column, or nil if the cell is empty.
func fieldOf(item object, columnID string) object {
	fields, _ := item["fields"].(array)
	for _, f := range fields {
		if f := f.(object); f["column_id"] == columnID {
			return f
		}
	}
	return nil
}

// textOf is the text of the item in the column; nil if the cell is empty.
func textOf(item object, columnID string) any {
	raw, err := json.Marshal(fieldOf(item, columnID)["rich_text"])
	if err != nil || string(raw) == "null" {
		return nil
	}
	return boardtest.Text(raw)
}

// cell is one cell of a request, written as JSON.
func cell(t *testing.T, columnID, members string) object {
	t.Helper()
	c := object{}
	if members != "" {
		c = decode(t, "{"+members+"}").(object)
	}
	if columnID != "" {
		c["column_id"] = columnID
	}
	return c
}

// newList makes a list with the schema and returns its id and the ids of its
// columns by key.
func newList(t *testing.T, b *boardtest.Board, schema string, more object) (string, map[string]string) {
	t.Helper()
	args := object{"name": "Test", "schema": decode(t, schema)}
	for name, v := range more {
		args[name] = v
	}
	list := b.Must(t, "slackLists.create", args)["list_id"].(string)
	columns := make(map[string]string)
	for _, c := range dig(t, b.Must(t, "files.info", object{"file": list}), "file", "list_metadata", "schema").(array) {
		columns[c.(object)["key"].(string)] = c.(object)["id"].(string)
	}
	return list, columns
}

// A clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 9, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func withClock(c *clock) boardtest.Option {
	return func(o *boardtest.Options) { o.Now = c.Now }
}

func withQuirks(q boardtest.Quirks) boardtest.Option {
	return func(o *boardtest.Options) { o.Quirks = q }
}

func withIdentities(ids ...board.Identity) boardtest.Option {
	return func(o *boardtest.Options) { o.Identities = ids }
}

func hasPrefixAndUpper(s, prefix string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && rest != "" && strings.Trim(rest, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
