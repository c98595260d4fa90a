package board

import (
	"errors"
	"strings"
)

// ErrInUse is matched by the error of Open when another process, or another
// Server of this one, has the directory open.
var ErrInUse = errors.New("board directory is in use")

// ErrCorrupt is matched by the error of Open when board.db is damaged, or the
// rows.jsonl that is to be imported. Nothing has been changed.
var ErrCorrupt = errors.New("board store is corrupt")

// ErrClosed is the error of an edit after Close.
var ErrClosed = errors.New("board is closed")

// An Error is a refusal of the API, with Slack's code for it.
type Error struct {
	// Code is Slack's error code, such as "invalid_option_id".
	Code string

	// Messages explain an argument error; they become
	// response_metadata.messages.
	Messages []string

	status     int // HTTP status; 0 is 200
	retryAfter int // seconds; 0 is none
}

func (e *Error) Error() string {
	if len(e.Messages) == 0 {
		return e.Code
	}
	return e.Code + ": " + strings.Join(e.Messages, "; ")
}

// refuse makes an *Error; each message is prefixed as Slack does.
func refuse(code string, messages ...string) *Error {
	e := &Error{Code: code}
	for _, m := range messages {
		e.Messages = append(e.Messages, "[ERROR] "+m)
	}
	return e
}
