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

// holderOf is a process that holds the lock at path; 0: none that we may look at does. It reads
// /proc, and no file system that may hang.
func holderOf(path string) int {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err != nil || to != path {
			continue
		}
		info, _ := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if pid, _ := strconv.Atoi(strings.Split(fd, "/")[2]); strings.Contains(string(info), "FLOCK") {
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
