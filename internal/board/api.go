package board

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"otm/internal/sqlite"
)

// apiPrefix is the path under which the methods stand.
const apiPrefix = "/api/"

// scopes are those that the answer's header grants every token. Our client needs no
// others.
const scopes = "lists:read,lists:write,files:read"

// A method is one method of the API.
type method struct {
	name      string
	perMinute int  // with Options.Limits
	writes    bool // changes rows
	run       func(*call) (any, error)
}

// A call is one request on its way through a method.
type call struct {
	form  url.Values
	err   error // what is wrong with the arguments
	store *store
	who   *Identity
}

// methods are the methods of the API, with the calls a minute of Slack's tiers
// (facts 1.1).
func methods() []method {
	return []method{
		{"slackLists.update", 20, true, listUpdate},
		{"slackLists.items.create", 50, true, itemsCreate},
		{"slackLists.items.update", 50, true, itemsUpdate},
		{"slackLists.items.list", 20, false, itemsList},
		{"slackLists.items.info", 20, false, itemsInfo},
		{"slackLists.items.deleteMultiple", 20, true, itemsDeleteMultiple},
		{"files.info", 100, false, filesInfo},
		{"auth.test", 100, false, authTest},
	}
}

// An api answers calls of the API.
type api struct {
	opts    *Options
	who     callers
	methods map[string]method
	limiter *limiter
	store   *store
}

func newAPI(o *Options, who callers, st *store) *api {
	a := &api{opts: o, who: who, methods: make(map[string]method), limiter: newLimiter(o.Limits, o.Now), store: st}
	for _, m := range methods() {
		a.methods[m.name] = m
	}
	return a
}

// ServeHTTP answers one call. Application errors have status 200, as in Slack.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := a.dispatch(w, r)
	if err != nil {
		a.answerError(w, r, err)
		return
	}
	a.answer(w, http.StatusOK, answer)
}

// dispatch runs the call. It looks at the token before it reads the body, so
// that a caller without one costs no more than its header.
func (a *api) dispatch(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		e := refuse("invalid_post_type", "use POST")
		e.status = http.StatusMethodNotAllowed
		return nil, e
	}
	m, found := a.methods[strings.TrimPrefix(r.URL.Path, apiPrefix)]
	if !found {
		return nil, refuse("unknown_method")
	}
	who, err := a.who.identify(r.Header)
	if err != nil {
		w.Header().Set("Connection", "close")
		// Or the HTTP server waits for the body, to keep the connection.
		http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		return nil, err
	}
	w.Header().Set("X-OAuth-Scopes", scopes)
	if !who.Unlimited {
		if err := a.limiter.take(m, who.Token); err != nil {
			return nil, err
		}
	}
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	answer, err := m.run(&call{form: form, store: a.store, who: who})
	byPeople := a.opts.OwnAgent != "" && r.UserAgent() != a.opts.OwnAgent
	if err == nil && m.writes && byPeople && a.opts.OnPeopleEdit != nil {
		a.opts.OnPeopleEdit()
	}
	return answer, err
}

// object is a JSON object.
type object map[string]any

// An answerJSON is the answer of most methods, with ok first, as in Slack.
type answerJSON struct {
	OK       bool            `json:"ok"`
	Error    string          `json:"error,omitempty"`
	Item     json.RawMessage `json:"item,omitempty"`
	Metadata object          `json:"response_metadata,omitempty"`
}

var okAnswer = answerJSON{OK: true}

// answerError turns any error into Slack's form. An error that is no refusal is
// our fault: it is logged, and the caller gets no detail.
func (a *api) answerError(w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, ErrClosed), errors.Is(err, sqlite.ErrBusy):
		e = refuse("service_unavailable")
	default:
		e = refuse("internal_error")
		a.opts.Log.Error("call failed", "path", r.URL.Path, "err", err)
	}
	body := answerJSON{Error: e.Code}
	if len(e.Messages) > 0 {
		body.Metadata = object{"messages": e.Messages}
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	a.answer(w, cmp.Or(e.status, http.StatusOK), body)
}

// answer writes v as JSON; a json.RawMessage goes out as it is. It announces
// the number of bytes, so that the client notices a cut answer.
func (a *api) answer(w http.ResponseWriter, status int, v any) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = marshal(v); err != nil {
			a.opts.Log.Error("answer not encoded", "err", err)
			status, raw = http.StatusOK, json.RawMessage(`{"ok":false,"error":"internal_error"}`)
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	w.Write(raw) // the caller may have gone; the change stays
}
