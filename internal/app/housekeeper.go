package app

import (
	"context"
	"time"

	"otm/core"
	"otm/core/store"
)

// housekeeper keeps the store in order after each run of the detector.
type housekeeper struct {
	c      *component
	looked time.Time // when all went well the last time
}

// houseEvery is how often the housekeeper looks whether something is due.
const houseEvery = time.Minute

// keep does what is due. What fails is tried again with the next run.
func (k *housekeeper) keep(ctx context.Context) error {
	now := k.c.home.Now()
	if now.Sub(k.looked).Abs() < houseEvery {
		return nil
	}
	err := k.archive(ctx, now)
	if err == nil {
		k.looked = now
	}
	return err
}

// archive moves days of events that are old enough from the store into archives.
func (k *housekeeper) archive(ctx context.Context, now time.Time) error {
	keep := k.c.home.Config.Times.KeepEvents
	if keep == 0 {
		return nil
	}
	s, err := k.c.home.OpenStore(ctx)
	if err != nil {
		return err
	}
	days, err := store.Archive(ctx, s, now, keep, core.Producer{Service: "otm", Version: k.c.home.Version})
	if len(days) > 0 {
		k.c.log.Info("archived events", "days", len(days), "from", days[0], "to", days[len(days)-1])
	}
	return err
}
