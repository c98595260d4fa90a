package dispatch

import "syscall"

// childAttr makes the command end with its helper: without the helper nobody
// would know that it runs, and a second one would be started beside it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
