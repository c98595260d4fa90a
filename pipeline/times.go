package pipeline

import "time"

// Times are the delays after which OTM acts. All but ParseableAge come from
// otm.toml.
type Times struct {
	SettleAfter    time.Duration // a walk that begins this long after a write shows that write
	AdoptAfter     time.Duration // a person's row is adopted once it was unchanged this long
	RedeliverAfter time.Duration // a dispatch entry that vanished is put back
	RewakeAfter    time.Duration // an accepted wake after which nothing was taken counts as unheard
	RewakeMax      int           // runs in a row without progress before the agent is left alone but for a probe
	// MaxRunning is how many agents may be at work at once; 0: all.
	MaxRunning    int
	UpdateWait    time.Duration // an update waits this long for its task to become known
	SilentAfter   time.Duration // a working agent without a report counts as gone
	DedupGiveUp   time.Duration // a row is made although the board could not be read
	KeepProcessed time.Duration // a processed drop is kept; zero: for ever
	ArchiveAfter  time.Duration // a task that was done or cancelled stays on the board; zero: until otm archive
	KeepEvents    time.Duration // an event stays in the store before it goes into an archive; zero: for ever
	ParseableAge  time.Duration // a file that does not parse is judged once it was unchanged this long
}

// DefaultTimes are the contract's.
var DefaultTimes = Times{
	SettleAfter: 15 * time.Second, AdoptAfter: time.Minute, RedeliverAfter: 5 * time.Minute, RewakeAfter: 15 * time.Minute, RewakeMax: 3,
	UpdateWait: 10 * time.Minute, SilentAfter: time.Hour, DedupGiveUp: 30 * time.Minute, KeepProcessed: 720 * time.Hour, ArchiveAfter: 168 * time.Hour, KeepEvents: 90 * 24 * time.Hour,
	ParseableAge: 2 * time.Second,
}
