package durable

import (
	"sync"

	"golang.org/x/sys/unix"
)

// BootID names the time since the machine was started: what was written during
// another one may not have reached the disk, unless it was synced. It is "" if the
// system does not tell.
var BootID = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid") // sysctl(3), since macOS 10.12
	if err != nil {
		return ""
	}
	return id
})
