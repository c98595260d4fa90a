package config

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Notify is the table [notify]: the outlets that tell people.
type Notify struct {
	Command  []string `toml:"command"` // empty: none
	What     []string `toml:"what"`    // empty: the usual
	Quiet    string   `toml:"quiet"`   // such as 22:00-07:00; "": none
	Telegram struct {
		Chat string `toml:"chat"` // "": none is told
		URL  string `toml:"api_url"`
		Token
	} `toml:"telegram"`
	Slack struct {
		Channel string `toml:"channel"` // "": none is told
	} `toml:"slack"`
	Webhook struct {
		URL        string `toml:"url"`         // "": none is told
		SecretFile string `toml:"secret_file"` // absolute; "": none is set
		SecretEnv  string `toml:"secret_env"`
	} `toml:"webhook"`

	from, to time.Duration // the quiet hours, since midnight
}

// Tells reports whether anybody is told.
func (n *Notify) Tells() bool {
	return len(n.Command) > 0 || n.Telegram.Chat != "" || n.Slack.Channel != "" || n.Webhook.URL != ""
}

// notifyKinds are the kinds of news.
var notifyKinds = []string{"blocked", "review", "done", "retry", "failed", "problem", "daily", "mention"}

// Defaults of outlets.
const (
	defaultTelegramURL = "https://api.telegram.org"
	defaultTelegramEnv = "TELEGRAM_BOT_TOKEN"
	defaultWebhookEnv  = "OTM_WEBHOOK_SECRET"
)

// fill fills in defaults of outlets, and notes wrong values.
func (n *Notify) fill(c *Config, p *problemList) {
	n.Command = c.program("notify.command", n.Command, p)
	for _, what := range n.What {
		if !slices.Contains(notifyKinds, what) {
			p.add("notify.what", "%q: there is %s", what, strings.Join(notifyKinds, ", "))
		}
	}
	if n.Quiet != "" {
		from, to, _ := strings.Cut(n.Quiet, "-")
		begin, err := time.Parse("15:04", strings.TrimSpace(from))
		end, err2 := time.Parse("15:04", strings.TrimSpace(to))
		if err != nil || err2 != nil || begin.Equal(end) {
			p.add("notify.quiet", "%q is not a span such as 22:00-07:00", n.Quiet)
		}
		midnight := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
		n.from, n.to = begin.Sub(midnight), end.Sub(midnight)
	}
	n.Telegram.URL = cmp.Or(n.Telegram.URL, defaultTelegramURL)
	p.check("notify.telegram.api_url", CheckURL(n.Telegram.URL, "http", "https"))
	n.Telegram.TokenEnv = cmp.Or(n.Telegram.TokenEnv, defaultTelegramEnv)
	n.Telegram.TokenFile = c.abs(n.Telegram.TokenFile)
	if n.Webhook.URL != "" {
		p.check("notify.webhook.url", CheckURL(n.Webhook.URL, "http", "https"))
	}
	n.Webhook.SecretEnv = cmp.Or(n.Webhook.SecretEnv, defaultWebhookEnv)
	n.Webhook.SecretFile = c.abs(n.Webhook.SecretFile)
}

// Silent reports whether a time lies in the quiet hours of this machine's clock.
func (n *Notify) Silent(t time.Time) bool {
	t = t.Local()
	at := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	switch {
	case n.Quiet == "":
		return false
	case n.from < n.to:
		return n.from <= at && at < n.to
	}
	return n.from <= at || at < n.to // over midnight
}
