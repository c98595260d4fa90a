package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"otm/core"
	"otm/internal/datadir"
	"otm/internal/durable"
)

// identify finds out which store this is. A new one gets an id: that of the store that
// was used in the directory before, if there was one. A store that belongs to another
// directory is a *datadir.MovedError, or gets a new id if the directory moved: whoever works
// with the old one is refused by the list, which bears the new id.
func identify(ctx context.Context, s *Store, dir string, o Options) error {
	here, err := datadir.Here(dir, o.Machine)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, datadir.File)
	doc, err := durable.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file := datadir.Decode(doc)
	for taken := false; !taken; {
		known, err := s.meta(ctx, "place")
		if err != nil {
			return err
		}
		was := datadir.Decode([]byte(known))
		if was.Store == "" {
			was = file
		}
		here.Store = was.Store
		switch moved := !was.Is(here) || file.Store != "" && file.Store != was.Store; {
		case moved && !o.Moved:
			return &datadir.MovedError{Was: was, Here: here}
		case moved:
			here.Store, file = rand.Text(), datadir.Place{}
		case was.Store == "":
			here.Store = rand.Text()
		case was.Elsewhere(here):
			here = was // the machine knows it better than a container
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
