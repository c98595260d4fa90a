package dispatch

import "syscall"

// diesWithHelper says that a command ends when its helper is killed.
const diesWithHelper = true

// childAttr makes the kernel kill the command when its helper dies. Otherwise OTM
// would not know of the command and would start a second one.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
