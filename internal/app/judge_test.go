package app

import (
	"slices"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/install"
)

// What timers run is not late before its timer is, and nobody watches then.
func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	timers, residents := &install.Options{Timers: true}, &install.Options{}
	for _, tt := range []struct {
		id        string
		age       time.Duration
		installed *install.Options
		want      heartbeat.State
	}{
		{heartbeat.Injector, 9 * time.Minute, timers, heartbeat.Green},
		{heartbeat.Injector, 16 * time.Minute, timers, heartbeat.Red},
		{heartbeat.Injector, -time.Minute, timers, heartbeat.ClockError},
		{heartbeat.Injector, 9 * time.Minute, residents, heartbeat.Yellow},
		{heartbeat.Injector, 9 * time.Minute, nil, heartbeat.Yellow},
		{heartbeat.Dispatcher, 9 * time.Minute, timers, heartbeat.Yellow},
	} {
		if got := judge(tt.id, &heartbeat.Beat{LastRun: now.Add(-tt.age)}, now, tt.installed); got != tt.want {
			t.Errorf("%s, %v old, %+v: %q, want %q", tt.id, tt.age, tt.installed, got, tt.want)
		}
	}
	if slices.Contains(expected(timers), heartbeat.Watcher) || !slices.Contains(expected(residents), heartbeat.Watcher) || !slices.Contains(expected(nil), heartbeat.Watcher) {
		t.Error("the watcher is expected where only timers run, or not where it is to run")
	}
}
