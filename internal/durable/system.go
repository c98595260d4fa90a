package durable

import "sync"

// BootID names the time since the machine was started: what was written during
// another one may not have reached the disk, unless it was synced. It is "" if the
// system does not tell.
var BootID = sync.OnceValue(func() string { return told(bootName) })

// MachineID names the machine; "": the system does not tell.
var MachineID = sync.OnceValue(func() string { return told(machineName) })
