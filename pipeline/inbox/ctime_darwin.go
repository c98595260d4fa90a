package inbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when the file came under its name or was changed last.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}
