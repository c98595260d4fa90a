package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// apiPrefix is the path under which the methods stand.
const apiPrefix = "/api/"

// A method is one method of the API.
type method struct {
	name      string
	scope     string // needed; "" is none
	perMinute int    // with Options.Limits
	read      bool   // GET is allowed
	run       func(*Server, *call) (any, error)
}

// A call is one request on its way through a method.
type call struct {
	*args
	method *method
	who    *Identity
	quirks Quirks
	base   string // of this server as the caller names it, ends in "/"
}

// Calls a minute of Slack's tiers (facts 1.1).
const (
	tier2 = 20
	tier3 = 50
	tier4 = 100
)

// apiMethods is every method the board knows. postMessage's own limit of one a
// second a channel is kept by chatPostMessage.
func apiMethods() map[string]*method {
	all := []*method{
		{"slackLists.create", ScopeListsWrite, tier2, false, (*Server).listsCreate},
		{"slackLists.update", ScopeListsWrite, tier2, false, (*Server).listsUpdate},
		{"slackLists.access.set", ScopeListsWrite, tier3, false, (*Server).accessSet},
		{"slackLists.access.delete", ScopeListsWrite, tier3, false, (*Server).accessDelete},
		{"slackLists.download.start", ScopeListsRead, tier2, false, (*Server).downloadStart},
		{"slackLists.download.get", ScopeListsRead, tier4, true, (*Server).downloadGet},
		{"slackLists.items.create", ScopeListsWrite, tier3, false, (*Server).itemsCreate},
		{"slackLists.items.update", ScopeListsWrite, tier3, false, (*Server).itemsUpdate},
		{"slackLists.items.list", ScopeListsRead, tier2, true, (*Server).itemsList},
		{"slackLists.items.info", ScopeListsRead, tier2, true, (*Server).itemsInfo},
		{"slackLists.items.delete", ScopeListsWrite, tier2, false, (*Server).itemsDelete},
		{"slackLists.items.deleteMultiple", ScopeListsWrite, tier2, false, (*Server).itemsDeleteMultiple},
		{"files.info", ScopeFilesRead, tier4, true, (*Server).filesInfo},
		{"files.list", ScopeFilesRead, tier3, true, (*Server).filesList},
		{"files.delete", ScopeFilesWrite, tier3, false, (*Server).filesDelete},
		{"auth.test", "", tier4, true, (*Server).authTest},
		{"chat.postMessage", ScopeChatWrite, 0, false, (*Server).chatPostMessage},
		{"conversations.replies", ScopeHistory, tier3, true, (*Server).conversationsReplies},
	}
	byName := make(map[string]*method, len(all))
	for _, m := range all {
		byName[m.name] = m
	}
	return byName
}

// serveAPI answers one call. Application errors have status 200, as in Slack.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		e := refuse("invalid_post_type", "use POST")
		e.status = http.StatusMethodNotAllowed
		s.answerError(w, r, e)
		return
	}
	answer, err := s.dispatch(w, r)
	if err != nil {
		s.answerError(w, r, err)
		return
	}
	s.answer(w, http.StatusOK, answer)
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) (any, error) {
	m := s.methods[strings.TrimPrefix(r.URL.Path, apiPrefix)]
	if m == nil {
		return nil, refuse("unknown_method")
	}
	a, token, err := readArgs(w, r, m)
	if err != nil {
		return nil, err
	}
	who, err := s.identify(token)
	if err != nil {
		return nil, err
	}
	w.Header().Set("X-OAuth-Scopes", strings.Join(who.Scopes, ","))
	if !who.Unlimited {
		if err := s.limiter.take(m.name, who.Token, m.perMinute, time.Minute); err != nil {
			return nil, err
		}
	}
	if err := who.checkScope(m.scope); err != nil {
		return nil, err
	}
	c := &call{args: a, method: m, who: who, quirks: s.quirksNow(), base: "http://" + r.Host + "/"}
	answer, err := m.run(s, c)
	if err == nil && !m.read && s.opts.OwnAgent != "" && r.UserAgent() != s.opts.OwnAgent && s.opts.OnPeopleEdit != nil {
		s.opts.OnPeopleEdit()
	}
	return answer, err
}

// okJSON is the answer that says no more than ok.
type okJSON struct {
	OK bool `json:"ok"`
}

var okAnswer = okJSON{OK: true}

type errorJSON struct {
	OK       bool          `json:"ok"`
	Error    string        `json:"error"`
	Needed   string        `json:"needed,omitempty"`
	Provided string        `json:"provided,omitempty"`
	Metadata *messagesJSON `json:"response_metadata,omitempty"`
}

type messagesJSON struct {
	Messages []string `json:"messages"`
}

// answerError turns any error into Slack's form. What is not a refusal is a
// fault of ours: it is logged, and the caller is told no detail.
func (s *Server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, errUnknownState):
		e = refuse("fatal_error")
	case errors.Is(err, ErrClosed):
		e = refuse("service_unavailable")
	default:
		e = refuse("internal_error")
		s.log.Error("call failed", "path", r.URL.Path, "err", err)
	}
	body := errorJSON{Error: e.Code, Needed: e.Needed, Provided: e.Provided}
	if len(e.Messages) > 0 {
		body.Metadata = &messagesJSON{e.Messages}
	}
	status := http.StatusOK
	if e.status != 0 {
		status = e.status
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	s.answer(w, status, body)
}

// answer writes v as JSON; a json.RawMessage goes out as it is. The number of
// bytes is announced, so that a cut answer shows.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var buf bytes.Buffer
		if err := encodeLine(&buf, v); err != nil {
			s.log.Error("answer not encoded", "err", err)
			status, raw = http.StatusOK, json.RawMessage(`{"ok":false,"error":"internal_error"}`)
		} else {
			raw = buf.Bytes()
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	w.Write(raw) // the caller may be gone; what was done stays done
}
