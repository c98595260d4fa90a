package app

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"otm/internal/cli"
)

// TestBoardStartsWhenTheDiskHasRoom: until then it waits, and says so once. The
// time is that of the bubble.
func TestBoardStartsWhenTheDiskHasRoom(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		answers []error
		stop    bool
		page    bool
		err     error
		said    int
		waited  time.Duration
	}{
		"at once":      {answers: []error{nil}, page: true},
		"third time":   {answers: []error{full, full, nil}, page: true, said: 1, waited: 2 * troubleRetry},
		"other reason": {answers: []error{full, broken}, err: broken, said: 1, waited: troubleRetry},
		"told to stop": {answers: []error{full, full}, stop: true, waited: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				h := &Home{Streams: cli.Streams{Err: &stderr}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				p, err := patiently(ctx, h.Streams, func() (*runningPage, error) {
					err := tt.answers[0]
					tt.answers = tt.answers[1:]
					if tt.stop {
						cancel()
					}
					if err != nil {
						return nil, err
					}
					return &runningPage{}, nil
				})
				if (p != nil) != tt.page || !errors.Is(err, tt.err) || time.Since(began) != tt.waited || strings.Count(stderr.String(), "cannot start yet") != tt.said {
					t.Errorf("page %v, %v after %v, said %q", p != nil, err, time.Since(began), stderr.String())
				}
			})
		})
	}
}
