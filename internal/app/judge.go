package app

import (
	"time"

	"otm/heartbeat"
	"otm/internal/install"
)

// judge is heartbeat.Judge for those who say what to do about it. What timers
// run is not late before its timer is: the sweeper's comes every ten minutes, as
// the specification has it. o is how otm install has the components run; nil: not
// at all.
func judge(id string, b *heartbeat.Beat, now time.Time, o *install.Options) heartbeat.State {
	state := heartbeat.Judge(b, now)
	if state == heartbeat.Yellow && id == heartbeat.Injector && o != nil && o.Timers {
		return heartbeat.Green
	}
	return state
}

// expected are the components that are to run: where timers run them, none
// watches.
func expected(o *install.Options) []string {
	if o != nil && o.Timers {
		return []string{heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector}
	}
	return heartbeat.Components
}
