package submit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/datadir"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/internal/safe"
	"otm/pipeline/counter"
)

// Explain turns errors of this package's parts into an exit code and the next
// step. It returns nil for all others.
func Explain(err error) *cli.Error {
	var dir *config.DirError
	var bad *config.Error
	var moved *datadir.MovedError
	var held *lock.HeldError
	var unsupported *lock.UnsupportedError
	var key *counter.DamagedKeyError
	switch {
	case errors.Is(err, config.ErrNotInitialised):
		return cli.Errorf(cli.NotInit, "%w", err).Hint("otm init, or point --dir or OTM_DIR at the right directory")
	case errors.As(err, &dir):
		return cli.Errorf(cli.BadConfig, "%w", err).Hint("%s", dir.Hint)
	case errors.As(err, &moved):
		return cli.Errorf(cli.BadConfig, "%w", err).Hint("%s", moved.Hint())
	case errors.As(err, &bad):
		e := cli.Errorf(cli.BadConfig, "%w", err)
		if info, err := os.Stat(bad.Path); err == nil && !info.Mode().IsRegular() {
			return e.Hint("%s", makeRoom(bad.Path))
		}
		return e.Hint("edit %s", safe.Quote(bad.Path))
	case errors.As(err, &held):
		e := cli.Errorf(cli.TryLater, "%w", err)
		switch {
		case held.Holders > 1: // nothing is stuck: to look at the present holder would not help
			return e.Hint("run it again in a moment; to create many tasks, give them to one command: otm-create --from FILE")
		case held.PID == 0:
			return e.Hint("otm doctor")
		}
		return e.Hint("ps -p %d", held.PID)
	case errors.As(err, &unsupported):
		return cli.Errorf(cli.Failed, "%w", err).Hint("put the data directory on a local disk: network file systems are not supported")
	case errors.Is(err, counter.ErrIDsUsedUp):
		return cli.Errorf(cli.Failed, "%w", err).Hint("otm init --dir NEW, and go on there")
	case errors.As(err, &key):
		return cli.Errorf(cli.Failed, "%w", err).Hint("otm list --all").
			Hint("if the task is not there: rm %s", safe.Quote(key.Path))
	}
	return explainPath(err)
}

// explainPath names the file or directory that the file system refuses, and the
// command that shows why. It returns nil for all other errors.
func explainPath(err error) *cli.Error {
	var file *fs.PathError
	var link *os.LinkError
	var path string
	switch {
	case errors.As(err, &file):
		path = file.Path
	case errors.As(err, &link):
		path = link.New
	default:
		return nil
	}
	e := cli.Errorf(cli.Failed, "%w", err)
	for path != "." && path != "/" {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	for _, wrongKind := range []error{syscall.ENOTDIR, syscall.EISDIR, fs.ErrExist, durable.ErrNoFile} {
		if errors.Is(err, wrongKind) {
			return e.Hint("%s", makeRoom(path))
		}
	}
	switch path = safe.Quote(path); {
	case errors.Is(err, fs.ErrPermission):
		return e.Hint("ls -ld %s   # the user who runs this must be allowed to use it: id -un", path)
	case errors.Is(err, syscall.EROFS):
		return e.Hint("df %s   # names the file system: it is mounted read-only", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return e.Hint("df -h %s; df -i %s   # no room is left", path, path)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return e.Hint("ulimit -n   # too few files may be open")
	}
	return nil
}

// makeRoom is the next step if something else has the name of a file or directory of OTM.
func makeRoom(path string) string {
	step := fmt.Sprintf("mv %s %s", safe.Quote(path), safe.Quote(path+".aside"))
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return step + " && mkdir -m 700 " + safe.Quote(path)
	}
	return step
}
