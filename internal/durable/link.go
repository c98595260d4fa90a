package durable

import "os"

// linkNoReplace renames a file by link(2), which never replaces, and unlink(2). If
// we crash between the two, the file has both names; the old one is a temporary
// or an inbox name and is handled again.
func linkNoReplace(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
