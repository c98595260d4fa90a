package outbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"otm/core"
	"otm/internal/durable"
)

// place names where process ids mean the same processes as here: this boot of this
// machine, and this namespace of processes.
var place = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid") // "" where there are none
	return strings.Join(strings.Fields(host+"/"+durable.BootID()+"/"+namespace), "_")
})

// newOwner returns a name under which a run leases effects. No other run has it.
func newOwner() string { return fmt.Sprintf("%s %d %s", place(), os.Getpid(), rand.Text()) }

// isDead reports whether the process of an owner is known to have ended. It is not known
// of processes elsewhere.
func isDead(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) != 3 || fields[0] != place() {
		return false
	}
	pid, err := strconv.Atoi(fields[1])
	return err == nil && pid > 0 && syscall.Kill(pid, 0) == syscall.ESRCH
}

// freeDead gives back what processes leased that have ended. A process that was killed
// may have made a row on the board.
func (r *run) freeDead(ctx context.Context, pending []core.Pending) error {
	var dead []core.Pending
	for _, p := range pending {
		if p.Owner == "" || !isDead(p.Owner) {
			continue
		}
		if now := r.now(); p.Sink == core.SinkBoard && p.AskedAt.Before(now) {
			p.AskedAt = now
		}
		dead = append(dead, p)
	}
	return r.Outbox.Postponed(ctx, dead...)
}
