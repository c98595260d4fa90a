//go:build !linux

package dispatch

import "syscall"

// childAttr is empty: this kernel cannot kill a child with its parent. A helper that
// is killed leaves its command running.
func childAttr() *syscall.SysProcAttr { return nil }
