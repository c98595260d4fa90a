package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/logx"
	"otm/internal/safe"
	"otm/internal/view"
)

// The logs that mirror events, for tail.
const (
	eventsLog = "otm-events.log"
	errorsLog = "otm-errors.log"
)

// mirrored bounds how much of the end of a log is looked at for its last event.
const mirrored = 1 << 20

// mirrorEvents appends new events to otm-events.log, and those that tell of something wrong
// also to otm-errors.log. last is the number of the last event of the store. The last line of
// otm-events.log is the cursor; without one, all events of the store are new. If we crash, one
// line of otm-errors.log may come twice.
func mirrorEvents(ctx context.Context, h *Home, store core.Reader, last int64) error {
	after, cut, err := lastMirrored(h.LogDir())
	if err != nil || after == last {
		return err
	}
	if after > last {
		after = 0 // the store is another one than before
	}
	f := core.EventFilter{After: after, Limit: eventsAtOnce}
	events, err := logx.OpenFile(filepath.Join(h.LogDir(), eventsLog))
	if err != nil {
		return err
	}
	defer events.Close()
	if cut {
		if _, err := events.Write([]byte("\n")); err != nil {
			return err
		}
	}
	wrong, err := logx.OpenFile(filepath.Join(h.LogDir(), errorsLog))
	if err != nil {
		return err
	}
	defer wrong.Close()
	for {
		some, err := store.Events(ctx, f)
		if err != nil {
			return err
		}
		for i := range some {
			e := &some[i]
			if line := errorLine(e); line != "" {
				if _, err := wrong.Write([]byte(line)); err != nil {
					return err
				}
			}
			line, err := eventLine(e)
			if err == nil {
				_, err = events.Write(line)
			}
			if err != nil {
				return err
			}
			f.After = e.Seq
		}
		if len(some) < f.Limit {
			return nil
		}
	}
}

// mirroredEvent is the JSON at the end of a line of otm-events.log.
type mirroredEvent struct {
	Sequence int64     `json:"sequence"`
	Type     string    `json:"event_type"`
	Payload  core.Data `json:"payload"`
}

// lastMirrored returns the number of the last event in otm-events.log. cut says that the last
// line is not whole, as after a full disk.
func lastMirrored(dir string) (last int64, cut bool, err error) {
	for _, name := range []string{eventsLog, eventsLog + ".1"} {
		end, err := durable.ReadTail(dir, name, mirrored)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		whole := bytes.LastIndexByte(end, '\n') + 1
		cut = cut || name == eventsLog && whole < len(end)
		for whole > 0 {
			start := bytes.LastIndexByte(end[:whole-1], '\n') + 1
			var e mirroredEvent
			if _, doc, ok := bytes.Cut(end[start:whole], []byte("] {")); ok && json.Unmarshal(append([]byte("{"), doc...), &e) == nil {
				return e.Sequence, cut, nil
			}
			whole = start
		}
	}
	return 0, cut, nil
}

const logTime = "2006-01-02T15:04:05.000Z"

// eventLine is the line of an event: [time] [code] [who] [task] [agent], and the event as JSON.
func eventLine(e *core.Event) ([]byte, error) {
	doc, err := json.Marshal(mirroredEvent{e.Seq, e.Type(), e.Data})
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return fmt.Appendf(nil, "%s[%s] %s\n", lineBegin(e, e.Code(), e.By.String()), bracketed(e.Agent), doc), nil
}

// errorLine is the line of an event that tells of something wrong: [time] [code] [severity]
// [task] [agent] what it is [correction: what OTM does]. "": it tells of nothing wrong.
func errorLine(e *core.Event) string {
	severity, correction := 1, "none"
	switch data := e.Data.(type) {
	case core.IncidentOpened:
		severity = data.Severity
	case core.IncidentCorrected:
		severity, correction = data.Severity, cmp.Or(data.Did, correction)
	case core.IncidentClosed:
		severity, correction = data.Severity, "it is over"
	case core.ReconciliationDrift:
		correction = "written again"
	default:
		if !strings.HasPrefix(e.Code(), "ERR-") {
			return ""
		}
	}
	words := []string{"note", "warning", "failure"}
	return fmt.Sprintf("%s[%s] %s [correction: %s]\n", lineBegin(e, e.Code(), words[severity]), bracketed(e.Agent), safe.Escape(view.Words(e)), correction)
}

func lineBegin(e *core.Event, fields ...string) string {
	line := "[" + e.At.UTC().Format(logTime) + "] "
	for _, f := range fields {
		line += "[" + bracketed(f) + "] "
	}
	task := ""
	if e.Task != 0 {
		task = e.Task.String()
	}
	return line + "[" + bracketed(task) + "] "
}

// bracketed is a field of a line; "-": it is empty.
func bracketed(text string) string {
	return cmp.Or(strings.ReplaceAll(safe.Escape(text), "]", ")"), "-")
}
