//go:build !linux

package sqlite

import "testing"

func tmpfs(t *testing.T, _ string) string {
	t.Helper()
	t.Skip("needs to mount a small file system, as Linux can")
	return ""
}
