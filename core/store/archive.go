package store

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
)

// ArchiveDir is the name of the directory of archives in the data directory.
const ArchiveDir = "archive"

// dayLayout is how days are written. They are those of UTC.
const dayLayout = time.DateOnly

func brokenArchive(path string, err error) error {
	hint := "put %q back from a backup: until then nobody can read its events; all else goes on"
	if strings.HasPrefix(filepath.Base(path), "snapshot-") {
		hint = "remove %q: the archives before it make up for it"
	}
	return &Error{Err: fmt.Errorf("%w: %q: %w", core.ErrArchive, path, err), Hint: fmt.Sprintf(hint, path)}
}

// archive is a file of events, which are not in the table of events any more.
type archive struct {
	day         string
	first, last int64 // numbers of events
	until       time.Time
	sum         string
}

// seal is the last line of a file of the archive.
type seal struct {
	Schema string `json:"schema"` // otm.archive.v1
	Day    string `json:"day"`
	First  int64  `json:"firstSequence,omitempty"` // 0: it is a snapshot
	Last   int64  `json:"lastSequence"`
	Events int64  `json:"events,omitempty"`
	SHA256 string `json:"sha256"` // of all lines before this one
}

func (a *archive) eventsFile() string   { return "events-" + a.day + ".ndjson.gz" }
func (a *archive) snapshotFile() string { return "snapshot-" + a.day + ".json.gz" }

// archiveDir is the directory of archives of a store.
type archiveDir string

func archiveDirOf(s *Store) archiveDir { return archiveDir(filepath.Join(s.dir, ArchiveDir)) }

func (dir archiveDir) path(name string) string { return filepath.Join(string(dir), name) }

// write writes lines and their seal to a file of the archive, durably.
func (dir archiveDir) write(name string, lines []byte, is seal) (sum string, err error) {
	digest := sha256.Sum256(lines)
	is.Schema, is.SHA256 = "otm.archive.v1", hex.EncodeToString(digest[:])
	end, err := json.Marshal(is)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	z.Write(lines) // writing to memory does not fail
	z.Write(append(end, '\n'))
	if err := errors.Join(z.Close(), durable.Mkdir(string(dir))); err != nil {
		return "", err
	}
	return is.SHA256, durable.Replace(dir.path(name), packed.Bytes())
}

// read reads a file of the archive.
func (dir archiveDir) read(name string) (lines []byte, is seal, err error) {
	path := dir.path(name)
	packed, err := durable.ReadFile(path)
	if err == nil {
		if lines, is, err = unseal(packed, maxUnpacked); err != nil {
			err = brokenArchive(path, err)
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = brokenArchive(path, fs.ErrNotExist)
	}
	return lines, is, err
}

// maxUnpacked is far more than a day's events or a snapshot take. What is larger is not ours,
// and would take all memory.
const maxUnpacked = 512 << 20

func unseal(packed []byte, most int64) (lines []byte, is seal, err error) {
	var all []byte
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		all, err = io.ReadAll(io.LimitReader(z, most+1))
	}
	if err == nil && int64(len(all)) > most {
		err = fmt.Errorf("it holds more than %d bytes", most)
	}
	if err != nil {
		return nil, is, err
	}
	end := bytes.LastIndexByte(bytes.TrimSuffix(all, []byte("\n")), '\n') + 1
	if err := json.Unmarshal(all[end:], &is); err != nil {
		return nil, is, fmt.Errorf("the last line is no checksum: %w", err)
	}
	if digest := sha256.Sum256(all[:end]); hex.EncodeToString(digest[:]) != is.SHA256 {
		return nil, is, errors.New("its checksum is another one")
	}
	return all[:end], is, nil
}

// loadArchives returns the archives that have events after one, the oldest first.
func loadArchives(t tx, after int64) ([]archive, error) {
	scan := func(rows *sql.Rows) (a archive, err error) {
		var until int64
		err = rows.Scan(&a.day, &a.first, &a.last, &until, &a.sum)
		a.until = toTime(until)
		return a, err
	}
	return collect(t, scan, "SELECT day, first, last, until_at, sum FROM archives WHERE last > $1 ORDER BY last", after)
}

