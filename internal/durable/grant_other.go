//go:build !linux

package durable

import "io/fs"

// GrantRead refuses: without O_PATH, no descriptor of an unreadable file can be
// had, and a mode is never changed by a path.
func GrantRead(path string) error {
	return &fs.PathError{Op: "chmod", Path: path, Err: fs.ErrPermission}
}
