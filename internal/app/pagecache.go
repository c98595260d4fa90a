package app

import (
	"io/fs"
	"os"
)

// fileCache keeps what was read of files for as long as they are the same
// files. Those that it knows are replaced, never written over.
type fileCache[V any] struct {
	known map[string]fileFacts[V]
}

type fileFacts[V any] struct {
	info  fs.FileInfo
	value V
}

// get returns what read makes of the file, or made of it before. A file that
// is replaced between the look at it and its reading is read again next time.
func (c *fileCache[V]) get(path string, read func() (V, error)) (V, error) {
	info, err := os.Stat(path)
	if err != nil {
		delete(c.known, path)
		var none V
		return none, err
	}
	if f, ok := c.known[path]; ok && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) {
		return f.value, nil
	}
	v, err := read()
	if err != nil {
		delete(c.known, path)
		return v, err
	}
	if c.known == nil {
		c.known = map[string]fileFacts[V]{}
	}
	c.known[path] = fileFacts[V]{info, v}
	return v, nil
}
