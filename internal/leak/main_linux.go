package leak

import (
	"os"
	"strings"
	"syscall"
)

// roomy reports whether a directory has room for the files of tests, which may
// be programs.
func roomy(dir string) bool {
	const (
		need   = 1 << 30 // containers often have 64 MiB
		noexec = 8       // MS_NOEXEC
	)
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Flags&noexec == 0 && int64(fs.Bavail)*fs.Bsize >= need
}

// unmountBelow takes away what is mounted below a directory.
func unmountBelow(dir string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := strings.ReplaceAll(fields[4], `\040`, " "); strings.HasPrefix(at, dir+"/") {
			syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
}
