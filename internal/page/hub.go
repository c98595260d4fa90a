package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Rhythm of the pages.
const (
	quiet     = 15 * time.Millisecond  // after a change, before looking: several come together
	rest      = 100 * time.Millisecond // from one look to the next, or twice what the look took
	lookEvery = 5 * time.Second        // without a change: ages, heartbeats, files
	heartbeat = 20 * time.Second       // keeps connections from being taken for dead
	sendTime  = 30 * time.Second       // a page that takes nothing for so long is gone
	backlog   = 64                     // changes that a slow page may be behind
)

// hub keeps the last state and sends pages what changes.
type hub struct {
	source Source
	now    func() time.Time
	log    *slog.Logger
	hints  chan struct{}
	epoch  string // of this process: versions of another one mean other states

	// turn holds a token while somebody looks. It guards failure.
	turn    chan struct{}
	failure error // of the last look

	mu      sync.Mutex // guards what follows
	begun   int        // looks that have begun
	ended   time.Time  // of the last look
	took    time.Duration
	count   int // of the states
	order   []string
	parts   map[string][]byte // JSON of each part of the last state, by its name; nil: there is none
	tasks   map[string][]byte // JSON of each of its tasks, by its row
	pages   map[chan []byte]struct{}
	trouble string // why the source cannot be read; "" where it can
}

func newHub(source Source, now func() time.Time, log *slog.Logger) *hub {
	return &hub{
		source: source, now: now, log: log, hints: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		epoch: strings.ToLower(rand.Text()[:8]), pages: map[chan []byte]struct{}{},
	}
}

// hint tells that something happened.
func (h *hub) hint() {
	select {
	case h.hints <- struct{}{}:
	default:
	}
}

// hear passes on what a channel tells, until ctx ends or it is closed.
func (h *hub) hear(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changed:
			if !ok {
				return
			}
			h.hint()
		}
	}
}

// run looks when something happened and somebody watches, and leaves the
// source in peace between two looks.
func (h *hub) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.hints:
		}
		if !h.watched() {
			continue // whoever comes looks
		}
		if sleep(ctx, h.pause()) != nil {
			return nil
		}
		select {
		case <-h.hints: // what came meanwhile is seen by this look
		default:
		}
		h.look(ctx) // its failure is told to the pages and the log
	}
}

// pause is how long to wait before the next look.
func (h *hub) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(quiet, max(rest, 2*h.took)-time.Since(h.ended))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) > 0
}

// look reads the state and sends what differs from the last one. Looks follow
// one another, so that an older state never replaces a newer one; who waited
// for his turn while another look began and ended takes that one.
func (h *hub) look(ctx context.Context) error {
	asked := h.looks()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.turn }()
	if h.looks() > asked && h.failure == nil {
		return nil
	}
	h.mu.Lock()
	h.begun++
	h.mu.Unlock()
	began := time.Now()
	s, err := h.source.State(ctx)
	if err == nil {
		err = h.take(s)
	}
	h.failure = err
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = time.Now()
	h.took = h.ended.Sub(began)
	if err == nil || ctx.Err() == nil {
		h.tellTrouble(err)
	}
	return err
}

func (h *hub) looks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// tellTrouble tells the pages and the log when the source can no longer be
// read, and when it can again. It is called with mu held.
func (h *hub) tellTrouble(err error) {
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	if trouble == h.trouble {
		return
	}
	h.trouble = trouble
	if trouble == "" {
		h.log.Info("board read again for the page")
	} else {
		h.log.Warn("board not read for the page", "err", err)
	}
	h.send(h.troubleEvent())
}

func (h *hub) troubleEvent() []byte {
	data, _ := json.Marshal(map[string]string{"error": h.trouble}) // strings always marshal
	return sse("trouble", "", data)
}

// take makes s the last state, and sends what changed.
func (h *hub) take(s *State) error {
	order, parts, tasks, err := encode(s)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.parts == nil
	change := h.difference(parts, tasks)
	h.order, h.parts, h.tasks = order, parts, tasks
	if change == nil && !first {
		return nil
	}
	h.count++
	if change != nil {
		h.send(sse("change", h.version(), change))
	}
	return nil
}

// send gives an event to every page. It is called with mu held.
func (h *hub) send(event []byte) {
	for page := range h.pages {
		select {
		case page <- event:
		default:
			delete(h.pages, page)
			close(page) // too slow: it begins anew
		}
	}
}

// version names the last state. It is called with mu held.
func (h *hub) version() string { return fmt.Sprintf("%s-%d", h.epoch, h.count) }

