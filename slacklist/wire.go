package slacklist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"otm/pipeline"
)

// Bounds of one call.
const (
	callTimeout = 30 * time.Second
	maxBody     = 64 << 20 // bytes; 1,000 rows are about 3 MB
)

// reply is what came back from the board, before slack-go sees it.
type reply struct {
	sent   bool // the request may have reached the board
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

type replyKey struct{}

// wire is the HTTP client given to slack-go. It keeps each answer as it was,
// because slack-go loses what we need: one cell of an unexpected type makes a
// whole page undecodable, "ok": false without a code is taken for success, and
// a Retry-After of 1.5 is no rate limit (facts about slack-go v0.35.0).
type wire struct {
	client *http.Client
	page   *atomic.Int64 // bytes of the last page of rows: the next one is about as large
	token  string
}

// UserAgent is how the client names itself: the embedded board tells by it our
// edits, of which the snapshot knows, from those of other programs.
const UserAgent = "otm-slacklist"

func newWire(token string) *wire {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return &wire{client: &http.Client{Transport: transport, CheckRedirect: noRedirect}, page: new(atomic.Int64), token: token}
}

// with returns the wire for calls with another token.
func (w *wire) with(token string) *wire {
	other := *w
	other.token = token
	return &other
}

// noRedirect keeps calls from other hosts.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bear moves the token from the form, where slack-go puts it, into the header,
// where servers look before they read a body.
func (w *wire) bear(req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return err
	}
	form.Del("token")
	text := form.Encode()
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	req.Header.Set("Authorization", "Bearer "+w.token)
	return nil
}

// Do implements slack-go's HTTP client.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	r, _ := req.Context().Value(replyKey{}).(*reply)
	if r == nil {
		return nil, errors.New("internal error: call without a reply")
	}
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	if err := w.bear(req); err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", UserAgent)
	resp, err := w.client.Do(req)
	if err != nil {
		r.sent = !isDialError(err)
		return nil, err
	}
	defer resp.Body.Close()
	r.sent, r.status, r.header = true, resp.StatusCode, resp.Header
	method := path.Base(req.URL.Path)
	expect := resp.ContentLength
	if expect < 0 && method == "slackLists.items.list" {
		expect = w.page.Load()
	}
	if r.body, r.err = readBody(resp.Body, expect, maxBody); r.err != nil {
		return nil, r.err
	}
	if method == "slackLists.items.list" {
		w.page.Store(int64(len(r.body)))
	}
	resp.Body = io.NopCloser(bytes.NewReader(forSlackGo(method, r.body)))
	return resp, nil
}

// readBody reads a body that is expected to have so many bytes, and refuses one
// of more than limit.
func readBody(body io.Reader, expect, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if expect > 0 && expect <= limit {
		b.Grow(int(expect) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("answer is larger than %d bytes", limit)
	}
	return b.Bytes(), nil
}

// forSlackGo is what slack-go gets to decode: of rows only the verdict, as they
// are decoded by us.
func forSlackGo(method string, body []byte) []byte {
	if method == "slackLists.items.list" || method == "slackLists.items.info" {
		return []byte(`{"ok":true}`)
	}
	return body
}

// isDialError tells whether the connection was never made.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// envelope is what all answers have in common.
type envelope struct {
	ok       string // "true" or "false"; else it is no Slack answer
	code     string
	needed   string
	messages []string
}

// openEnvelope reads what all answers have in common; false where body is no
// whole JSON object.
func openEnvelope(body []byte) (env envelope, whole bool) {
	whole = eachMember(body, func(key, value []byte) {
		switch string(key) {
		case "ok":
			env.ok = string(value)
		case "error":
			env.code = looseString(value)
		case "needed":
			env.needed = looseString(value)
		case "response_metadata":
			eachElement(member(value, "messages"), func(v []byte) { env.messages = append(env.messages, looseString(v)) })
		}
	})
	return env, whole
}

// do makes one call through slack-go and judges the answer by what stood on
// the wire. It returns the body of a success.
func (c *Client) do(ctx context.Context, method string, call func(context.Context) error) ([]byte, error) {
	r, err := c.call(ctx, method, call)
	if err != nil {
		return nil, err
	}
	return r.body, nil
}

// call is do for who needs more than the body.
func (c *Client) call(ctx context.Context, method string, call func(context.Context) error) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := &reply{}
	err := call(context.WithValue(ctx, replyKey{}, r))
	if e := c.judge(method, r, err); e != nil {
		return nil, e
	}
	return r, nil
}

func (c *Client) judge(method string, r *reply, err error) *pipeline.BoardError {
	switch {
	case r.status == 0:
		e := unsure(method, "", plainTransport(err))
		e.MaybeApplied = e.MaybeApplied && r.sent
		return e
	case r.status == http.StatusTooManyRequests:
		e := classify(method, "ratelimited")
		e.Until = c.now().Add(retryAfter(r.header))
		return e
	case r.err != nil:
		return unsure(method, "answer broke off", r.err)
	case r.status != http.StatusOK:
		return unsure(method, fmt.Sprintf("HTTP status %d", r.status), nil)
	}
	env, whole := openEnvelope(r.body)
	if !whole || env.ok != "true" && env.ok != "false" {
		return unsure(method, fmt.Sprintf("answer is no Slack answer: %.60q", c.harmless(string(r.body))), nil)
	}
	if env.ok == "true" {
		return nil
	}
	e := classify(method, c.harmless(env.code))
	e.Needed = c.harmless(env.needed)
	if len(env.messages) > 0 {
		e.Message = c.harmless(strings.Join(env.messages, "; "))
	}
	if e.Code == "ratelimited" {
		e.Until = c.now().Add(retryAfter(r.header))
	}
	return e
}

// maxForeign bounds what of an answer gets into an error, in bytes.
const maxForeign = 500

// harmless is what of a foreign text may stand in an error, which ends up in
// logs and files: not all of a long one, and the token in none, as there are
// servers that send back what they were sent.
func (c *Client) harmless(s string) string {
	if c.opts.Token != "" {
		s = strings.ReplaceAll(s, c.opts.Token, "[token]")
	}
	return strings.ToValidUTF8(s[:min(len(s), maxForeign)], "")
}

// plainTransport takes the URL out of the error, which repeats the method.
func plainTransport(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	if err == nil {
		return errors.New("no answer")
	}
	return err
}

// retryAfter reads the header, which is in whole seconds; where it is missing
// or odd, a minute passes for it, which is the window of every limit.
func retryAfter(h http.Header) time.Duration {
	seconds, ok := parseFinite(h.Get("Retry-After"))
	if !ok || seconds < 0 || seconds > 3600 {
		return time.Minute
	}
	return max(time.Second, time.Duration(seconds*float64(time.Second)))
}
