package leak

import (
	"io"
	"os"
	"path/filepath"
)

// Programs has this test binary stand in a directory under the names of
// programs, so that tests can start it as these: TestMain looks at the name. The
// names are links to one copy, and no symbolic links: a program finds the others
// beside itself.
func Programs(dir string, names ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return ProgramsOf(self, dir, names...)
}

// ProgramsOf is Programs with another binary.
func ProgramsOf(binary, dir string, names ...string) (err error) {
	for i, name := range names {
		path := filepath.Join(dir, name)
		if i > 0 {
			err = os.Link(filepath.Join(dir, names[0]), path)
		} else if err = os.Link(binary, path); err != nil { // another file system
			err = copyFile(binary, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil {
		return err
	}
	return w.Close()
}
