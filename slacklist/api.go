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
	"net/url"
	"strconv"
	"strings"
	"time"

	"otm/pipeline"
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
	transport.MaxIdleConnsPerHost = createsAtOnce
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect may lead to another host
	return &api{
		client: &http.Client{Transport: transport, CheckRedirect: stay},
		base:   strings.TrimSuffix(o.URL, "/") + "/", token: o.Token, list: o.ListID, now: o.Now,
	}
}

// An answer holds the members that the answers of all methods have. A value of an
// unexpected type reads as one that is missing.
type answer struct {
	header http.Header

	OK       *bool  `json:"ok"` // nil: no Slack answer
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	Metadata struct {
		Messages   []string `json:"messages"`
		NextCursor string   `json:"next_cursor"`
	} `json:"response_metadata"`

	Items  []json.RawMessage `json:"items"` // nil: no page of rows
	Item   item              `json:"item"`
	List   *wireList         `json:"list"`
	File   *wireList         `json:"file"`
	Record struct {
		Archived bool `json:"archived"`
	} `json:"record"`

	TS        string    `json:"ts"` // of the message that was posted
	Permalink string    `json:"permalink"`
	Messages  []message `json:"messages"`

	UserID string `json:"user_id"`
	User   string `json:"user"`
	Team   string `json:"team"`
}

// decode fills v with the values of data that have the expected type, and
// reports whether data is JSON at all.
func decode(data []byte, v any) bool {
	err := json.Unmarshal(data, v)
	var mismatch *json.UnmarshalTypeError // the decoder went on after it
	return err == nil || errors.As(err, &mismatch)
}

// call makes one call. The error is a *pipeline.BoardError.
func (a *api) call(ctx context.Context, method string, form url.Values) (*answer, error) {
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
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return nil, notSent(err) // the connection was never made
		}
		return nil, unsure(method, "", err)
	}
	defer resp.Body.Close()
	body, err := readBody(resp.Body, resp.ContentLength, maxBody)
	return a.judge(method, resp, body, err)
}

// readBody reads a body of at most limit bytes. size is what the answer says of its length;
// below zero, it says nothing.
func readBody(body io.Reader, size, limit int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(size, 0), limit)) + bytes.MinRead) // or a page of megabytes is copied several times
	if _, err := b.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("answer is larger than %d bytes", limit)
	}
	return b.Bytes(), nil
}

// judge returns the answer if it is a success. readErr is that of reading the
// body.
func (a *api) judge(method string, resp *http.Response, body []byte, readErr error) (*answer, error) {
	limited := func(e *pipeline.BoardError) *pipeline.BoardError {
		e.Until = a.now().Add(retryAfter(resp.Header))
		return e
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, limited(classify(method, codeLimited))
	case readErr != nil:
		return nil, unsure(method, "answer broke off", readErr)
	case resp.StatusCode != http.StatusOK:
		return nil, unsure(method, fmt.Sprintf("HTTP status %d", resp.StatusCode), nil)
	}
	r := &answer{header: resp.Header}
	if !decode(body, r) || r.OK == nil {
		return nil, unsure(method, fmt.Sprintf("answer is no Slack answer: %.60q", a.harmless(string(body))), nil)
	}
	if *r.OK {
		return r, nil
	}
	e := classify(method, a.harmless(r.Error))
	e.Needed = a.harmless(r.Needed)
	if len(r.Metadata.Messages) > 0 {
		e.Message = a.harmless(strings.Join(r.Metadata.Messages, "; "))
	}
	if e.Code == codeLimited {
		return nil, limited(e)
	}
	return nil, e
}

// maxForeign bounds the text of an answer in an error, in bytes.
const maxForeign = 500

// harmless cuts a foreign text for an error, which ends up in logs and files.
// It replaces the token, because some servers send back what they were sent.
func (a *api) harmless(s string) string {
	if a.token != "" {
		s = strings.ReplaceAll(s, a.token, "[token]")
	}
	return strings.ToValidUTF8(s[:min(len(s), maxForeign)], "")
}

// retryAfter reads the header, in whole seconds. If it is missing or odd, the
// wait is a minute, the window of every limit.
func retryAfter(h http.Header) time.Duration {
	seconds, ok := parseFinite(h.Get("Retry-After"))
	if !ok || seconds < 0 || seconds > maxHold.Seconds() {
		return time.Minute
	}
	return max(time.Second, time.Duration(seconds*float64(time.Second)))
}

// The methods that we call.
const (
	listMethod   = "slackLists.items.list"
	createMethod = "slackLists.items.create"
	updateMethod = "slackLists.items.update"
	infoMethod   = "slackLists.items.info"
	deleteMethod = "slackLists.items.deleteMultiple"
	filesMethod  = "files.info"
	authMethod   = "auth.test"
	listUpdate   = "slackLists.update"
)

// pageSize is how many rows a page holds, the most that Slack allows.
const pageSize = 1000

// listPage reads one page of the list: the first one if cursor is "".
func (a *api) listPage(ctx context.Context, cursor string) (*answer, error) {
	form := url.Values{"list_id": {a.list}, "limit": {strconv.Itoa(pageSize)}, "include_list": {"true"}}
	if cursor != "" {
		form.Set("cursor", cursor)
	}
	return a.call(ctx, listMethod, form)
}

// fileInfo reads the list object without a row.
func (a *api) fileInfo(ctx context.Context) (*wireList, error) {
	r, err := a.call(ctx, filesMethod, url.Values{"file": {a.list}})
	if err != nil {
		return nil, err
	}
	return r.File, nil
}

// asJSON encodes an argument of a form. Cells and ids always encode.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("internal error: %T does not encode: %v", v, err))
	}
	return string(raw)
}
