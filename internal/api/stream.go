package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"otm/internal/app"
	"otm/internal/loopback"
	"otm/pipeline/inbox/watch"
)

// streamID is the operation of the stream.
const streamID = "streamEvents"

// lookEvery is the pause between two looks for new events without a hint.
const lookEvery = time.Second

// eventsAtOnce bounds how many events a stream reads together.
const eventsAtOnce = 100

// maxStreams bounds how many streams are open at once. The server's connections are for
// requests, the board and the page, too.
const maxStreams = 64

// hub tells streams that there are new events. Each stream reads them by itself, from where
// it is: a slow one holds nobody up.
type hub struct {
	back *app.Backend

	mu      sync.Mutex
	streams int
	last    int64         // the last event that the streams know of
	more    chan struct{} // closed when there are later ones
}

func newHub(b *app.Backend) *hub { return &hub{back: b, more: make(chan struct{})} }

// run looks for events until ctx ends: after a hint, as commands change files, and now and
// then.
func (h *hub) run(ctx context.Context) error {
	dir := h.back.Home.Dir
	files := watch.New(func(name string) bool { return name == "changed" || strings.HasSuffix(name, ".json") }, filepath.Join(dir, "tasks"), filepath.Join(dir, "board"))
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { files.Run(ctx) })
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-files.Changed():
		}
		h.look(ctx)
	}
}

// look wakes the streams if there are new events.
func (h *hub) look(ctx context.Context) {
	if h.open() == 0 {
		return
	}
	store, err := h.back.Home.OpenStore(ctx)
	if err != nil {
		return
	}
	last, err := store.LastEvent(ctx)
	if err != nil {
		return // the next look tries again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if last != h.last {
		h.last = last
		close(h.more)
		h.more = make(chan struct{})
	}
}

// later returns a channel that is closed when there are new events.
func (h *hub) later() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.more
}

// open counts the open streams.
func (h *hub) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

// enter counts a new stream, and reports whether there is room for it.
func (h *hub) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= maxStreams {
		return false
	}
	h.streams++
	return true
}

// leave counts a stream that ended.
func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
}

// follow selects what a stream sends.
type follow struct {
	EventFilter
	Last  string `header:"Last-Event-ID" doc:"Number of the last event that was received"`
	begin bool   // after is given; 0 is before the first event
	auth  string
}

// Resolve reads what the fields do not tell.
func (f *follow) Resolve(c huma.Context) []error {
	f.begin, f.auth = c.Query("after") != "", c.Header("Authorization")
	return nil
}

// streams registers the stream of events.
func streams(s *server) {
	huma.Register(s.huma, huma.Operation{
		OperationID: streamID, Method: http.MethodGet, Path: Prefix + "/events/stream", Summary: "Follow what happens",
		Description: "Server-sent events: the id is the number of the event, the event its type, the data as in GET /events. " +
			"With Last-Event-ID or after, it begins with the event that follows; else with the next one. It ends when the token is revoked. While 64 streams are open, another one gets 503.",
		Responses: map[string]*huma.Response{"200": {Description: "The events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(ctx context.Context, in *follow) (*huma.StreamResponse, error) {
		f, err := in.filter()
		if err != nil {
			return nil, s.problem(err)
		}
		if in.Last != "" {
			if f.After, err = strconv.ParseInt(in.Last, 10, 64); err != nil || f.After < 0 {
				return nil, field("header.Last-Event-ID", "is no number of an event")
			}
		}
		store, err := s.back.Home.OpenStore(ctx)
		if err == nil && !in.begin && in.Last == "" {
			f.After, err = store.LastEvent(ctx)
		}
		f.Limit = eventsAtOnce
		if err == nil {
			_, _, err = s.events(ctx, f) // who follows is told why nothing comes
		}
		if err != nil {
			return nil, s.problem(err)
		}
		if !s.hub.enter() {
			full := newProblem(http.StatusServiceUnavailable, fmt.Sprintf("%d streams of events are open: close one, or come again", maxStreams))
			return nil, huma.ErrorWithHeaders(full, http.Header{"Retry-After": {"15"}})
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			out := loopback.NewStream(w, "text/event-stream", s.sendTime)
			defer s.hub.leave()
			beat := time.NewTicker(s.beat)
			defer beat.Stop()
			if out.Send([]byte(": begins\n\n")) != nil {
				return
			}
			for {
				more := s.hub.later()
				events, next, err := s.events(r.Context(), f)
				if err != nil {
					s.back.Log.Warn("stream of events ends", "err", err)
					return // the reader comes again
				}
				f.After = next
				for i := range events {
					data, err := json.Marshal(&events[i])
					if err != nil || out.Send(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", events[i].Sequence, events[i].EventType, data)) != nil {
						return
					}
				}
				if len(events) == eventsAtOnce {
					continue
				}
				select {
				case <-r.Context().Done():
					return
				case <-more:
				case <-beat.C:
					if _, err := s.token(in.auth); err != nil {
						return // who comes again is told
					}
					if out.Send([]byte(": still here\n\n")) != nil {
						return
					}
				}
			}
		}}, nil
	})
}
