package board

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// typedKeys are the members of a cell that carry a value. "text" is one that
// Slack refuses on write: text is always sent as rich_text.
var typedKeys = []string{
	"rich_text", "select", "user", "date", "checkbox", "number", "email", "phone", "link",
	"message", "attachment", "rating", "channel", "timestamp", "reference", "text",
}

// A cellInput is one cell of a request: where it goes, and one typed value.
type cellInput struct {
	row, column string
	key         string // the typed key, or "" if there is none
	value       json.RawMessage
}

// parseCell reads a cell. Members it does not know are passed over.
func parseCell(raw json.RawMessage) (cellInput, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return cellInput{}, refuse("invalid_arguments", "a cell must be an object")
	}
	var in cellInput
	if err := readID(members, "row_id", &in.row, "invalid_row_id"); err != nil {
		return cellInput{}, err
	}
	if err := readID(members, "column_id", &in.column, "invalid_column_id"); err != nil {
		return cellInput{}, err
	}
	for _, flag := range []string{"row_id_to_create", "column_id_to_create"} {
		if string(members[flag]) == "true" {
			return cellInput{}, refuse("invalid_arguments", flag+" is not supported")
		}
	}
	for _, key := range typedKeys {
		value, ok := members[key]
		if !ok || isNull(value) {
			continue
		}
		if in.key != "" {
			return cellInput{}, refuse("invalid_input_type", fmt.Sprintf("a cell holds one value, not %s and %s", in.key, key))
		}
		in.key, in.value = key, value
	}
	return in, nil
}

// readID reads the member as a string; missing, null and "" leave id empty.
func readID(members map[string]json.RawMessage, name string, id *string, code string) error {
	raw, ok := members[name]
	if !ok || isNull(raw) {
		return nil
	}
	if json.Unmarshal(raw, id) != nil {
		return refuse(code, name+" must be a string")
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// keyOf is the typed key for a column type, on write and on read. It is empty
// for types that nobody can write.
func keyOf(colType string) string {
	switch colType {
	case "text", "rich_text":
		return "rich_text"
	case "select", "multi_select":
		return "select"
	case "user", "assignee", typeTodoAssignee:
		return "user"
	case "date", "due_date", typeTodoDueDate:
		return "date"
	case "checkbox", "completed", typeTodoCompleted:
		return "checkbox"
	case "number", "email", "phone", "link", "message", "attachment", "rating", "channel", "reference":
		return colType
	}
	return "" // created_by, last_edited_by, created_time, last_edited_time, vote, canvas
}

// maxValues is how many values a cell of the column holds. What Slack does
// beyond selects and attachments is unpublished.
func maxValues(c *column) int {
	switch keyOf(c.Type) {
	case "select":
		if c.single() {
			return 1
		}
		return maxSelected
	case "user", "channel":
		if c.single() {
			return 1
		}
		return maxSelected
	case "date", "number", "rating", "email", "phone":
		return 1
	}
	return maxAttachments // attachment, link, message, reference
}

// A cellChecker judges cells by what exists on the board.
type cellChecker struct {
	// file says whether an id is that of a file the caller may see.
	file func(id string) bool
	// newChoice, if not nil, may add the option to the column.
	newChoice func(c *column, value string) bool
}

// check validates the input for the column and returns the value as it is
// stored and read, or nil if the cell is cleared.
func (k *cellChecker) check(c *column, in cellInput) (json.RawMessage, error) {
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
		return normalizeBlocks(values)
	}
	if len(values) > maxValues(c) {
		return nil, refuse("over_cell_fields_limit")
	}
	for i, v := range values {
		stored, err := k.checkValue(c, want, v)
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
func (k *cellChecker) checkValue(c *column, key string, raw json.RawMessage) (json.RawMessage, error) {
	switch key {
	case "number":
		return checkNumber(raw)
	case "rating":
		return checkRating(c, raw)
	case "link":
		return checkLink(raw)
	case "reference":
		return k.checkReference(raw)
	}
	s, err := toString(raw)
	if err != nil {
		if key == "message" {
			return nil, refuse("invalid_message", "a message is written as its permalink")
		}
		return nil, refuse("invalid_input_type", key+" must hold strings")
	}
	switch key {
	case "select":
		if !c.hasChoice(s) && (k.newChoice == nil || !k.newChoice(c, s)) {
			return nil, refuse("invalid_option_id", fmt.Sprintf("column %s has no option %q", c.ID, s))
		}
	case "user":
		if !isUserID(s) {
			return nil, refuse("user_not_found")
		}
	case "channel":
		if !isChannelID(s) {
			return nil, refuse("channel_not_found")
		}
	case "attachment":
		if !k.file(s) {
			return nil, refuse("file_not_found")
		}
	case "date":
		if !isDate(s) {
			return nil, refuse("invalid_date", "a date is written YYYY-MM-DD")
		}
	case "email":
		if !isEmail(s) {
			return nil, refuse("invalid_email")
		}
	case "phone":
		if !isPhone(s) {
			return nil, refuse("invalid_phone_number")
		}
	case "message":
		return checkMessage(s)
	}
	return marshal(s)
}

func toString(raw json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if s == nil {
		return "", fmt.Errorf("null")
	}
	return *s, nil
}

// marshal encodes v without escaping HTML.
func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	if err := encodeLine(&buf, v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
