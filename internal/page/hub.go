package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Rhythm of the pages.
const (
	quiet     = 25 * time.Millisecond // after a change, before looking: several come together
	lookEvery = 5 * time.Second       // without a change: ages, heartbeats, files
	heartbeat = 20 * time.Second      // keeps connections from being taken for dead
	backlog   = 64                    // changes that a slow page may be behind
)

// hub keeps the last state and sends pages what changes.
type hub struct {
	source Source
	now    func() time.Time
	log    *slog.Logger
	hints  chan struct{}

	mu      sync.Mutex // guards what follows
	version int        // counts the states
	last    *State
	parts   map[string][]byte // JSON of each part of last, by its name
	tasks   map[string][]byte // JSON of each task of last, by its row
	pages   map[chan []byte]struct{}
}

func newHub(source Source, now func() time.Time, log *slog.Logger) *hub {
	return &hub{source: source, now: now, log: log, hints: make(chan struct{}, 1), pages: map[chan []byte]struct{}{}}
}

// hint tells that something happened.
func (h *hub) hint() {
	select {
	case h.hints <- struct{}{}:
	default:
	}
}

// run looks when something happened and somebody watches.
func (h *hub) run(ctx context.Context, changed <-chan struct{}) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.hints:
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			if err := sleep(ctx, quiet); err != nil {
				return nil
			}
		}
		if !h.watched() {
			continue
		}
		if err := h.look(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("board not read for the page", "err", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) > 0
}

// look reads the state and sends what differs from the last one.
func (h *hub) look(ctx context.Context) error {
	s, err := h.source.State(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	change, err := h.take(s)
	if err != nil || change == nil {
		return err
	}
	event := sse("change", h.version, change)
	for page := range h.pages {
		select {
		case page <- event:
		default:
			delete(h.pages, page)
			close(page) // too slow: it begins anew
		}
	}
	return nil
}

// take makes s the last state and returns what changed, as JSON; nil where
// nothing did.
func (h *hub) take(s *State) ([]byte, error) {
	parts := map[string][]byte{}
	for name, v := range map[string]any{
		"agents": s.Agents, "components": s.Components, "waiting": s.Waiting, "failed": s.Failed, "room": s.Room,
	} {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		parts[name] = data
	}
	tasks := make(map[string][]byte, len(s.Tasks))
	for i := range s.Tasks {
		data, err := json.Marshal(&s.Tasks[i])
		if err != nil {
			return nil, err
		}
		tasks[s.Tasks[i].Row] = data
	}
	change := h.difference(parts, tasks)
	h.last, h.parts, h.tasks = s, parts, tasks
	if change == nil {
		return nil, nil
	}
	h.version++
	return change, nil
}

func (h *hub) difference(parts, tasks map[string][]byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"now":%q`, h.now().UTC().Format(time.RFC3339Nano))
	empty := b.Len()
	for name, data := range parts {
		if !bytes.Equal(data, h.parts[name]) {
			fmt.Fprintf(&b, `,%q:%s`, name, data)
		}
	}
	var changed [][]byte
	for row, data := range tasks {
		if !bytes.Equal(data, h.tasks[row]) {
			changed = append(changed, data)
		}
	}
	if len(changed) > 0 {
		fmt.Fprintf(&b, `,"tasks":[%s]`, bytes.Join(changed, []byte(",")))
	}
	var gone []string
	for row := range h.tasks {
		if tasks[row] == nil {
			gone = append(gone, row)
		}
	}
	if len(gone) > 0 {
		data, _ := json.Marshal(gone) // strings always marshal
		fmt.Fprintf(&b, `,"gone":%s`, data)
	}
	if b.Len() == empty {
		return nil
	}
	b.WriteByte('}')
	return b.Bytes()
}

// whole returns the present state as JSON, read anew.
func (h *hub) whole(ctx context.Context) ([]byte, error) {
	if err := h.look(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.encode()
}

// encode is called with mu held.
func (h *hub) encode() ([]byte, error) {
	return json.Marshal(struct {
		Version string    `json:"version"`
		Now     time.Time `json:"now"`
		*State
	}{strconv.Itoa(h.version), h.now().UTC(), h.last})
}

func sse(event string, id int, data []byte) []byte {
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", id, event, data)
}

// subscribe registers a page that has seen a version. If that is not the
// present one, the first thing it gets is the whole state.
func (h *hub) subscribe(ctx context.Context, version string) (chan []byte, error) {
	h.mu.Lock()
	fresh := h.last != nil && version == strconv.Itoa(h.version)
	h.mu.Unlock()
	if !fresh {
		if err := h.look(ctx); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	page := make(chan []byte, backlog)
	if version != strconv.Itoa(h.version) {
		data, err := h.encode()
		if err != nil {
			return nil, err
		}
		page <- sse("state", h.version, data)
	}
	h.pages[page] = struct{}{}
	return page, nil
}

func (h *hub) unsubscribe(page chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}

// events sends a page what changes, until it goes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	version := r.URL.Query().Get("version")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		version = id
	}
	page, err := s.hub.subscribe(r.Context(), version)
	if err != nil {
		s.fail(w, "read the board", err)
		return
	}
	defer s.hub.unsubscribe(page)
	control := http.NewResponseController(w)
	control.SetWriteDeadline(time.Time{}) // the server's limits are for exchanges that end
	control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(data []byte) error {
		if _, err := w.Write(data); err != nil {
			return err
		}
		return control.Flush()
	}
	if send([]byte(": hello\n\n")) != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case data, ok := <-page:
			if !ok || send(data) != nil {
				return
			}
		case <-beat.C:
			if send([]byte(": alive\n\n")) != nil {
				return
			}
		}
	}
}
