package durable

import (
	"io/fs"
	"syscall"
	"time"
)

// ChangeTime is when the file was renamed or changed last.
func ChangeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}
