//go:build !linux

package dispatch

import "syscall"

// childAttr is empty where the kernel cannot tie a child's life to ours: a
// helper that is killed leaves its command behind.
func childAttr() *syscall.SysProcAttr { return nil }
