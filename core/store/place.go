package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"otm/core"
	"otm/internal/durable"
)

// PlaceFile is the name of the file in the data directory that says which store is used
// there.
const PlaceFile = "store.json"

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

// hereIn returns the place of a data directory on this machine, without a store.
func hereIn(dir, machine string) (p Place, err error) {
	p.Host, _ = os.Hostname() // it is only a note
	p.Machine, p.Boot = machine, durable.BootID()
	if p.Machine == "" {
		p.Machine = durable.MachineID()
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

// is reports whether p is the same directory as here. What is not known does not differ.
func (p Place) is(here Place) bool {
	otherMachine := p.Machine != here.Machine && p.Machine != "" && here.Machine != ""
	return p.Store == "" || !otherMachine && (p.Dir == here.Dir || p.Inode == here.Inode)
}

// identify finds out which store this is. A new one gets an id: that of the store that
// was used in the directory before, if there was one. A store that belongs to another
// directory is a *MovedError, or gets a new id if the directory moved: whoever works with
// the old one is refused by the list, which bears the new id.
func identify(ctx context.Context, s *Store, dir string, o Options) error {
	here, err := hereIn(dir, o.Machine)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, PlaceFile)
	file, err := readPlace(path)
	if err != nil {
		return err
	}
	var doc []byte
	for taken := false; !taken; {
		known, err := s.meta(ctx, "place")
		if err != nil {
			return err
		}
		was := decodePlace([]byte(known))
		if was.Store == "" {
			was = file
		}
		here.Store = was.Store
		switch moved := !was.is(here) || file.Store != "" && file.Store != was.Store; {
		case moved && !o.Moved:
			return &MovedError{Was: was, Here: here}
		case moved:
			here.Store, file = rand.Text(), Place{}
		case was.Store == "":
			here.Store = rand.Text()
		}
		if doc, err = json.Marshal(here); err != nil {
			return err
		}
		if taken = known == string(doc); !taken { // else we look again: another process may be faster
			err = s.write(ctx, synced, func(t tx) error { return takePlace(t, known, string(doc)) })
		}
		if err != nil {
			return err
		}
	}
	s.id = here.Store
	if file == here {
		return nil
	}
	return durable.Replace(path, append(doc, '\n'))
}

func readPlace(path string) (Place, error) {
	doc, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return decodePlace(doc), err
}

// decodePlace decodes a place; a damaged one says nothing.
func decodePlace(doc []byte) (p Place) {
	if json.Unmarshal(doc, &p) != nil {
		return Place{}
	}
	return p
}

// takePlace writes the place of the store, unless another process did so. All renderings
// of live tasks are written again: they are not synced, and the machine may have lost some
// when it stopped.
func takePlace(t tx, known, doc string) error {
	_, err := t.Exec("INSERT INTO meta (key, value) VALUES ('place', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE meta.value = $2", doc, known)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO outbox (task, sink, place, wanted, since, due, tries, asked_at, code, error, lease_owner, lease_until)
		SELECT id, CAST($1 AS TEXT), 0, version, CAST($2 AS BIGINT), 0, 0, 0, '', '', '', 0 FROM tasks WHERE live = 1
		ON CONFLICT (task, sink) DO UPDATE SET wanted = excluded.wanted, due = 0`, string(core.SinkRender), fromTime(time.Now()))
	return err
}
