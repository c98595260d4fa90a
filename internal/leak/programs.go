package leak

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
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
	return WriteProgram(to, r)
}

// WriteProgram writes a new program, which tests may start at once. A process that
// began meanwhile would have the file open for writing, and the system refuses to
// start a program that is written (ETXTBSY in execve(2)). So none begins meanwhile.
func WriteProgram(path string, from io.Reader) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	w, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.Copy(w, from); err != nil {
		return err
	}
	return w.Close()
}
