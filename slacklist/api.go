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
	"strings"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 30 * time.Second
	maxBody     = 64 << 20 // bytes of an answer; 1,000 rows are about 3 MB
)

// UserAgent is how the client names itself. By it the embedded board tells our
// edits, which the snapshot knows, from those of other programs.
const UserAgent = "otm-slacklist"

// An api makes calls as one user and judges the answers itself. slack-go's
// types encode cells, but its client is not used: one cell of an unexpected type
// makes it fail a whole page, it takes "ok": false without a code for success,
// and a Retry-After of 1.5 for no rate limit (facts about slack-go v0.35.0).
type api struct {
	client *http.Client
	base   string // of the Web API, ends in "/"
	token  string
	list   string // id
	now    func() time.Time
}

func newAPI(o *Options) *api {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return &api{
		client: &http.Client{Transport: transport, CheckRedirect: noRedirect},
		base:   strings.TrimSuffix(o.URL, "/") + "/", token: o.Token, list: o.ListID, now: o.Now,
	}
}

// as returns the api for calls with another token.
func (a *api) as(token string) *api {
	other := *a
	other.token = token
	return &other
}

// noRedirect keeps calls from other hosts.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// A reply is an answer of the board that says ok.
type reply struct {
	header http.Header
	body   []byte
}

// call makes one call. The error is a *pipeline.BoardError.
func (a *api) call(ctx context.Context, method string, form url.Values) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	notSent := func(err error) error {
		e := unsure(method, "", err)
		e.MaybeApplied = false
		return e
	}
	if err := context.Cause(ctx); err != nil {
		return nil, notSent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+method, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, notSent(err)
	}
	// In the header, the token reaches the server before the body, and no
	// other host after a redirect.
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", UserAgent)
	resp, err := a.client.Do(req)
	if err != nil {
		if err = plainTransport(err); isDialError(err) {
			return nil, notSent(err)
		}
		return nil, unsure(method, "", err)
	}
	defer resp.Body.Close()
	body, err := readBody(resp.Body, resp.ContentLength, maxBody)
	if err := a.judge(method, resp, body, err); err != nil {
		return nil, err
	}
	return &reply{resp.Header, body}, nil
}

// readBody reads a body that announces so many bytes, negative if unknown. It
// refuses one of more than limit.
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

// judge returns the error of an answer, nil for a success. readErr is that of
// reading the body.
func (a *api) judge(method string, resp *http.Response, body []byte, readErr error) error {
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		e := classify(method, "ratelimited")
		e.Until = a.now().Add(retryAfter(resp.Header))
		return e
	case readErr != nil:
		return unsure(method, "answer broke off", readErr)
	case resp.StatusCode != http.StatusOK:
		return unsure(method, fmt.Sprintf("HTTP status %d", resp.StatusCode), nil)
	}
	env, whole := openEnvelope(body)
	if !whole || env.ok != "true" && env.ok != "false" {
		return unsure(method, fmt.Sprintf("answer is no Slack answer: %.60q", a.harmless(string(body))), nil)
	}
	if env.ok == "true" {
		return nil
	}
	e := classify(method, a.harmless(env.code))
	e.Needed = a.harmless(env.needed)
	if len(env.messages) > 0 {
		e.Message = a.harmless(strings.Join(env.messages, "; "))
	}
	if e.Code == "ratelimited" {
		e.Until = a.now().Add(retryAfter(resp.Header))
	}
	return e
}

// An envelope is what all answers have in common.
type envelope struct {
	ok       string // "true" or "false"; anything else is no Slack answer
	code     string
	needed   string
	messages []string
}

// openEnvelope reads the envelope, and reports whether the body is a whole JSON
// object.
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

// maxForeign bounds what of an answer gets into an error, in bytes.
const maxForeign = 500

// harmless cuts a foreign text for an error, which ends up in logs and files.
// It replaces the token, because some servers send back what they were sent.
func (a *api) harmless(s string) string {
	if a.token != "" {
		s = strings.ReplaceAll(s, a.token, "[token]")
	}
	return strings.ToValidUTF8(s[:min(len(s), maxForeign)], "")
}

// isDialError reports whether the connection was never made.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// plainTransport takes the URL out of the error.
func plainTransport(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the header, in whole seconds. If it is missing or odd, the
// wait is a minute, the window of every limit.
func retryAfter(h http.Header) time.Duration {
	seconds, ok := parseFinite(h.Get("Retry-After"))
	if !ok || seconds < 0 || seconds > 3600 {
		return time.Minute
	}
	return max(time.Second, time.Duration(seconds*float64(time.Second)))
}
