package app

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"otm/internal/cli"
	"otm/internal/fsck"
)

// What cannot be mended is told, and does not keep the rest from it.
func TestRepairGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, dir)
	if err != nil {
		t.Fatal(err)
	}
	full, litter := filepath.Join(dir, "full"), filepath.Join(dir, "litter")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(full, "x"), litter} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	did, err := repairFaults(t.Context(), h, []fsck.Finding{
		{Repair: fsck.RemoveFile, Path: full}, {Repair: fsck.RemoveFile, Path: litter},
		{Repair: fsck.RemoveFile, Path: filepath.Join(dir, "gone meanwhile")}, {Repair: fsck.RaiseCounter, TaskID: 41},
	})
	if err == nil || !strings.Contains(err.Error(), full) || strings.Contains(err.Error(), "meanwhile") {
		t.Errorf("error: %v", err)
	}
	if want := []string{"removed " + litter, "set the counter to 42"}; !slices.Equal(did, want) {
		t.Errorf("it says that it did %q, want %q", did, want)
	}
	if _, err := os.Stat(litter); err == nil {
		t.Error("the litter is still there")
	}
	if issued, err := h.Counter.Issued(41); err != nil || !issued {
		t.Errorf("the counter was not raised: %v", err)
	}
}
