package slacklist

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// The methods of messages.
const (
	postMethod    = "chat.postMessage"
	linkMethod    = "chat.getPermalink"
	historyMethod = "conversations.history"
	repliesMethod = "conversations.replies"
)

// Chat posts messages to channels. Slack takes about one a second for each channel; callers
// keep to that.
type Chat struct {
	api   *api
	token func() (string, error)
}

// NewChat returns a chat at an address of the Web API. The token is asked for before each
// call.
func NewChat(url string, token func() (string, error), now func() time.Time) *Chat {
	return &Chat{newAPI(&Options{URL: url, Now: now}), token}
}

// Mark is metadata of a message, by which a program finds it again. People do not see it.
type Mark struct {
	TS    string `json:"-"` // of a message that was found
	Store string `json:"store"`
	Task  string `json:"task"`
	Seq   int64  `json:"seq"` // of the last event that the message tells
}

// markType is the type of the metadata that holds a Mark.
const markType = "otm_audit"

type metadata struct {
	Type    string `json:"event_type"`
	Payload Mark   `json:"event_payload"`
}

// message is one that Slack shows.
type message struct {
	TS       string   `json:"ts"`
	Metadata metadata `json:"metadata"`
}

// Post posts a message, into a thread if that is not "", and returns its timestamp. The mark
// may be nil. The error is a *pipeline.BoardError, or one of the token.
func (c *Chat) Post(ctx context.Context, channel, thread, text string, mark *Mark) (ts string, err error) {
	form := url.Values{"channel": {channel}, "text": {text}, "unfurl_links": {"false"}, "unfurl_media": {"false"}}
	if thread != "" {
		form.Set("thread_ts", thread)
	}
	if mark != nil {
		form.Set("metadata", asJSON(metadata{markType, *mark}))
	}
	a, err := c.call(ctx, postMethod, form)
	if err != nil {
		return "", err
	}
	return a.TS, nil
}

// Link returns the address of a message for people.
func (c *Chat) Link(ctx context.Context, channel, ts string) (string, error) {
	a, err := c.call(ctx, linkMethod, url.Values{"channel": {channel}, "message_ts": {ts}})
	if err != nil {
		return "", err
	}
	return a.Permalink, nil
}

// maxMarkPages bounds the pages of messages that are looked through.
const maxMarkPages = 20

// Marked returns the messages since a time that carry a mark: of a thread, or, if that is "",
// of the channel. Messages of other apps may be among them.
func (c *Chat) Marked(ctx context.Context, channel, thread string, since time.Time) (found []Mark, err error) {
	method, form := historyMethod, url.Values{"channel": {channel}, "limit": {"200"}, "include_all_metadata": {"true"}}
	form.Set("oldest", fmt.Sprintf("%d.000000", since.Unix()))
	if thread != "" {
		method = repliesMethod
		form.Set("ts", thread)
	}
	for range maxMarkPages {
		a, err := c.call(ctx, method, form)
		if err != nil {
			return nil, err
		}
		for _, m := range a.Messages {
			if m.Metadata.Type == markType {
				m.Metadata.Payload.TS = m.TS
				found = append(found, m.Metadata.Payload)
			}
		}
		if a.Metadata.NextCursor == "" {
			break
		}
		form.Set("cursor", a.Metadata.NextCursor)
	}
	return found, nil
}

// call makes one call with the present token.
func (c *Chat) call(ctx context.Context, method string, form url.Values) (*answer, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	a := *c.api
	a.token = token
	return a.call(ctx, method, form)
}
