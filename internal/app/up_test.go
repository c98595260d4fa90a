package app

import (
	"os"
	"path/filepath"
	"testing"

	"otm/internal/cli"
)

// otm up prints no link if a component cannot start.
func TestUpPrintsNoLinkWhenItFails(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	if err := os.WriteFile(filepath.Join(h.Dir, "otm.db"), []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := h.Up(t.Context(), func(link string) { t.Error("it printed", link) })
	if code := exitCode(err); err == nil || code == cli.OK {
		t.Errorf("exit %d, %v", code, err)
	}
}
