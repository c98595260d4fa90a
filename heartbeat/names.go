package heartbeat

import "path/filepath"

// Board is the embedded board among the components. It writes no heartbeat: an
// answer on its port says more.
const Board = "otm-board"

// Watchdog is otm watchdog, which tells people when Monitor does not beat. It writes no
// heartbeat.
const Watchdog = "otm-watchdog"

// keeper is the component whose process runs id: the injector's process does the
// watching, too.
func keeper(id string) string {
	if id == Watcher {
		return Injector
	}
	return id
}

// Log is the name of the log file into which a component writes.
func Log(id string) string { return keeper(id) + ".log" }

// ResidentLock is the path of the lock that a process holds while it keeps a
// component running.
func ResidentLock(dir, id string) string {
	return filepath.Join(dir, "locks", keeper(id)+".resident")
}
