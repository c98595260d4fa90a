package board

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// typedKeys are the members of a cell that carry a value. Slack refuses "text"
// on write: text is always sent as rich_text.
var typedKeys = []string{"rich_text", "select", "user", "date", "checkbox", "number", "text"}

// A cellInput is one cell of a request: where it goes, and one typed value.
type cellInput struct {
	row, column string
	key         string // the typed key, or "" if there is none
	value       json.RawMessage
}

// parseCells reads an array of cells; nil is none. It passes over members that
// it does not know.
func parseCells(raw json.RawMessage) ([]cellInput, error) {
	var objects []map[string]json.RawMessage
	if err := json.Unmarshal(orNull(raw), &objects); err != nil {
		return nil, refuse("invalid_arguments", "cells must be an array of objects")
	}
	cells := make([]cellInput, 0, len(objects))
	for _, members := range objects {
		in, err := parseCell(members)
		if err != nil {
			return nil, err
		}
		cells = append(cells, in)
	}
	return cells, nil
}

func parseCell(members map[string]json.RawMessage) (in cellInput, err error) {
	switch {
	case members == nil:
		return in, refuse("invalid_arguments", "a cell must be an object")
	case members["row_id_to_create"] != nil || members["column_id_to_create"] != nil:
		return in, refuse("invalid_arguments", "a cell cannot create its row or column")
	case json.Unmarshal(orNull(members["row_id"]), &in.row) != nil:
		return in, refuse("invalid_row_id", "row_id must be a string")
	case json.Unmarshal(orNull(members["column_id"]), &in.column) != nil:
		return in, refuse("invalid_column_id", "column_id must be a string")
	}
	for _, key := range typedKeys {
		value := members[key]
		if isNull(orNull(value)) {
			continue
		}
		if in.key != "" {
			return in, refuse("invalid_input_type", fmt.Sprintf("a cell holds one value, not %s and %s", in.key, key))
		}
		in.key, in.value = key, value
	}
	return in, nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// keyOf is the typed key for a column type, on write and on read. It is empty
// for types that the board does not know, which nobody can write.
func keyOf(colType string) string { return keys[colType] }

var keys = map[string]string{
	"text": "rich_text", "rich_text": "rich_text", "select": "select", "multi_select": "select", "number": "number",
	"user": "user", "assignee": "user", typeTodoAssignee: "user",
	"date": "date", "due_date": "date", typeTodoDueDate: "date",
	"checkbox": "checkbox", "completed": "checkbox", typeTodoCompleted: "checkbox",
}

// checkCell validates the input for the column and returns the value as it is
// stored and read, or nil if the cell is cleared. newChoice may add an option
// that the column lacks.
func checkCell(c *Column, in cellInput, newChoice func(*Column, string) bool) (json.RawMessage, error) {
	want := keyOf(c.Type)
	if want == "" {
		return nil, refuse("uneditable_column", fmt.Sprintf("column %s (%s) cannot be written", c.ID, c.Type))
	}
	if in.key != want {
		return nil, refuse("invalid_input_type", fmt.Sprintf("column %s (%s) takes %s, not %q", c.ID, c.Type, want, in.key))
	}
	if want == "checkbox" {
		return checkCheckbox(in.value)
	}
	var values []json.RawMessage
	if err := json.Unmarshal(in.value, &values); err != nil {
		return nil, refuse("invalid_input_type", want+" must be an array")
	}
	if len(values) == 0 {
		return nil, nil
	}
	if want == "rich_text" {
		return checkBlocks(values)
	}
	if len(values) > maxSelected {
		return nil, refuse("over_cell_fields_limit")
	}
	for i, v := range values {
		stored, err := checkValue(c, want, v, newChoice)
		if err != nil {
			return nil, err
		}
		values[i] = stored
	}
	return marshal(values)
}

func checkCheckbox(raw json.RawMessage) (json.RawMessage, error) {
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return json.RawMessage("true"), nil
	case "false":
		return nil, nil
	}
	return nil, refuse("invalid_input_type", "checkbox must be a boolean")
}

// checkValue checks one element of the cell's array and returns its stored form.
// A whole number is stored without a fraction, as in Slack's samples.
func checkValue(c *Column, key string, raw json.RawMessage, newChoice func(*Column, string) bool) (json.RawMessage, error) {
	var number float64
	var s string
	var value any = &s
	if key == "number" {
		value = &number
	}
	if isNull(raw) || json.Unmarshal(raw, value) != nil {
		return nil, refuse("invalid_input_type", key+" holds a value of another type")
	}
	switch key {
	case "select":
		if !c.HasChoice(s) && !newChoice(c, s) {
			return nil, refuse("invalid_option_id", fmt.Sprintf("column %s has no option %q", c.ID, s))
		}
	case "user":
		if !isID(s, "U", "W") {
			return nil, refuse("user_not_found")
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return nil, refuse("invalid_date", "a date is written YYYY-MM-DD")
		}
	}
	return marshal(value)
}

// marshal encodes v without escaping HTML.
func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// A block is a rich_text block. Its elements are kept as they came.
type block struct {
	Type     string          `json:"type"`
	BlockID  string          `json:"block_id"`
	Elements json.RawMessage `json:"elements"`
}

// An element is any element of a block, as far as its text goes.
type element struct {
	Type     string    `json:"type"`
	Elements []element `json:"elements"`
	Text     string    `json:"text"`
}

// checkBlocks checks the blocks of a text cell and returns them as they are
// read, each with a block_id. Blocks without any content clear the cell: the result
// is nil.
func checkBlocks(raws []json.RawMessage) (json.RawMessage, error) {
	blocks := make([]block, len(raws))
	empty := true
	for i, raw := range raws {
		b := &blocks[i]
		var elements []element
		if json.Unmarshal(raw, b) != nil || b.Type != "rich_text" || json.Unmarshal(orNull(b.Elements), &elements) != nil || elements == nil {
			return nil, refuse("invalid_blocks", "text is written as rich_text blocks")
		}
		for _, e := range elements {
			if !strings.HasPrefix(e.Type, "rich_text_") {
				return nil, refuse("invalid_blocks", "unknown rich text element "+e.Type)
			}
			empty = empty && e.empty()
		}
		b.BlockID = cmp.Or(b.BlockID, rand.Text()[:5])
	}
	if empty {
		return nil, nil
	}
	return marshal(blocks)
}

// empty reports whether the element holds no text, and nothing else to show.
func (e *element) empty() bool {
	if strings.HasPrefix(e.Type, "rich_text_") {
		return !slices.ContainsFunc(e.Elements, func(e element) bool { return !e.empty() })
	}
	return e.Type == "text" && e.Text == ""
}
