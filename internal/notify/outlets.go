package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"otm/core"
	"otm/internal/hook"
	"otm/pipeline"
	"otm/slacklist"
)

// Bounds of an answer over HTTP.
const (
	answerWait = 10 * time.Second
	maxAnswer  = 64 << 10 // bytes
)

// client follows no redirect: it may lead to a host that nobody named.
var client = &http.Client{
	Timeout:       answerWait, // to the end of the answer
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends JSON. The caller closes the body of the answer. No error has the address, which
// may hold a secret.
func post(ctx context.Context, address string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address is no URL")
	}
	req.Header, req.Close = header, true
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, err
	}
	return resp, nil
}

// asked returns the pause that the header Retry-After asks for; 0: none.
func asked(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > int(longestAsked/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Webhook is an outlet: an address that gets each message as JSON, signed.
type Webhook struct {
	URL    string
	Secret func() (string, error)
	Now    func() time.Time
}

// signatureHeader has the time in Unix seconds and, in hex, the HMAC-SHA256 of the time, a
// dot and the body: t=1764547200,v1=0123…
const signatureHeader = "OTM-Signature"

// Tell implements Outlet. Any answer of success that is no HTML page counts. Its body is not
// read: it may break off although the message was taken.
func (o *Webhook) Tell(ctx context.Context, m Message) error {
	secret, err := o.Secret()
	if err != nil {
		return err
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	at := o.Now().Unix()
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at, body)
	header := http.Header{signatureHeader: {fmt.Sprintf("t=%d,v1=%x", at, mac.Sum(nil))}}
	if trace := m.trace(); trace != "" {
		header.Set("traceparent", string(trace))
	}
	resp, err := post(ctx, o.URL, body, header)
	if err != nil {
		return err
	}
	resp.Body.Close()
	r := &Refused{Err: fmt.Errorf("the webhook answers with HTTP status %d", resp.StatusCode)}
	switch code := resp.StatusCode; {
	case code/100 == 2 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		r.Err = errors.New("the webhook answers with an HTML page")
	case code/100 == 2:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		r.After = asked(resp.Header)
	case code/100 == 3 || code/100 == 4 && code != http.StatusRequestTimeout:
		r.Next = "check notify.webhook.url and the secret, and what the receiver says"
	}
	return r
}

// Telegram is an outlet: a chat, by the Bot API.
type Telegram struct {
	URL   string // of the Bot API
	Chat  string
	Token func() (string, error)
}

// telegramLimit is how much text the Bot API takes, in UTF-16 units. It counts without the
// marks; we count them too.
const telegramLimit = 4096

// telegramAnswer is an answer of the Bot API.
type telegramAnswer struct {
	OK          *bool  `json:"ok"` // nil: it is none
	Code        int    `json:"error_code"`
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MovedTo    int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// Tell implements Outlet. If the chat refuses the text with its marks, it gets it without.
func (o *Telegram) Tell(ctx context.Context, m Message) error {
	a, err := o.send(ctx, m.render(escapeMarkdown, telegramLimit), "MarkdownV2")
	if err == nil && a.Code == http.StatusBadRequest && a.Parameters.MovedTo == 0 {
		a, err = o.send(ctx, m.render(plain, telegramLimit), "")
	}
	if err != nil || *a.OK {
		return err
	}
	r := &Refused{Err: fmt.Errorf("Telegram refuses it: %d %s", a.Code, core.Excerpt(a.Description))}
	switch {
	case a.Code == http.StatusTooManyRequests:
		r.After = time.Duration(max(1, a.Parameters.RetryAfter)) * time.Second
	case a.Parameters.MovedTo != 0:
		r.Next = fmt.Sprintf("the group has a new id: set notify.telegram.chat = \"%d\" in otm.toml", a.Parameters.MovedTo)
	case a.Code == http.StatusUnauthorized || a.Code == http.StatusNotFound:
		r.Next = "ask @BotFather for a token, and put it where notify.telegram takes it from"
	case a.Code == http.StatusForbidden:
		r.Next = "let the bot into the chat again: write /start to it, or add it to the group"
	case a.Code == http.StatusBadRequest:
		r.Next = "check notify.telegram.chat; in a new chat, first write /start to the bot or add it to the group"
	}
	return r
}

// send sends a text. The error says that there was no answer of the Bot API.
func (o *Telegram) send(ctx context.Context, text, mode string) (a telegramAnswer, err error) {
	token, err := o.Token()
	if err != nil {
		return a, err
	}
	request := map[string]any{"chat_id": o.Chat, "text": text, "link_preview_options": map[string]bool{"is_disabled": true}}
	if mode != "" {
		request["parse_mode"] = mode
	}
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	resp, err := post(ctx, strings.TrimSuffix(o.URL, "/")+"/bot"+token+"/sendMessage", body, http.Header{})
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("the answer broke off: %w", err)
	}
	if json.Unmarshal(data, &a) != nil || a.OK == nil {
		return a, fmt.Errorf("no answer of Telegram, but HTTP status %d", resp.StatusCode)
	}
	return a, nil
}

// escapeMarkdown escapes all ASCII punctuation for MarkdownV2.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > ' ' && r < 0x7f && !('0' <= r && r <= '9') && !('A' <= r && r <= 'Z') && !('a' <= r && r <= 'z') {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Slack is an outlet: a channel.
type Slack struct {
	Chat    *slacklist.Chat
	Channel string
	Now     func() time.Time
}

// slackLimit is how much text Slack advises for a message. It cuts what is longer than ten
// times that.
const slackLimit = 4000

// Tell implements Outlet.
func (o *Slack) Tell(ctx context.Context, m Message) error {
	_, err := o.Chat.Post(ctx, o.Channel, "", m.render(escapeSlack, slackLimit), nil)
	return refusedBySlack(err, o.Now())
}

// refusedBySlack adds the next step to an error of Slack.
func refusedBySlack(err error, now time.Time) error {
	e := (*pipeline.BoardError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	r := &Refused{Err: err}
	switch {
	case !e.Until.IsZero():
		r.After = e.Until.Sub(now)
	case e.Credentials:
		r.Next = "put a token with the scope chat:write where [slack] of otm.toml takes it from"
	case e.Class != pipeline.Transient:
		r.Next = "check the channel's id in otm.toml, and invite the app into the channel"
	}
	return r
}

// escapeSlack escapes the characters of links and mentions. Slack has no escape for marks such
// as *.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// Command is an outlet: a command that gets each message as JSON on its stdin. It has taken
// the message if it exits with 0.
type Command struct {
	Line []string
	Dir  string
	Env  []string
	Wait time.Duration // for its end; zero: commandWait
}

const commandWait = 30 * time.Second

// Tell implements Outlet. The error has the first line that the command printed to stderr.
func (o *Command) Tell(ctx context.Context, m Message) error {
	c := hook.Command{Line: o.Line, Dir: o.Dir, Env: o.Env, Limit: cmp.Or(o.Wait, commandWait)}
	_, says, err := c.Run(ctx, m)
	line, _, _ := strings.Cut(strings.TrimSpace(says), "\n")
	if err == nil || line == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, core.Excerpt(line))
}
