package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestNobodyReads: who closed the pipe has read enough; a command that changes
// something is not ended half-way by it.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startBoard("")
	for _, s := range life[:2] {
		h.do(s, "")
	}
	for _, args := range [][]string{
		{"otm", "status"}, {"otm", "fsck", "--repair"}, {"otm", "archive", "--older-than", "0d", "--yes"}, {"otm", "retry", "--all"}, {"otm-injector", "--once"},
		{"otm", "install", "--systemd", "--user"}, {"otm", "install", "--systemd", "--user", "--uninstall"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := h.command("", args[0], args[1:]...)
		cmd.Stdout = w
		err = cmd.Run()
		w.Close()
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() < 0 {
			t.Errorf("%q was ended: %v", args, err)
		}
	}
}
