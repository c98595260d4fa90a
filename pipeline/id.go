package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// TaskID is the number of a task. Its text is "T-" and at least five digits;
// after T-99999 comes T-100000. Zero is no task.
type TaskID int

// MaxTaskID is the largest number an id can have: nine digits.
const MaxTaskID TaskID = 999_999_999

// String returns the canonical text, such as T-00035.
func (id TaskID) String() string { return fmt.Sprintf("T-%05d", int(id)) }

// ParseTaskID reads an id as people write it: 35, T-35, t-00035.
func ParseTaskID(s string) (TaskID, error) {
	digits := strings.TrimSpace(s)
	if len(digits) > 2 && (digits[0] == 'T' || digits[0] == 't') && digits[1] == '-' {
		digits = digits[2:]
	}
	return parseDigits(s, digits)
}

// ParseFileID reads an id as it stands in files: T- and five to nine digits.
func ParseFileID(s string) (TaskID, error) {
	digits, ok := strings.CutPrefix(s, "T-")
	if !ok || len(digits) < 5 {
		return 0, fmt.Errorf("task id %q: want T- and at least five digits, such as T-00035", s)
	}
	return parseDigits(s, digits)
}

func parseDigits(s, digits string) (TaskID, error) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("task id %q: want a form such as T-00035", s)
	}
	if len(digits) > 9 {
		return 0, fmt.Errorf("task id %q: has more than nine digits", s)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("task id %q: ids begin at T-00001", s)
	}
	return TaskID(n), nil
}

// MarshalText returns the canonical text; no task is the empty text.
func (id TaskID) MarshalText() ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *TaskID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = 0
		return nil
	}
	parsed, err := ParseFileID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
