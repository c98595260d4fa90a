//go:build !linux

package dispatch

import "syscall"

// diesWithHelper says that a command goes on when its helper is killed. OTM lets it end by
// itself, and starts nothing beside it.
const diesWithHelper = false

// holderOf is for systems that end a command with its helper.
func holderOf(string) int { return 0 }

// childAttr is empty: this kernel cannot kill a child with its parent. A helper that
// is killed leaves its command running.
func childAttr() *syscall.SysProcAttr { return nil }
