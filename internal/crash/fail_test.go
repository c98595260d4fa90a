package crash

import (
	"errors"
	"testing"
)

func TestFailed(t *testing.T) {
	if err := Failed("sync", "nobody listens"); err != nil {
		t.Error(err)
	}
	bad := errors.New("bad disk")
	Fail = func(step, path string) error {
		if step == "sync" && path == "a" {
			return bad
		}
		return nil
	}
	defer func() { Fail = nil }()
	if err := Failed("sync", "a"); !errors.Is(err, bad) {
		t.Errorf("it failed with %v", err)
	}
	if err := Failed("rename", "a"); err != nil {
		t.Error(err)
	}
}
