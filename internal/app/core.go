package app

import "syscall"

// noCoreDumps keeps tokens out of files that the kernel would write if we
// crashed under GOTRACEBACK=crash. Who is started by us can raise the limit
// again.
func noCoreDumps() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &limit) == nil {
		limit.Cur = 0
		syscall.Setrlimit(syscall.RLIMIT_CORE, &limit) // where it fails, it was not ours to set
	}
}
