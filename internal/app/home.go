// Package app builds the components from a configuration, and holds the
// commands that are made of them. It is the one place that knows them all.
package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/install"
	"otm/internal/lock"
	"otm/internal/logx"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// Home is an opened data directory: its configuration, its files, and the streams
// of the command that opened it.
type Home struct {
	cli.Streams
	Dir     string
	Config  *config.Config
	Box     *inbox.Box
	Counter *counter.Dir
	Version string
	Now     func() time.Time
	// PathDir goes in front of the PATH of agents that OTM starts: the folder of
	// otm and its siblings. "" is the folder of this program.
	PathDir string

	// waitAgents waits for the processes that were started for agents. It is nil
	// until a dispatcher can start one.
	waitAgents func()

	asJSON bool // --json was given

	registry    *registry
	stores      *stores
	waitOthers  time.Duration // see engine.Engine.Wait
	configStamp string        // names the otm.toml that was read, as heartbeats hold it: another content has another one
}

// configChanged reports whether otm.toml changed since it was read.
func (h *Home) configChanged() bool {
	return configStamp(h.Dir) != h.configStamp
}

// configUnreadable returns why a program that starts now, such as an agent's otm next, cannot
// load otm.toml; nil: it can. This process keeps what it read.
func (h *Home) configUnreadable() error {
	if !h.configChanged() {
		return nil
	}
	_, err := config.Load(h.Dir, h.Getenv)
	return err
}

// configStamp names the content of the otm.toml of a directory. It does not wait for a
// pipe that has this name.
func configStamp(dir string) string {
	text, err := durable.ReadFile(filepath.Join(dir, config.FileName))
	if errors.Is(err, fs.ErrNotExist) { // nothing is configured
		return "none"
	}
	return fmt.Sprintf("%x %t", sha256.Sum256(text), err == nil)
}

// OpenHome opens the data directory that the flag or the environment names. The
// error matches config.ErrNotInitialised, or is a *config.DirError or a
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
	stamp := configStamp(dir) // before it is loaded: a change in between counts as one
	c, err := config.Load(dir, s.Getenv)
	if err != nil {
		return nil, err
	}
	h := &Home{Streams: s, Dir: dir, Config: c, Box: inbox.Open(dir), Version: cli.Version(), Now: time.Now, configStamp: stamp, registry: &registry{}, stores: &stores{}}
	h.Counter = counter.Open(dir, func(msg string) { s.Warn("%s", msg) })
	return h, nil
}

// registry is everybody who is known, as the files said when they were last read.
type registry struct {
	mu      sync.Mutex
	stamp   string // of the files besides otm.toml; "": not read yet
	agents  pipeline.Agents
	problem error
}

// Agents returns everybody who is known. It follows openclaw.json and the gateway's list;
// otm.toml counts as it was at the start. As long as nothing changes, the slice is the
// same one. If openclaw.json cannot be read any more, those that it named stay.
func (h *Home) Agents() pipeline.Agents {
	agents, _ := h.knownAgents()
	return agents
}

// knownAgents is Agents, with why openclaw.json could not be read.
func (h *Home) knownAgents() (pipeline.Agents, error) {
	if !h.Config.UsesGateway() {
		return h.Config.Agents, nil
	}
	stamp := "read"
	for _, path := range h.Config.AgentFiles() {
		info, _ := os.Stat(path) // absent: it names nobody
		stamp += " " + stampOf(info)
	}
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stamp == stamp {
		return r.agents, r.problem
	}
	before := r.agents
	r.agents, r.problem = h.Config.AllAgents()
	for _, a := range before {
		if r.problem != nil && a.Source == pipeline.SourceOpenClaw && r.agents.Named(a.Name) == nil {
			r.agents = append(r.agents, a)
		}
	}
	r.stamp = stamp
	return r.agents, r.problem
}

// boardDir is the folder of the board's files.
func (h *Home) boardDir() string { return filepath.Join(h.Dir, "board") }

// lockPath is the path of a lock file.
func (h *Home) lockPath(name string) string { return filepath.Join(h.Dir, "locks", name) }

// LogDir is the folder of the logs.
func (h *Home) LogDir() string {
	return install.Options{Manager: install.Native(), Dir: h.Dir, Home: h.Getenv("HOME"), LogDir: h.Getenv("OTM_LOG_DIR")}.LogFolder()
}

// logger returns the log of a resident component: its file, and the terminal if it runs
// on one. A single run uses stderrLog: two writers would rotate each other's file away.
func (h *Home) logger(id string) (*slog.Logger, func(), error) {
	file, err := logx.OpenFile(filepath.Join(h.LogDir(), heartbeat.Log(id)))
	if err != nil {
		return nil, nil, err
	}
	inFile := logx.New(file, h.logLevel())
	if isTerminal(h.Err) {
		return slog.New(slog.NewMultiHandler(inFile.Handler(), h.stderrLog(id).Handler())), func() { file.Close() }, nil
	}
	return inFile, func() { file.Close() }, nil
}

// stderrLog is the log of a short-lived command.
func (h *Home) stderrLog(id string) *slog.Logger {
	return logx.New(h.Err, h.logLevel()).With("component", id)
}

func (h *Home) logLevel() slog.Level {
	if h.Getenv("OTM_LOG_LEVEL") == "debug" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// OpenStore returns the store of the data directory. The first call opens it, and
// imports a directory of the former format.
func (h *Home) OpenStore(ctx context.Context) (*store.Store, error) { return h.stores.get(ctx, h) }

// Close closes what was opened.
func (h *Home) Close() error { return h.stores.close() }

// runner is what keeps the components of a directory running: what otm install wrote, or
// else a person.
func (h *Home) runner() view.Runner {
	if o := install.Find(h.Dir, h.Getenv); o != nil {
		return view.Runner{Installed: true, Start: o.Again(), Apply: "run: " + o.Again()}
	}
	flag := dirFlag(h.Dir, h.Getenv)
	_, others := lock.Holder(board.LockPath(h.boardDir()))
	others = others || slices.ContainsFunc(heartbeat.Components, func(id string) bool { return isResident(h, id) })
	return view.Runner{Start: "otm up" + flag, Flag: flag, Others: others, Apply: "stop otm up, or what else runs here, and start it again"}
}

// startOf is the command line that starts a program that does not run here.
func (h *Home) startOf(program string) string { return h.runner().StartOf(program) }
