package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/tokens"
)

// A token is looked up before each change: one that is revoked in the middle of a command
// over several tasks ends it there.
func TestTokenRevokedInMidCommand(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	known := tokens.Open(h.Dir)
	token, err := known.Create(t.Context(), "ci", tokens.Operator, "", h.Now())
	if err != nil {
		t.Fatal(err)
	}
	as := &acting{h: h, c: &cobra.Command{Use: "accept"}, file: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(as.file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if by, err := as.actor(); err != nil || by.Name != "ci" {
		t.Fatalf("%v, %v", by, err)
	}
	if err := known.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if by, err := as.actor(); err == nil || !strings.Contains(err.Error(), "was revoked") {
		t.Errorf("%v, %v", by, err)
	}
}

// A stream is a terminal only if it is a device that one types at: the null device and a
// pipe are none.
func TestIsTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, stream := range map[string]any{"the null device": null, "a pipe": r, "a buffer": &bytes.Buffer{}, "an output": &cli.Output{W: null}, "nothing": nil} {
		if isTerminal(stream) {
			t.Errorf("%s is a terminal", name)
		}
	}
}
