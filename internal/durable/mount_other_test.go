//go:build !linux

package durable

import "testing"

func tmpfs(t *testing.T, _ string) string {
	t.Helper()
	t.Skip("needs to mount a small file system, as Linux can")
	return ""
}

func readOnly(t *testing.T, _ string) { t.Helper() }