// events reads the events of an archive.
func (dir archiveDir) events(a *archive) ([]core.Event, error) {
	lines, is, err := dir.read(a.eventsFile())
	if err != nil {
		return nil, err
	}
	bad := func(err error) ([]core.Event, error) { return nil, brokenArchive(dir.path(a.eventsFile()), err) }
	if is.First != a.first || is.Last != a.last || is.SHA256 != a.sum {
		return bad(fmt.Errorf("it is not the file that was archived: it has events %d to %d", is.First, is.Last))
	}
	events := make([]core.Event, 0, is.Events)
	for line := range bytes.Lines(lines) {
		var env core.Envelope
		if err := json.Unmarshal(line, &env); err != nil {
			return bad(err)
		}
		e, err := env.Event()
		if err != nil {
			return bad(err)
		}
		events = append(events, e)
	}
	if n := int64(len(events)); n != is.Events || n == 0 || events[0].Seq != a.first || events[n-1].Seq != a.last {
		return bad(fmt.Errorf("it has %d events instead of %d", n, is.Events))
	}
	return events, nil
}

// find returns the archived events that a filter selects, in their order.
func (dir archiveDir) find(t tx, f core.EventFilter) (found []core.Event, err error) {
	all, err := loadArchives(t, f.After)
	if err != nil {
		return nil, err
	}
	var only []int64 // the last events of the archives that have events of the task
	if f.Task != 0 {
		if only, err = collect(t, number, "SELECT last FROM archived_tasks WHERE task = $1", int64(f.Task)); err != nil {
			return nil, err
		}
	}
	if f.Last {
		slices.Reverse(all)
	}
	for i := range all {
		a := &all[i]
		if f.Task != 0 && !slices.Contains(only, a.last) || !f.Since.IsZero() && a.until.Before(f.Since) {
			continue
		}
		events, err := dir.events(a)
		if err != nil {
			return nil, err
		}
		events = slices.DeleteFunc(events, func(e core.Event) bool { return !selects(&f, &e) })
		found = append(found, events...)
		switch {
		case f.Last && len(found) > 0:
			return found[len(found)-1:], nil
		case f.Limit > 0 && len(found) >= f.Limit:
			return found[:f.Limit], nil
		}
	}
	return found, nil
}

// BadArchives reads all files of the archive and returns those that are damaged, or missing.
func BadArchives(ctx context.Context, s *Store) (bad []core.BadArchive, err error) {
	all, err := reading(ctx, s, func(t tx) ([]archive, error) { return loadArchives(t, 0) })
	if err != nil {
		return nil, err
	}
	dir := archiveDirOf(s)
	note := func(err error) {
		if err != nil {
			bad = append(bad, core.BadArchive{Why: err.Error(), Do: Hint(err)})
		}
	}
	for i := range all {
		_, err := dir.events(&all[i])
		note(err)
	}
	snapshots, err := filepath.Glob(dir.path("snapshot-*.json.gz"))
	for _, path := range snapshots {
		_, err := dir.snapshot(filepath.Base(path))
		note(err)
	}
	return bad, err
}

// selects is the filter as loadEvents has it, but for Limit and Last.
func selects(f *core.EventFilter, e *core.Event) bool {
	return e.Seq > f.After && (f.Task == 0 || e.Task == f.Task) && (f.Agent == "" || core.SameAgent(e.Agent, f.Agent)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type())) && !e.At.Before(f.Since)
}

