package dispatch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// diesWithHelper says that a command ends when its helper is killed.
const diesWithHelper = true

// holderOf is the process that has a file open, the first of several; 0: none that we may look
// at has. It reads /proc.
func holderOf(path string) int {
	want, err := os.Stat(path)
	if err != nil {
		return 0
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
		if is, err := os.Stat(fd); err == nil && pid != os.Getpid() && os.SameFile(is, want) {
			return pid
		}
	}
	return 0
}

// childAttr makes the kernel kill the command when its helper dies. Otherwise OTM
// would not know of the command and would start a second one.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
