package loopback

import (
	"net/http"
	"time"
)

// Stream is an answer that goes on until the caller goes. It is for one goroutine.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// NewStream begins a stream of a type. A caller who takes nothing for as long as limit is gone.
func NewStream(w http.ResponseWriter, contentType string, limit time.Duration) *Stream {
	s := &Stream{w, http.NewResponseController(w), limit}
	s.control.SetReadDeadline(time.Time{}) // the server's limits are for exchanges that end
	w.Header().Set("Content-Type", contentType)
	return s
}

// Send sends data at once. After an error the stream is over.
func (s *Stream) Send(data []byte) error {
	s.control.SetWriteDeadline(time.Now().Add(s.limit))
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return s.control.Flush()
}
