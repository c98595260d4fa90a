// Package datadir notes which data directory a store belongs to, so that all programs refuse
// to work in a copy of it.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"otm/internal/durable"
)

// File is the name of the file in the data directory that names its store.
const File = "store.json"

// Place says where a store is used. The database and the data directory both hold it, so
// that a copy of either is noticed.
type Place struct {
	Store   string `json:"store"` // the id of the store; "": nothing is known
	Host    string `json:"host"`  // for people
	Machine string `json:"machine"`
	Dir     string `json:"dir"`
	Inode   uint64 `json:"inode"` // of Dir, which it keeps when it is renamed
	Boot    string `json:"boot"`  // of the machine, see durable.BootID
}

// MovedError says that the store belongs to another data directory: this one is a copy, or
// was moved.
type MovedError struct{ Was, Here Place }

func (e *MovedError) Error() string {
	return fmt.Sprintf("the store of this data directory, %q on %s, belongs to %q on %s", e.Here.Dir, e.Here.Host, e.Was.Dir, e.Was.Host)
}

// Hint is the next step for a person.
func (e *MovedError) Hint() string {
	return "otm fsck --repair   # only if the directory was moved, and nothing works on the other one; to begin another squad instead, use otm init, and a list of its own"
}

// Here returns the place of a data directory, without a store. machine names this machine
// and its boot; "": ask the system.
func Here(dir, machine string) (p Place, err error) {
	p.Host, _ = os.Hostname() // it is only a note
	p.Machine, p.Boot = machine, machine
	if machine == "" {
		p.Machine, p.Boot = durable.MachineID(), durable.BootID()
	}
	if p.Dir, err = filepath.EvalSymlinks(dir); err != nil {
		return p, err
	}
	info, err := os.Stat(p.Dir)
	if err == nil {
		if known, ok := info.Sys().(*syscall.Stat_t); ok {
			p.Inode = known.Ino
		}
	}
	return p, err
}

// Is reports whether p is the same directory as here. Unknown fields count as equal.
func (p Place) Is(here Place) bool {
	if p.Store == "" {
		return true
	}
	if p.Elsewhere(here) { // a container on this machine may have the directory mounted
		return p.Boot != "" && p.Boot == here.Boot && p.Inode == here.Inode
	}
	return p.Dir == here.Dir || p.Inode == here.Inode
}

// Elsewhere reports whether two places have different machine ids. A container may have an
// id of its own.
func (p Place) Elsewhere(here Place) bool {
	return p.Machine != here.Machine && p.Machine != "" && here.Machine != ""
}

// Decode decodes a place. A damaged one is empty.
func Decode(doc []byte) (p Place) {
	if json.Unmarshal(doc, &p) != nil {
		return Place{}
	}
	return p
}

// Check returns a *MovedError if the file of a data directory names another directory. If
// it is missing or may not be read, Check returns nil.
func Check(dir string) error {
	doc, err := durable.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, durable.ErrNoFile) {
		return nil
	}
	if err != nil {
		return err
	}
	was := Decode(doc)
	here, err := Here(dir, "")
	if err == nil && !was.Is(here) {
		return &MovedError{Was: was, Here: here}
	}
	return err
}
