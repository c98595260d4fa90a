// Package app builds the components from a configuration, and holds the
// commands that are made of them. It is the one place that knows them all.
package app

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/logx"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// Home is an opened data directory, with everything that is needed to work in
// it.
type Home struct {
	cli.Streams
	Dir     string
	Config  *config.Config
	Box     *inbox.Box
	Store   *task.Store
	Version string
	Now     func() time.Time
	// PathDir is put in front of the PATH of agents that OTM starts: where otm
	// and its siblings are. If "", the folder of this program.
	PathDir string

	// waitAgents waits for the processes that were started for agents; nil: there
	// is no dispatcher yet that starts any.
	waitAgents func()

	configInfo fs.FileInfo // of otm.toml as it was read; nil: there was none
}

// configChanged tells whether otm.toml is another than the one that was read.
func (h *Home) configChanged() bool {
	info, err := os.Stat(filepath.Join(h.Dir, config.FileName))
	if err != nil || h.configInfo == nil {
		return (err == nil) != (h.configInfo != nil)
	}
	return info.Size() != h.configInfo.Size() || !info.ModTime().Equal(h.configInfo.ModTime())
}

// OpenHome opens the data directory that the flag or the environment names.
// The error matches config.ErrNotInitialised, or is a *config.DirError or a
// *config.Error.
func OpenHome(s cli.Streams, dirFlag string) (*Home, error) {
	dir, err := config.FindDir(dirFlag, s.Getenv)
	if err != nil {
		return nil, err
	}
	warning, err := config.CheckDir(dir)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		s.Warn("%s", warning)
	}
	info, _ := os.Stat(filepath.Join(dir, config.FileName)) // none: nothing was configured
	c, err := config.Load(dir, s.Getenv)
	if err != nil {
		return nil, err
	}
	h := &Home{Streams: s, Dir: dir, Config: c, Box: inbox.Open(dir), Version: cli.Version(), Now: time.Now, configInfo: info}
	h.Store = task.Open(dir, func(msg string) { s.Warn("%s", msg) })
	return h, nil
}

// boardDir is where the board's files are.
func (h *Home) boardDir() string { return filepath.Join(h.Dir, "board") }

// lockPath is where a lock is.
func (h *Home) lockPath(name string) string { return filepath.Join(h.Dir, "locks", name) }

// LogDir is where the logs go.
func (h *Home) LogDir() string { return logDir(h.Dir, h.Getenv) }

func logDir(dataDir string, getenv func(string) string) string {
	if dir := getenv("OTM_LOG_DIR"); dir != "" {
		return dir
	}
	if home := getenv("HOME"); runtime.GOOS == "darwin" && home != "" {
		return filepath.Join(home, "Library", "Logs", "OpenClaw")
	}
	return filepath.Join(dataDir, "logs")
}

// boundStderr returns the streams with a stderr that does not grow for ever:
// where it is a log of ours that is full, the next one is begun. That comes
// before anything can fail: timers start again whatever fails.
func boundStderr(s cli.Streams) cli.Streams {
	f, ok := s.Err.(*os.File)
	if !ok {
		return s
	}
	if dir, err := config.FindDir("", s.Getenv); err == nil {
		s.Err = logx.Bound(f, logDir(dir, s.Getenv))
	}
	return s
}

// logger returns the log of a component. A resident writes its file, and to
// the terminal if it runs on one; what runs once writes to stderr alone, as
// two writers would rotate each other's file away.
func (h *Home) logger(id string, resident bool) (*slog.Logger, func(), error) {
	level := slog.LevelInfo
	if h.Getenv("OTM_LOG_LEVEL") == "debug" {
		level = slog.LevelDebug
	}
	onTerminal := logx.New(h.Err, level).With("component", id)
	if !resident {
		return onTerminal, func() {}, nil
	}
	file, err := logx.OpenFile(filepath.Join(h.LogDir(), id+".log"))
	if err != nil {
		return nil, nil, err
	}
	log := logx.New(file, level)
	if isTerminal(h.Err) {
		log = logx.Tee(log, onTerminal)
	}
	return log, func() { file.Close() }, nil
}

func isTerminal(w any) bool {
	if a, ok := w.(*answer); ok {
		w = a.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
