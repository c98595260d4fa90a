package pipeline

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestParseTaskID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     TaskID // 0: refused
	}{
		{"number", "35", 35},
		{"short", "T-35", 35},
		{"canonical", "T-00035", 35},
		{"lower case", "t-00035", 35},
		{"blanks around", " T-00035\n", 35},
		{"one", "1", 1},
		{"six digits", "T-100000", 100000},
		{"nine digits", "T-999999999", MaxTaskID},
		{"ten digits", "T-1234567890", 0},
		{"ten digits with zeros in front", "T-0000000035", 0},
		{"twenty digits", "99999999999999999999", 0},
		{"zero", "0", 0},
		{"canonical zero", "T-00000", 0},
		{"empty", "", 0},
		{"blank", "  ", 0},
		{"prefix alone", "T-", 0},
		{"no hyphen", "T00035", 0},
		{"two hyphens", "T--35", 0},
		{"negative", "-35", 0},
		{"plus sign", "+35", 0},
		{"fraction", "3.5", 0},
		{"hexadecimal", "0x35", 0},
		{"Arabic digits", "T-٠٠٠٣٥", 0},
		{"blank inside", "T- 35", 0},
		{"text behind", "T-00035x", 0},
		{"NUL", "T-00035\x00", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseTaskID(tt.in)
			if got != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("ParseTaskID(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParseFileID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     TaskID
	}{
		{"canonical", "T-00035", 35},
		{"six digits", "T-100000", 100000},
		{"six digits with a zero in front", "T-000035", 35},
		{"nine digits", "T-999999999", MaxTaskID},
		{"ten digits", "T-1000000000", 0},
		{"zero", "T-00000", 0},
		{"four digits", "T-0035", 0},
		{"number", "00035", 0},
		{"lower case", "t-00035", 0},
		{"blank in front", " T-00035", 0},
		{"blank behind", "T-00035 ", 0},
		{"line feed", "T-00035\n", 0},
		{"path", "T-../35", 0},
		{"empty", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseFileID(tt.in)
			if got != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("ParseFileID(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestCaseB74FiveDigitsAreAFloor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id   TaskID
		want string
	}{
		{1, "T-00001"}, {35, "T-00035"}, {99999, "T-99999"}, {100000, "T-100000"}, {MaxTaskID, "T-999999999"},
	} {
		if got := tt.id.String(); got != tt.want {
			t.Errorf("TaskID(%d).String() = %q, want %q", tt.id, got, tt.want)
		}
		for _, parse := range []func(string) (TaskID, error){ParseTaskID, ParseFileID} {
			if got, err := parse(tt.want); got != tt.id || err != nil {
				t.Errorf("parse %q = %d, %v; want %d", tt.want, got, err, tt.id)
			}
		}
	}
}

func TestTaskIDInJSON(t *testing.T) {
	t.Parallel()
	type holder struct{ ID TaskID }
	for _, tt := range []struct {
		id   TaskID
		want string
	}{
		{35, `{"ID":"T-00035"}`}, {0, `{"ID":""}`},
	} {
		data, err := json.Marshal(holder{tt.id})
		if err != nil || string(data) != tt.want {
			t.Errorf("Marshal(%d) = %s, %v; want %s", tt.id, data, err, tt.want)
		}
		var back holder
		if err := json.Unmarshal(data, &back); err != nil || back.ID != tt.id {
			t.Errorf("Unmarshal(%s) = %d, %v; want %d", data, back.ID, err, tt.id)
		}
	}
	for _, in := range []string{`{"ID":"35"}`, `{"ID":35}`, `{"ID":"T-00000"}`} {
		var h holder
		if err := json.Unmarshal([]byte(in), &h); err == nil {
			t.Errorf("Unmarshal(%s) gave %v, want an error", in, h.ID)
		}
	}
}

func ExampleParseTaskID() {
	id, _ := ParseTaskID("t-35")
	fmt.Println(id)
	// Output: T-00035
}
