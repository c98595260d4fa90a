package app

import (
	"context"
	"errors"
	"os"
	"testing"

	"otm/internal/config"
)

// TestC40DataDirectoryGoes: otm up made a data directory again that was moved
// away under it. Only otm init makes one.
func TestC40DataDirectoryGoes(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- departed(h.Dir, h.Up(ctx, func(page string) { ready <- page })) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if err := os.Rename(h.Dir, h.Dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, config.ErrNotInitialised) {
		t.Errorf("it ended with %v", err)
	}
	if exists(h.Dir) {
		t.Error("the directory is there again")
	}
}
