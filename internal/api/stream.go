package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"otm/core"
	"otm/internal/loopback"
)

// streamID is the operation of the stream.
const streamID = "streamEvents"

// lookEvery is the pause between two looks for new events.
const lookEvery = 200 * time.Millisecond

// eventsAtOnce bounds how many events a stream reads together.
const eventsAtOnce = 100

// maxStreams bounds how many streams are open at once. The server's connections are for
// requests, the board and the page, too.
const maxStreams = 64

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
		select {
		case s.open <- struct{}{}:
		default:
			full := newProblem(http.StatusServiceUnavailable, fmt.Sprintf("%d streams of events are open: close one, or come again", maxStreams))
			return nil, huma.ErrorWithHeaders(full, http.Header{"Retry-After": {"15"}})
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			out := loopback.NewStream(w, "text/event-stream", s.sendTime)
			defer func() { <-s.open }()
			beat, look := time.Tick(s.beat), time.Tick(lookEvery)
			if out.Send([]byte(": begins\n\n")) != nil {
				return
			}
			for {
				var events []core.Envelope
				last, err := store.LastEvent(r.Context())
				if err == nil && last > f.After {
					events, f.After, err = s.events(r.Context(), f)
				}
				if err != nil {
					s.back.Log.Warn("stream of events ends", "err", err)
					return // the reader comes again
				}
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
				case <-look:
				case <-beat:
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
