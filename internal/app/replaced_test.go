package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/internal/board/boardtest"
	"otm/internal/sqlite"
)

// Somebody removes or replaces otm.db while the components run. The run that notices says
// so, and what happens next. The following ones go on with what is there, and people are
// told what that is.
func TestStoreReplacedWhileComponentsRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replace func(path, backup string) error
		corrupt bool
		told    string
	}{
		"removed":           {func(path, _ string) error { return os.Remove(path) }, false, "begun anew"},
		"an older backup":   {func(path, backup string) error { return os.Rename(backup, path) }, false, "otm fsck says what is missing"},
		"a damaged file":    {func(path, _ string) error { return replaceBy(path, []byte(strings.Repeat("x", 5000))) }, true, "put a backup in its place"},
		"a file of nothing": {func(path, _ string) error { return replaceBy(path, nil) }, true, "put a backup in its place"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSquad(t, boardtest.Start(t))
			var said bytes.Buffer
			s.h.Out, s.h.Err, s.h.stores.absence = &said, &said, time.Nanosecond
			path := filepath.Join(s.h.Dir, store.FileName)
			backup := path + "-backup"
			log := slog.New(slog.DiscardHandler)
			b := s.h.board(log)
			var all []*component
			for _, k := range kinds {
				one, err := newComponent(t.Context(), s.h, b, log, k, DefaultEvery, false)
				if err != nil {
					t.Fatal(err)
				}
				defer one.stop()
				all = append(all, one)
			}
			run := func() (errs []error) {
				for _, one := range all {
					report, err := one.once(t.Context(), asked)
					if ends := one.judge(report, err); ends != nil {
						t.Errorf("%s ends: %v", one.id, ends)
					}
					errs = append(errs, errors.Join(err, report.Trouble))
				}
				return errs
			}
			s.drop(1, "First")
			if err := errors.Join(run()...); err != nil {
				t.Fatal(err)
			}
			opened, err := s.h.OpenStore(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			backUp(t, path, backup)
			s.drop(2, "Second")
			if err := errors.Join(run()...); err != nil {
				t.Fatal(err)
			}
			if err := c.replace(path, backup); err != nil {
				t.Fatal(err)
			}
			if err := run()[0]; !errors.Is(err, sqlite.ErrMoved) || !strings.Contains(store.Hint(err), "goes on by itself") {
				t.Errorf("the run that notices: %v; %s", err, store.Hint(err))
			}
			if c.corrupt {
				if err := run()[0]; !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(store.Hint(err), c.told) {
					t.Errorf("the next run: %v; %s", err, store.Hint(err))
				}
				if err := os.Rename(backup, path); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := errors.Join(run()...); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			}
			if !c.corrupt && !strings.Contains(said.String(), c.told) {
				t.Errorf("people are told: %s", &said)
			}
			tasks, err := opened.Tasks(t.Context(), core.Filter{})
			snap, unread := s.h.snapshot()
			if err := errors.Join(err, unread); err != nil || len(tasks) != 2 || len(snap.Rows) != 4 { // each has a step
				t.Errorf("%d tasks, rows %+v, %v", len(tasks), snap.Rows, err)
			}
		})
	}
}

// backUp copies a database, as old as a backup is.
func backUp(t *testing.T, path, backup string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(db.Backup(t.Context(), backup), db.Close(), os.Chtimes(backup, old, old)); err != nil {
		t.Fatal(err)
	}
}

func replaceBy(path string, data []byte) error {
	return errors.Join(os.WriteFile(path+"-new", data, 0o600), os.Rename(path+"-new", path))
}
