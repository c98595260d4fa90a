package boardtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Layer is a handler in front of a board's that records every call and
// answers some of them with faults. Methods are named as in the API, such as
// "slackLists.items.create"; the name "" stands for every method.
type Layer struct {
	next   http.Handler
	closed chan struct{}

	mu     sync.Mutex // guards what follows
	once   map[string][]Fault
	always map[string]*standing
	calls  []Call
	waits  []waiter
	hidden map[string]bool // ids of rows kept out of items.list
}

// standing is a fault that stays; the pointer tells it from a later one.
type standing struct{ fault Fault }

type waiter struct {
	method string
	count  int
	done   chan struct{}
}

// A Call is one call as it came in.
type Call struct {
	// Method is the API's name, or the path where it is no method.
	Method string
	// At is when the call came in.
	At time.Time
	// Args are the arguments, those of a JSON body as JSON text. The token is
	// not among them.
	Args url.Values
	// Fault is the name of the fault that answered, or "".
	Fault string
}

// NewLayer returns a layer in front of the handler.
func NewLayer(next http.Handler) *Layer {
	return &Layer{
		next:   next,
		closed: make(chan struct{}),
		once:   make(map[string][]Fault),
		always: make(map[string]*standing),
		hidden: make(map[string]bool),
	}
}

// Close ends all calls that a fault holds. Start does it at the test's end.
func (l *Layer) Close() { close(l.closed) }

// Next queues faults for the next calls of the method, one for each call; they
// come before those of Always. Pass makes a call go through.
func (l *Layer) Next(method string, faults ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once[method] = append(l.once[method], faults...)
}

// Always answers every call of the method with the fault until stop is called.
func (l *Layer) Always(method string, fault Fault) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := &standing{fault}
	l.always[method] = mine
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.always[method] == mine {
			delete(l.always, method)
		}
	}
}

// Forget drops the faults of Next that have not happened yet.
func (l *Layer) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.once)
}

// Calls returns the calls so far, in order.
func (l *Layer) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Count is how many calls of the method came in.
func (l *Layer) Count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count(method)
}

func (l *Layer) count(method string) int {
	n := 0
	for _, c := range l.calls {
		if method == "" || c.Method == method {
			n++
		}
	}
	return n
}

// Reset forgets the calls so far; faults stay.
func (l *Layer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = nil
}

// Came returns a channel that is closed once n calls of the method have come
// in since the last Reset.
func (l *Layer) Came(method string, n int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := waiter{method, n, make(chan struct{})}
	l.waits = append(l.waits, w)
	l.wake()
	return w.done
}

// wake closes the channels of those who have waited for enough calls.
func (l *Layer) wake() {
	var left []waiter
	for _, w := range l.waits {
		if l.count(w.method) >= w.count {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	l.waits = left
}

// Reveal shows the rows that ApplyAndHide has hidden.
func (l *Layer) Reveal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.hidden)
}

func (l *Layer) hide(rowID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hidden[rowID] = true
}

func (l *Layer) unhide(rowID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hidden, rowID)
}

// ServeHTTP records the call and lets its fault, or the board, answer.
func (l *Layer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	fault := l.record(method, argsOf(r, body))
	x := &Exchange{layer: l, w: w, r: r, body: body}
	if fault.serve == nil {
		x.pass()
		return
	}
	fault.serve(x)
}

// record notes the call and takes the fault that is its turn.
func (l *Layer) record(method string, args url.Values) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault := l.take(method)
	l.calls = append(l.calls, Call{Method: method, At: time.Now(), Args: args, Fault: fault.Name})
	l.wake()
	return fault
}

func (l *Layer) take(method string) Fault {
	for _, name := range []string{method, ""} {
		if queue := l.once[name]; len(queue) > 0 {
			l.once[name] = queue[1:]
			return queue[0]
		}
	}
	for _, name := range []string{method, ""} {
		if s := l.always[name]; s != nil {
			return s.fault
		}
	}
	return Fault{}
}

func argsOf(r *http.Request, body []byte) url.Values {
	args := r.URL.Query()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) == nil {
			for name, raw := range members {
				args.Set(name, string(raw))
			}
		}
	} else if form, err := url.ParseQuery(string(body)); err == nil {
		for name, values := range form {
			args[name] = values
		}
	}
	args.Del("token")
	return args
}

// An Exchange is one call on its way through a fault.
type Exchange struct {
	layer *Layer
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
}

// apply lets the board handle the call and returns its answer.
func (x *Exchange) apply() *httptest.ResponseRecorder {
	r := x.r.Clone(x.r.Context())
	r.Body = io.NopCloser(bytes.NewReader(x.body))
	rec := httptest.NewRecorder()
	x.layer.next.ServeHTTP(rec, r)
	if strings.HasSuffix(x.r.URL.Path, "/slackLists.items.list") {
		x.withoutHidden(rec)
	}
	return rec
}

// withoutHidden takes the hidden rows out of a page.
func (x *Exchange) withoutHidden(rec *httptest.ResponseRecorder) {
	x.layer.mu.Lock()
	defer x.layer.mu.Unlock()
	if len(x.layer.hidden) == 0 {
		return
	}
	editBody(rec, func(answer map[string]any) {
		items, _ := answer["items"].([]any)
		shown := []any{}
		for _, item := range items {
			if m, ok := item.(map[string]any); !ok || !x.layer.hidden[textOf(m["id"])] {
				shown = append(shown, item)
			}
		}
		if items != nil {
			answer["items"] = shown
		}
	})
}

// pass sends the board's own answer.
func (x *Exchange) pass() { x.send(x.apply()) }

func (x *Exchange) send(rec *httptest.ResponseRecorder) {
	h := x.w.Header()
	for name, values := range rec.Header() {
		h[name] = values
	}
	h.Del("Content-Length") // the body may have been edited; the server sets it
	x.w.WriteHeader(rec.Code)
	x.w.Write(rec.Body.Bytes())
}

// editBody changes a JSON answer in place; numbers keep their digits.
func editBody(rec *httptest.ResponseRecorder, edit func(map[string]any)) {
	dec := json.NewDecoder(bytes.NewReader(rec.Body.Bytes()))
	dec.UseNumber()
	var answer map[string]any
	if dec.Decode(&answer) != nil {
		return
	}
	edit(answer)
	raw, err := json.Marshal(answer)
	if err != nil {
		panic("internal error: edited answer does not encode: " + err.Error())
	}
	rec.Body.Reset()
	rec.Body.Write(raw)
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}
