package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/safe"
)

// housekeeper keeps the store in order after each run of the detector.
type housekeeper struct {
	c        *component
	mirrored int64     // the last event that otm-events.log has
	looked   time.Time // when all went well the last time
}

// houseEvery is how often the housekeeper looks whether something is due.
const houseEvery = time.Minute

// keep does what is due. What fails is tried again with the next run.
func (k *housekeeper) keep(ctx context.Context) error {
	h := k.c.home
	s, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	last, err := s.LastEvent(ctx)
	if err == nil && last != k.mirrored {
		if err = mirrorEvents(ctx, h, s, last); err == nil {
			k.mirrored = last
		}
	}
	now := h.Now()
	if now.Sub(k.looked).Abs() < houseEvery {
		return err
	}
	if err == nil { // what is archived has its line in the log
		err = k.archive(ctx, s, now)
	}
	if err = errors.Join(err, k.backup(ctx, s, now)); err == nil {
		k.looked = now
	}
	return err
}

// archive moves days of events that are old enough from the store into archives.
func (k *housekeeper) archive(ctx context.Context, s *store.Store, now time.Time) error {
	keep := k.c.home.Config.Times.KeepEvents
	if keep == 0 {
		return nil
	}
	days, err := store.Archive(ctx, s, now, keep, core.Producer{Service: "otm", Version: k.c.home.Version})
	if len(days) > 0 {
		k.c.log.Info("archived events", "days", len(days), "from", days[0], "to", days[len(days)-1])
	}
	return err
}

func (k *housekeeper) backup(ctx context.Context, s *store.Store, now time.Time) error {
	path, err := backup(ctx, k.c.home, s, now)
	if path != "" {
		k.c.log.Info("made a backup", "path", path)
	}
	return err
}

// backupDir is the directory of the daily backups in the data directory.
const backupDir = "backup"

// keptBackups is how many daily backups are kept.
const keptBackups = 7

// backupHour is when the daily backup is due, in local time.
const backupHour = 4

// backupCommand is otm backup.
func backupCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy otm.db while programs run",
		Long: `Write a copy of otm.db to a file that must not exist yet, by default to backup/ in
the data directory, while programs go on. The completion detector does so each day at
4 o'clock and keeps the last seven. To use one, stop all programs, remove otm.db and the
files whose names begin with it, and put the copy in its place. Keep archive/, too.`,
		Example: "  otm backup\n  otm backup /mnt/nas/otm-copy",
		Args:    words(0, 1, "give one file, or none", "otm backup /mnt/nas/otm-copy"),
	}
	c.RunE = withHome(s, func(ctx context.Context, h *Home, args []string) error {
		st, err := h.OpenStore(ctx)
		if err != nil {
			return err
		}
		path := filepath.Join(h.Dir, backupDir, store.FileName+"-"+h.Now().Format("2006-01-02-150405.000000"))
		if len(args) == 1 {
			if path, err = filepath.Abs(args[0]); err != nil {
				return err
			}
		} else if err := durable.Mkdir(filepath.Dir(path)); err != nil {
			return err
		}
		if err := store.Backup(ctx, st, path); err != nil {
			if errors.Is(err, store.ErrNoFile) {
				return cli.Errorf(cli.Usage, "%w", err).Hint("pg_dump makes a copy of it")
			}
			return err
		}
		fmt.Fprintln(h.Out, safe.Escape(path))
		return nil
	})
	return c
}

// backup makes the daily backup if it is due, and removes the oldest. A store that began after
// the last time at which one was due has none.
func backup(ctx context.Context, h *Home, s *store.Store, now time.Time) (made string, err error) {
	due := time.Date(now.Year(), now.Month(), now.Day(), backupHour, 0, 0, 0, now.Location())
	if now.Before(due) {
		due = due.AddDate(0, 0, -1)
	}
	dir := filepath.Join(h.Dir, backupDir)
	path := filepath.Join(dir, store.FileName+"-"+due.Format(time.DateOnly))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	first, _, err := core.EventsAtHand(ctx, s, core.EventFilter{Limit: 1})
	if err != nil || len(first) == 0 || first[0].At.After(due) {
		return "", err
	}
	if err := durable.Mkdir(dir); err != nil {
		return "", err
	}
	if err := store.Backup(ctx, s, path); err != nil {
		if errors.Is(err, store.ErrNoFile) {
			return "", nil // who runs PostgreSQL backs it up
		}
		return "", err
	}
	all, err := filepath.Glob(filepath.Join(dir, store.FileName+"-????-??-??"))
	for _, old := range all[:max(len(all)-keptBackups, 0)] {
		err = errors.Join(err, durable.Remove(old))
	}
	return path, err
}