// Archive moves the events of whole days that ended more than keep ago into archives, and
// forgets the ids of commands older than 400 days. It returns the days. If we crash, or it
// fails, an event is in the table or in an archive: the file counts once it has its row,
// and the same transaction deletes the events.
func Archive(ctx context.Context, s *Store, now time.Time, keep time.Duration, by core.Producer) (days []string, err error) {
	var state *core.State // as of the last archived event
	for ctx.Err() == nil {
		d, err := dueDay(ctx, s, now, keep, by)
		if d == nil || err != nil {
			return days, err
		}
		if state == nil {
			if state, err = archiveDirOf(s).state(d.before); err != nil {
				return days, err
			}
		}
		// A clock that is wrong by years must not forget the ids of this week.
		forget := d.begin.Add(-max(keepCommands-keep, 0))
		if err := archiveDay(ctx, s, d, state, forget); err != nil {
			return days, err
		}
		days = append(days, d.day)
	}
	return days, context.Cause(ctx)
}

// keepCommands is how long the ids of commands are kept: a drop that comes again later is
// carried out again.
const keepCommands = 400 * 24 * time.Hour

// day is a day whose events are to be archived.
type day struct {
	archive
	begin   time.Time
	count   int64 // of events
	before  []archive
	lines   []byte
	tasks   map[pipeline.TaskID]bool
	another bool // the day after it is due, too, and of the same month
}

// dueDay returns the oldest day whose events are to be archived; nil: there is none. A time
// later than now is that of a clock that was wrong: such an event goes with the one before.
func dueDay(ctx context.Context, s *Store, now time.Time, keep time.Duration, by core.Producer) (due *day, err error) {
	err = s.read(ctx, func(t tx) error {
		due = nil
		d := &day{tasks: map[pipeline.TaskID]bool{}}
		if d.before, err = loadArchives(t, 0); err != nil {
			return err
		}
		begin, err := dayOfFirst(t, time.Time{}, now)
		if begin.IsZero() || err != nil {
			return err
		}
		if n := len(d.before); n > 0 {
			if last, err := time.Parse(dayLayout, d.before[n-1].day); err == nil && !begin.After(last) {
				begin = last.AddDate(0, 0, 1) // a clock was set back
			}
		}
		end := begin.AddDate(0, 0, 1)
		if end.After(now.Add(-keep)) {
			return nil
		}
		d.begin, d.day = begin, begin.Format(dayLayout)
		next, err := dayOfFirst(t, end, now)
		if err != nil {
			return err
		}
		d.another = !next.IsZero() && next.Month() == begin.Month() && !next.AddDate(0, 0, 1).After(now.Add(-keep))
		due = d
		return d.load(t, end, now, s.ID(), by)
	})
	return due, err
}

// dayOfFirst returns the day of the first event that is not before a time, nor later than
// now; zero: there is none.
func dayOfFirst(t tx, from, now time.Time) (day time.Time, err error) {
	var at int64
	err = t.QueryRow("SELECT at FROM events WHERE at >= $1 AND at <= $2 ORDER BY seq LIMIT 1", fromTime(from), fromTime(now)).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return toTime(at).Truncate(24 * time.Hour), err
}

// load reads the events before the first one that is not before end.
func (d *day) load(t tx, end, now time.Time, tenant string, by core.Producer) error {
	var next int64
	err := t.QueryRow("SELECT seq FROM events WHERE at >= $1 AND at <= $2 ORDER BY seq LIMIT 1", fromTime(end), fromTime(now)).Scan(&next)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.QueryRow("SELECT max(seq) + 1 FROM events").Scan(&next)
	}
	if err != nil {
		return err
	}
	for d.last < next-1 {
		events, err := loadEvents(t, core.EventFilter{After: d.last, Limit: replayChunk})
		if err != nil {
			return err
		}
		for i := range events {
			e := &events[i]
			if e.Seq >= next {
				return nil
			}
			env, err := e.Envelope(tenant, by)
			if err != nil {
				return err
			}
			line, err := json.Marshal(env)
			if err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
			d.lines = append(append(d.lines, line...), '\n')
			d.first, d.last = cmp.Or(d.first, e.Seq), e.Seq
			d.count++
			if e.At.After(d.until) {
				d.until = e.At
			}
			if e.Task != 0 {
				d.tasks[e.Task] = true
			}
		}
	}
	return nil
}

