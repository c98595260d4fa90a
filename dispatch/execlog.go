package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"otm/internal/durable"
)

// Bounds of the output that is kept.
const (
	maxExecLog  = 1 << 20 // bytes a run
	maxExecLogs = 20      // runs an agent
)

// execLog is the log of one run of a command. It drops output after maxExecLog bytes,
// and says so. It is not for several goroutines: os/exec makes one stream of stdout and
// stderr.
type execLog struct {
	file *durable.File
	left int // bytes that may still be written
}

// openExecLog creates the log of a run and deletes the agent's oldest logs.
func openExecLog(dir, key string, now time.Time) (*execLog, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	pruneExecLogs(dir)
	name := now.UTC().Format("20060102T150405.000Z") + "-" + key + ".log"
	f, err := durable.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	return &execLog{file: f, left: maxExecLog}, nil
}

func pruneExecLogs(dir string) {
	entries, err := durable.ReadDir(dir)
	if err != nil {
		return
	}
	var logs []string // by time
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			logs = append(logs, e.Name())
		}
	}
	for _, name := range logs[:max(0, len(logs)-maxExecLogs+1)] {
		durable.Remove(filepath.Join(dir, name))
	}
}

// Write never fails: a full disk must not end an agent.
func (l *execLog) Write(p []byte) (int, error) {
	if l.left <= 0 {
		return len(p), nil
	}
	keep := min(len(p), l.left)
	l.left -= keep
	l.file.Write(p[:keep])
	if l.left <= 0 {
		fmt.Fprintf(l.file, "\n[the rest is not kept: more than %d bytes]\n", maxExecLog)
	}
	return len(p), nil
}

// End writes the last line.
func (l *execLog) End(line string) {
	fmt.Fprintf(l.file, "\n%s\n", line)
}

func (l *execLog) Close() error { return l.file.Close() }

func (l *execLog) discard() {
	l.Close()
	durable.Remove(l.file.Name())
}
