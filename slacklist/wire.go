package slacklist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
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
type wire struct{ client *http.Client }

func newWire() *wire {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return &wire{client: &http.Client{Transport: transport, CheckRedirect: noRedirect}}
}

// noRedirect keeps the token, which travels in the form, from other hosts.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Do implements slack-go's HTTP client.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	r, _ := req.Context().Value(replyKey{}).(*reply)
	if r == nil {
		return nil, errors.New("internal error: call without a reply")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		r.sent = !isDialError(err)
		return nil, err
	}
	defer resp.Body.Close()
	r.sent, r.status, r.header = true, resp.StatusCode, resp.Header
	r.body, r.err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if len(r.body) > maxBody {
		r.err = fmt.Errorf("answer is larger than %d bytes", maxBody)
	}
	if r.err != nil {
		return nil, r.err
	}
	resp.Body = io.NopCloser(bytes.NewReader(forSlackGo(path.Base(req.URL.Path), r.body)))
	return resp, nil
}

// forSlackGo is what slack-go gets to decode: of a list's page only the
// verdict, as the rows are decoded by us.
func forSlackGo(method string, body []byte) []byte {
	if method == "slackLists.items.list" {
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
	OK               *bool  `json:"ok"`
	Error            string `json:"error"`
	Needed           string `json:"needed"`
	ResponseMetadata struct {
		Messages []string `json:"messages"`
	} `json:"response_metadata"`
}

// do makes one call through slack-go and judges the answer by what stood on
// the wire. It returns the body of a success.
func (c *Client) do(ctx context.Context, method string, call func(context.Context) error) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := &reply{}
	err := call(context.WithValue(ctx, replyKey{}, r))
	if e := judge(method, r, err, c.now()); e != nil {
		return nil, e
	}
	return r.body, nil
}

func judge(method string, r *reply, err error, now time.Time) *pipeline.BoardError {
	switch {
	case r.status == 0:
		e := unsure(method, "", plainTransport(err))
		e.MaybeApplied = r.sent
		return e
	case r.status == http.StatusTooManyRequests:
		e := classify(method, "ratelimited")
		e.Until = now.Add(retryAfter(r.header))
		return e
	case r.err != nil:
		return unsure(method, "answer broke off", r.err)
	case r.status != http.StatusOK:
		return unsure(method, fmt.Sprintf("HTTP status %d", r.status), nil)
	}
	var env envelope
	if err := json.Unmarshal(r.body, &env); err != nil || env.OK == nil {
		return unsure(method, fmt.Sprintf("answer is no Slack answer: %.60q", r.body), nil)
	}
	if *env.OK {
		return nil
	}
	e := classify(method, env.Error)
	e.Needed = env.Needed
	if len(env.ResponseMetadata.Messages) > 0 {
		e.Message = strings.Join(env.ResponseMetadata.Messages, "; ")
	}
	if e.Code == "ratelimited" {
		e.Until = now.Add(retryAfter(r.header))
	}
	return e
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
	seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || seconds < 0 || seconds > 3600 {
		return time.Minute
	}
	return max(time.Second, time.Duration(seconds*float64(time.Second)))
}
