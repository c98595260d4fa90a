package notify

import (
	"context"
	"errors"
	"strings"
	"time"

	"otm/pipeline"
	"otm/slacklist"
)

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
