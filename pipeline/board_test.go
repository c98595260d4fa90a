package pipeline

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestRowTask(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cell string
		want TaskID
	}{
		{"T-00035", 35}, {"35", 35}, {"t-35", 35}, {"", 0}, {"none", 0}, {"T-1234567890", 0}, {"T-00000", 0},
	} {
		if got := (&Row{TaskID: tt.cell}).Task(); got != tt.want {
			t.Errorf("Task() of the cell %q = %d, want %d", tt.cell, got, tt.want)
		}
	}
}

func TestRowStepDone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		row  Row
		want bool
	}{
		{Row{}, false}, {Row{Checked: true}, true}, {Row{Status: Done}, true}, {Row{Status: AgentDone}, true},
		{Row{Status: Cancelled}, false}, {Row{Status: New, Checked: true}, true},
	} {
		if got := tt.row.StepDone(); got != tt.want {
			t.Errorf("StepDone() of %+v = %v, want %v", tt.row, got, tt.want)
		}
	}
}

func TestBoardError(t *testing.T) {
	t.Parallel()
	e := &BoardError{Method: "slackLists.items.create", Code: "missing_scope", Needed: "lists:write", Message: "m", Err: io.ErrUnexpectedEOF}
	if got, want := e.Error(), "slackLists.items.create: missing_scope: needs the scope lists:write: m: unexpected EOF"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got, want := (&BoardError{Method: "m"}).Error(), "m"; got != want {
		t.Errorf("Error() of an empty one = %q, want %q", got, want)
	}
	if !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Error("the cause is not to be found in the error")
	}
	wrapped := fmt.Errorf("create: %w", &BoardError{Class: Refused, MaybeApplied: true})
	if !MaybeApplied(wrapped) || !IsRefused(wrapped) {
		t.Error("MaybeApplied or IsRefused does not see through a wrapped error")
	}
	for _, err := range []error{nil, io.EOF, &BoardError{Class: Fatal}} {
		if MaybeApplied(err) || IsRefused(err) {
			t.Errorf("MaybeApplied or IsRefused of %v is true", err)
		}
	}
}

func TestMissingError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  MissingError
		want string
	}{
		{MissingError{Column: "Reason", Problem: "is missing", Have: []string{"Title", "Status"}},
			`column "Reason" is missing (the board has: Title, Status)`},
		{MissingError{Column: "Status", Option: "blocked", Problem: "is missing", Have: []string{"new"}},
			`option "blocked" of column "Status" is missing (the board has: new)`},
		{MissingError{Column: "Assignee", Option: "x", Problem: "is missing"}, `option "x" of column "Assignee" is missing (the board has none)`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() = %q, want %q", got, tt.want)
		}
	}
}
