package durable

import (
	"sync"

	"golang.org/x/sys/unix"
)

// BootID names the time since the machine was started: what was written during
// another one may not have reached the disk, unless it was synced. It is "" if the
// system does not tell (sysctl(3), since macOS 10.12).
var BootID = sync.OnceValue(func() string { return sysctl("kern.bootsessionuuid") })

// MachineID names the machine; "": the system does not tell.
var MachineID = sync.OnceValue(func() string { return sysctl("kern.uuid") })

// sysctl returns a value of the kernel; "" if it does not tell.
func sysctl(name string) string {
	value, _ := unix.Sysctl(name)
	return value
}
