// Package datadir knows which data directory a store belongs to, so that all programs refuse
// to work in a copy of one.
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

// File is the name of the file in the data directory that says which store is used there.
const File = "store.json"

// Place says where a store is used. It stands in the database and in the data directory,
// so that a copy of either is noticed.
type Place struct {
	Store   string `json:"store"` // the id of the store; "": nothing is known
	Host    string `json:"host"`  // for people
	Machine string `json:"machine"`
	Dir     string `json:"dir"`
	Inode   uint64 `json:"inode"` // of Dir, which it keeps when it is renamed
	Boot    string `json:"boot"`  // of the machine, see durable.BootID
}

// MovedError says that a store belongs to another data directory: this one is a copy, or
// was moved.
type MovedError struct{ Was, Here Place }

func (e *MovedError) Error() string {
	return fmt.Sprintf("the store of this data directory, %q on %s, belongs to %q on %s", e.Here.Dir, e.Here.Host, e.Was.Dir, e.Was.Host)
}

// Hint is what a person can do about it.
func (e *MovedError) Hint() string {
	return "otm fsck --repair   # only if the directory was moved, and nothing works on the other one; to begin another squad instead, use otm init, and a list of its own"
}

// Here returns the place of a data directory, without a store. machine names this machine
// and its boot; "": the system tells them.
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

// Is reports whether p is the same directory as here. What is not known does not differ.
func (p Place) Is(here Place) bool {
	if p.Store == "" {
		return true
	}
	if p.Elsewhere(here) { // or a container on this machine that has the directory mounted
		return p.Boot != "" && p.Boot == here.Boot && p.Inode == here.Inode
	}
	return p.Dir == here.Dir || p.Inode == here.Inode
}

// Elsewhere reports whether the machines of two places have different names. A container
// may have one of its own.
func (p Place) Elsewhere(here Place) bool {
	return p.Machine != here.Machine && p.Machine != "" && here.Machine != ""
}

// Decode decodes a place; a damaged one says nothing.
func Decode(doc []byte) (p Place) {
	if json.Unmarshal(doc, &p) != nil {
		return Place{}
	}
	return p
}

// Check returns a *MovedError if the file in a data directory says that the store of the
// directory belongs to another one. Without a file that may be read, nothing is known.
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
