package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestNobodyReads: who closed the pipe has read enough; a command that changes
// something is not ended half-way by it.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	h := newHouse(t)
	h.startBoard("")
	for _, s := range life[:2] {
		h.do(s, "")
	}
	// What is installed has to be a file that stays; no manager is in the PATH.
	stays := filepath.Join(h.root, "stays")
	if err := os.Mkdir(stays, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		if out, err := exec.Command("cp", "-L", filepath.Join(h.bin, name), stays).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	h.bin = stays
	units := func() int {
		found, err := filepath.Glob(filepath.Join(h.root, ".config", "systemd", "user", "otm-*.service"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for _, c := range []struct {
		line  string
		units int // that stand in their folder then
	}{
		{"otm status", 0}, {"otm fsck --repair", 0}, {"otm archive --older-than 0d --yes", 0}, {"otm retry --all", 0}, {"otm-injector --once", 0},
		{"otm install --systemd --user", 4}, {"otm install --systemd --user --uninstall", 0},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		args := strings.Fields(c.line)
		if args[1] == "install" {
			h.killBoard() // nothing is installed beside it
		}
		cmd := h.command("", args[0], args[1:]...)
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME=", "PATH="+stays)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &errs
		err = cmd.Run()
		w.Close()
		if err != nil || units() != c.units {
			t.Errorf("%s: %v; %d units: %s", c.line, err, units(), &errs)
		}
	}
}
