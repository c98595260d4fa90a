package durable

import (
	"os"
	"strings"
	"sync"
)

// BootID names the time since the machine was started: what was written during
// another one may not have reached the disk, unless it was synced. It is "" if the
// system does not tell (random(4)).
var BootID = sync.OnceValue(func() string { return line("/proc/sys/kernel/random/boot_id") })

// MachineID names the machine; "": the system does not tell (machine-id(5)).
var MachineID = sync.OnceValue(func() string { return line("/etc/machine-id") })

// line returns the text of a short file; "" if it cannot be read.
func line(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}