// archiveDay writes the archive of a day, reads it back, and deletes the events. It forgets
// the ids of commands from before a time. state is that before the day, and afterwards that
// after it.
func archiveDay(ctx context.Context, s *Store, d *day, state *core.State, forget time.Time) (err error) {
	dir := archiveDirOf(s)
	if d.sum, err = dir.write(d.eventsFile(), d.lines, seal{Day: d.day, First: d.first, Last: d.last, Events: d.count}); err != nil {
		return err
	}
	crash.Point("archive.written")
	events, err := dir.events(&d.archive)
	if err != nil {
		return err
	}
	for i := range events {
		core.Apply(state, &events[i])
	}
	if !d.another {
		doc, err := json.Marshal(state)
		if err == nil {
			_, err = dir.write(d.snapshotFile(), append(doc, '\n'), seal{Day: d.day, Last: d.last})
		}
		if err != nil {
			return err
		}
	}
	crash.Point("archive.snapshot")
	if err := s.write(ctx, synced, func(t tx) error { return d.settle(t, forget) }); err != nil {
		return err
	}
	crash.Point("archive.settled")
	return dir.prune()
}

// settle deletes the events that the archive of a day has.
func (d *day) settle(t tx, forget time.Time) error {
	deleted, err := t.Exec("DELETE FROM events WHERE seq >= $1 AND seq <= $2", d.first, d.last)
	if err != nil {
		return err
	}
	if n, err := deleted.RowsAffected(); err != nil || n != d.count {
		return errors.Join(err, fmt.Errorf("the archive of %s has %d events, and the store has %d of them: another program archives", d.day, d.count, n))
	}
	_, err = t.Exec("INSERT INTO archives (day, first, last, until_at, sum) VALUES ($1, $2, $3, $4, $5)", d.day, d.first, d.last, fromTime(d.until), d.sum)
	for task := range d.tasks {
		if err == nil {
			_, err = t.Exec("INSERT INTO archived_tasks (task, last) VALUES ($1, $2)", int64(task), d.last)
		}
	}
	if err == nil { // at 0: of before the store
		_, err = t.Exec("DELETE FROM commands WHERE at > 0 AND at < $1", fromTime(forget))
	}
	return err
}

// prune keeps the newest two snapshots, and the last one of each month.
func (dir archiveDir) prune() error {
	paths, err := filepath.Glob(dir.path("snapshot-*.json.gz"))
	if err != nil || len(paths) < 3 {
		return err
	}
	month := len(dir.path("snapshot-2026-11"))
	for i, path := range paths[:len(paths)-2] {
		if path[:month] == paths[i+1][:month] {
			err = errors.Join(err, durable.Remove(path))
		}
	}
	return err
}

// snapshot is a state of the archive, and the last event from which it follows.
type snapshot struct {
	state *core.State
	last  int64
}

func (dir archiveDir) snapshot(name string) (s snapshot, err error) {
	doc, is, err := dir.read(name)
	if err == nil {
		s = snapshot{new(core.State), is.Last}
		if err = json.Unmarshal(doc, s.state); err != nil {
			err = brokenArchive(dir.path(name), err)
		}
	}
	return s, err
}

// state returns the state that follows from archived events: the newest snapshot,
// and what came later. A snapshot that is missing is made up for by older archives.
func (dir archiveDir) state(all []archive) (*core.State, error) {
	state, from := new(core.State), len(all)
	for ; from > 0; from-- {
		a := &all[from-1]
		if _, err := os.Stat(dir.path(a.snapshotFile())); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		snapshot, err := dir.snapshot(a.snapshotFile())
		if err != nil {
			return nil, err
		}
		if snapshot.last == a.last { // else we crashed after we wrote it, and the day was archived otherwise
			state = snapshot.state
			break
		}
	}
	for i := range all[from:] {
		events, err := dir.events(&all[from+i])
		if err != nil {
			return nil, err
		}
		for i := range events {
			core.Apply(state, &events[i])
		}
	}
	return state, nil
}
