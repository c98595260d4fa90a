package task

import (
	"io/fs"
	"os"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// cache keeps records in memory: each pass looks at all of them. A file is
// identified by its stat; each write makes a new one.
type cache map[pipeline.TaskID]cached

type cached struct {
	info fs.FileInfo
	rec  *pipeline.Record
}

const (
	// maxCached bounds the cache. Beyond it, it begins anew.
	maxCached = 20_000
	// restless is the age below which a file is not cached: its times have the
	// grain of the kernel's tick, within which it may be written again.
	restless = 100 * time.Millisecond
)

// Load reads the record of a task. The result is the caller's own. The error
// matches fs.ErrNotExist if there is none, and is a *CorruptError if it cannot be
// parsed.
func (s *Store) Load(id pipeline.TaskID) (*pipeline.Record, error) {
	info, err := durable.Stat(s.recordPath(id))
	if err != nil {
		return nil, err
	}
	if r := s.fromCache(id, info); r != nil {
		return r, nil
	}
	r, err := s.read(id) // if it is replaced in between, the next look sees another file
	if err == nil {
		s.keep(id, info, r)
	}
	return r, err
}

func (s *Store) fromCache(id pipeline.TaskID, info fs.FileInfo) *pipeline.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.records[id]
	if !ok || !os.SameFile(c.info, info) || c.info.Size() != info.Size() || !durable.ChangeTime(c.info).Equal(durable.ChangeTime(info)) {
		return nil
	}
	return c.rec.Clone()
}

func (s *Store) keep(id pipeline.TaskID, info fs.FileInfo, r *pipeline.Record) {
	if age := time.Since(durable.ChangeTime(info)); age < restless {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil || len(s.records) >= maxCached {
		s.records = cache{}
	}
	s.records[id] = cached{info, r.Clone()}
}