// partNames are the parts of a state besides its tasks, in the order in which
// they are sent.
var partNames = []string{"statuses", "priorities", "types", "agents", "components", "waiting", "failed", "room", "createCommand", "configPath"}

// encode returns the rows of the tasks in their order, and the parts of a state
// and its tasks as JSON.
func encode(s *State) (order []string, parts, tasks map[string][]byte, err error) {
	parts = make(map[string][]byte, len(partNames))
	for i, v := range []any{s.Statuses, s.Priorities, s.Types, s.Agents, s.Components, s.Waiting, s.Failed, s.Room, s.CreateCommand, s.ConfigPath} {
		if parts[partNames[i]], err = json.Marshal(v); err != nil {
			return nil, nil, nil, err
		}
	}
	order, tasks = make([]string, len(s.Tasks)), make(map[string][]byte, len(s.Tasks))
	for i := range s.Tasks {
		order[i] = s.Tasks[i].Row
		if tasks[order[i]], err = json.Marshal(&s.Tasks[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	return order, parts, tasks, nil
}

// difference is what is new against the last state, as JSON; nil where nothing
// is. It is called with mu held.
func (h *hub) difference(parts, tasks map[string][]byte) []byte {
	b := h.begin()
	empty := b.Len()
	for _, name := range partNames {
		if !bytes.Equal(parts[name], h.parts[name]) {
			fmt.Fprintf(b, `,%q:%s`, name, parts[name])
		}
	}
	var changed [][]byte
	for row, data := range tasks {
		if !bytes.Equal(data, h.tasks[row]) {
			changed = append(changed, data)
		}
	}
	if len(changed) > 0 {
		fmt.Fprintf(b, `,"tasks":[%s]`, bytes.Join(changed, []byte(",")))
	}
	var gone []string
	for row := range h.tasks {
		if tasks[row] == nil {
			gone = append(gone, row)
		}
	}
	if len(gone) > 0 {
		data, _ := json.Marshal(gone) // strings always marshal
		fmt.Fprintf(b, `,"gone":%s`, data)
	}
	if b.Len() == empty {
		return nil
	}
	b.WriteByte('}')
	return b.Bytes()
}

// begin begins an object with the time.
func (h *hub) begin() *bytes.Buffer {
	return bytes.NewBufferString(fmt.Sprintf(`{"now":%q`, h.now().UTC().Format(time.RFC3339Nano)))
}

// whole returns the state as JSON. While somebody watches, run keeps the last
// one up to date; else it is read anew.
func (h *hub) whole(ctx context.Context) ([]byte, error) {
	if !h.upToDate() {
		if err := h.look(ctx); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.everything(), nil
}

func (h *hub) upToDate() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) > 0 && h.parts != nil && h.trouble == ""
}

// everything is the last state as JSON. It is called with mu held.
func (h *hub) everything() []byte {
	b := h.begin()
	fmt.Fprintf(b, `,"version":%q`, h.version())
	for _, name := range partNames {
		fmt.Fprintf(b, `,%q:%s`, name, h.parts[name])
	}
	b.WriteString(`,"tasks":[`)
	for i, row := range h.order {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(h.tasks[row])
	}
	b.WriteString("]}")
	return b.Bytes()
}

func sse(event, id string, data []byte) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n\n", id, event, data)
}

// subscribe registers a page that has seen a version. If that is not the
// present one, the first thing it gets is the whole state.
func (h *hub) subscribe(ctx context.Context, version string) (chan []byte, error) {
	if !h.has(version) {
		if err := h.look(ctx); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	page := make(chan []byte, backlog)
	if version != h.version() {
		page <- sse("state", h.version(), h.everything())
	}
	if h.trouble != "" {
		page <- h.troubleEvent()
	}
	if len(h.pages) == 0 {
		h.hint() // what happened since it read the state, nobody looked at
	}
	h.pages[page] = struct{}{}
	return page, nil
}

func (h *hub) has(version string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts != nil && version == h.version()
}

func (h *hub) unsubscribe(page chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}

var errSessionOver = errors.New("the session is over")

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
	control.SetReadDeadline(time.Time{}) // the server's limits are for exchanges that end
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(data []byte) error {
		if may, err := s.maySee(r); err != nil || !may {
			return errSessionOver
		}
		control.SetWriteDeadline(time.Now().Add(sendTime))
		if _, err := w.Write(data); err != nil {
			return err
		}
		return control.Flush()
	}
	if send([]byte("retry: 1000\n\n")) != nil {
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
