package app

import (
	"context"
	"errors"
	"time"

	"otm/core"
	"otm/core/store"
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
