package store

import (
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"time"

	"otm/core"
	"otm/pipeline"
)

// enumerate gives events their numbers and ids. Another transaction gets its numbers
// after this one has ended, so a reader who saw a number has seen all below it.
func enumerate(t tx, events []core.Event) error {
	if len(events) == 0 {
		return nil
	}
	var last int64
	err := t.QueryRow("UPDATE counters SET value = value + $1 WHERE name = 'events' RETURNING value", len(events)).Scan(&last)
	for i := range events {
		events[i].Seq = last - int64(len(events)-1-i)
		events[i].ID = newULID(events[i].At)
	}
	return err
}

func saveEvents(t tx, events []core.Event) error {
	for i := range events {
		e := &events[i]
		payload, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		_, err = t.Exec(`INSERT INTO events (seq, id, type, version, code, at, task, agent, agent_key, actor_kind, actor, actor_via, cause, trace, payload)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			e.Seq, e.ID, e.Type(), core.EventVersion, e.Code(), fromTime(e.At), int64(e.Task), e.Agent, pipeline.FoldName(e.Agent), string(e.By.Kind), e.By.Name, e.By.Via, e.Cause, string(e.Trace), string(payload))
		if err != nil {
			return err
		}
	}
	return nil
}

// loadEvents returns the events that a filter selects, in their order.
func loadEvents(t tx, f core.EventFilter) ([]core.Event, error) {
	var q query
	q.where("seq > ?", f.After)
	if f.Task != 0 {
		q.where("task = ?", int64(f.Task))
	}
	if f.Agent != "" {
		q.where("agent_key = ?", pipeline.FoldName(f.Agent))
	}
	if len(f.Types) > 0 {
		in(&q, "type", core.StoredAs(f.Types))
	}
	if !f.Since.IsZero() {
		q.where("at >= ?", fromTime(f.Since))
	}
	end := " ORDER BY seq"
	if f.Last {
		end, f.Limit = " ORDER BY seq DESC", 1
	}
	if f.Limit > 0 {
		end += " LIMIT " + q.arg(f.Limit)
	}
	return collect(t, scanEvent, "SELECT seq, id, type, version, at, task, agent, actor_kind, actor, actor_via, cause, trace, payload FROM events"+q.text()+end, q.args...)
}

func scanEvent(rows *sql.Rows) (e core.Event, err error) {
	var typ, kind string
	var at, task, version int64
	var payload []byte
	if err := rows.Scan(&e.Seq, &e.ID, &typ, &version, &at, &task, &e.Agent, &kind, &e.By.Name, &e.By.Via, &e.Cause, &e.Trace, &payload); err != nil {
		return e, err
	}
	e.At, e.Task, e.By.Kind = toTime(at), pipeline.TaskID(task), core.Kind(kind)
	if version > core.EventVersion {
		return e, fmt.Errorf("event %d has version %d, which is not known: a newer version of otm wrote it", e.Seq, version)
	}
	if e.Data, err = core.DecodeData(typ, payload); err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, nil
}

// crockford is the alphabet of ULIDs: https://github.com/ulid/spec.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newULID returns an id that sorts by time: 48 bits of milliseconds, 80 random bits.
func newULID(at time.Time) string {
	var b [20]byte // base32 has 5 bits a letter: 2 bits more in front make 26 letters of 16 bytes
	rand.Read(b[10:])
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		b[4+i] = byte(ms >> (40 - 8*i))
	}
	return crockford.EncodeToString(b[:])[6:]
}
