package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"otm/internal/loopback"
)

// How often the hub looks, and how long its pages may take.
const (
	quiet     = 15 * time.Millisecond  // from a change to the look, as changes come in groups
	rest      = 100 * time.Millisecond // from one look to the next, or twice what the look took
	lookEvery = 5 * time.Second        // without a change: ages, heartbeats, files
	heartbeat = 3 * time.Second        // app.js takes 8 s of silence for a lost connection
	sendTime  = 30 * time.Second       // a page that accepts no data for so long is gone
	backlog   = 64                     // how many changes a slow page may be behind
)

// hub keeps the last state and sends pages what changes.
type hub struct {
	source Source
	now    func() time.Time
	log    *slog.Logger
	hints  chan struct{}

	// turn holds a value while a look runs. It guards failure.
	turn    chan struct{}
	failure error // of the last look

	begun atomic.Int64 // looks that have begun

	mu      sync.Mutex // guards what follows
	ended   time.Time  // when the last look ended
	took    time.Duration
	rest    []byte            // JSON of the last state without its tasks: ,"name":value …; nil before the first
	tasks   map[string][]byte // JSON of each of its tasks, by its row
	pages   map[chan []byte]struct{}
	trouble string // why the source cannot be read; "" if it can
}

func newHub(source Source, now func() time.Time, log *slog.Logger) *hub {
	return &hub{
		source: source, now: now, log: log, hints: make(chan struct{}, 1), turn: make(chan struct{}, 1), pages: map[chan []byte]struct{}{},
	}
}

// hint makes run look soon.
func (h *hub) hint() {
	select {
	case h.hints <- struct{}{}:
	default:
	}
}

// hear gives a hint for each value of a channel, until ctx ends or the channel
// is closed.
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

// run looks after each hint while a page is open, with a rest between looks.
func (h *hub) run(ctx context.Context) error {
	tick := time.Tick(lookEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		case <-h.hints:
		}
		if !h.watched() {
			continue // the next page that opens looks
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(h.pause()):
		}
		select {
		case <-h.hints: // this look covers hints that came meanwhile
		default:
		}
		h.look(ctx) // a failure goes to the pages and the log
	}
}

// pause is how long to wait before the next look.
func (h *hub) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(quiet, max(rest, 2*h.took)-time.Since(h.ended))
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) > 0
}

// look reads the state and sends what differs from the last one. One look runs
// at a time, so that an older state never replaces a newer one. A caller who
// waited while another look began and ended uses the result of that one.
func (h *hub) look(ctx context.Context) error {
	asked := h.begun.Load()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.turn }()
	if h.begun.Load() > asked && h.failure == nil {
		return nil
	}
	h.begun.Add(1)
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

// tellTrouble tells the pages and the log that the source can no longer be
// read, or that it can again. It is called with mu held.
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
	data, _ := json.Marshal(map[string]string{"trouble": h.trouble}) // strings always marshal
	h.send(append(data, '\n'))
}

// take makes s the last state, and sends what changed.
func (h *hub) take(s *State) error {
	rest, tasks, err := encode(s)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	change := difference(h.rest, rest, h.tasks, tasks)
	h.rest, h.tasks = rest, tasks
	if change != "" {
		h.send([]byte(h.head() + change + "}\n"))
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
			close(page) // too slow: it reconnects
		}
	}
}

// encode returns a state without its tasks as the members of a JSON object,
// each after a comma, and its tasks as JSON by their rows.
func encode(s *State) (rest []byte, tasks map[string][]byte, err error) {
	if rest, err = json.Marshal(&s.Rest); err != nil {
		return nil, nil, err
	}
	rest[0] = ','
	tasks = make(map[string][]byte, len(s.Tasks))
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if tasks[t.Row], err = json.Marshal(t); err != nil {
			return nil, nil, err
		}
	}
	return rest[:len(rest)-1], tasks, nil
}

// difference is what is new against another state, as the members of a JSON object, each
// after a comma; "" if nothing is.
func difference(wasRest, rest []byte, was, tasks map[string][]byte) string {
	var changed, gone []string
	for _, row := range slices.Sorted(maps.Keys(tasks)) {
		if !bytes.Equal(tasks[row], was[row]) {
			changed = append(changed, string(tasks[row]))
		}
	}
	for row := range was {
		if tasks[row] == nil {
			gone = append(gone, strconv.Quote(row))
		}
	}
	var b strings.Builder
	if !bytes.Equal(rest, wasRest) {
		b.Write(rest)
	}
	if len(changed) > 0 {
		fmt.Fprintf(&b, `,"cards":[%s]`, strings.Join(changed, ","))
	}
	if len(gone) > 0 {
		fmt.Fprintf(&b, `,"gone":[%s]`, strings.Join(gone, ","))
	}
	return b.String()
}

// head begins an object with the time.
func (h *hub) head() string {
	return fmt.Sprintf(`{"now":%q`, h.now().UTC().Format(time.RFC3339Nano))
}

// whole returns the state as JSON.
func (h *hub) whole(ctx context.Context) ([]byte, error) {
	if err := h.ensure(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.everything(), nil
}

// ensure reads the state, unless a page is open: then run keeps it up to date.
func (h *hub) ensure(ctx context.Context) error {
	h.mu.Lock()
	upToDate := len(h.pages) > 0 && h.trouble == ""
	h.mu.Unlock()
	if upToDate {
		return nil
	}
	return h.look(ctx)
}

// everything is the last state as a line of JSON. It is called with mu held.
func (h *hub) everything() []byte {
	return []byte(h.head() + `,"all":true` + difference(nil, h.rest, nil, h.tasks) + "}\n")
}

// subscribe registers a page, which gets the whole state first.
func (h *hub) subscribe(ctx context.Context) (chan []byte, error) {
	if err := h.ensure(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	page := make(chan []byte, backlog)
	page <- h.everything()
	if len(h.pages) == 0 {
		h.hint() // nobody has looked since it read the state
	}
	h.pages[page] = struct{}{}
	return page, nil
}

func (h *hub) unsubscribe(page chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}

// alive is what a stream says when it has nothing to say.
var alive = []byte("\n")

// events sends a page what changes, a JSON object a line, until the page goes.
// An empty line says that the connection lives.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	page, err := s.hub.subscribe(r.Context())
	if err != nil {
		s.fail(w, "read the board", err)
		return
	}
	defer s.hub.unsubscribe(page)
	out := loopback.NewStream(w, "application/jsonl", sendTime)
	if out.Send(alive) != nil {
		return
	}
	beat := time.Tick(heartbeat)
	for {
		select {
		case <-r.Context().Done():
			return
		case data, ok := <-page:
			if !ok || out.Send(data) != nil {
				return
			}
		case <-beat:
			if out.Send(alive) != nil {
				return
			}
		}
	}
}
