package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/hook"
	"otm/internal/notify"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// outlet is an outlet with its name.
type outlet struct {
	name string
	notify.Outlet
}

// outlets are those of [notify].
func outlets(h *Home) (all []outlet) {
	n := &h.Config.Notify
	if len(n.Command) > 0 {
		env := append(hook.Environment(pathDir(h), h.Config.SecretEnv()), "OTM_DIR="+h.Dir)
		all = append(all, outlet{"command", &notify.Command{Line: n.Command, Dir: h.Dir, Env: env}})
	}
	if t := n.Telegram; t.Chat != "" {
		token := secretOf(h, "notify.telegram", "token", t.TokenFile, t.TokenEnv)
		all = append(all, outlet{"telegram", &notify.Telegram{URL: t.URL, Chat: t.Chat, Token: token}})
	}
	if n.Slack.Channel != "" {
		all = append(all, outlet{"slack", slackChannel(h, n.Slack.Channel)})
	}
	if w := n.Webhook; w.URL != "" {
		secret := secretOf(h, "notify.webhook", "secret", w.SecretFile, w.SecretEnv)
		all = append(all, outlet{"webhook", &notify.Webhook{URL: w.URL, Secret: secret, Now: h.Now}})
	}
	return all
}

// slackChannel is a channel as an outlet.
func slackChannel(h *Home, channel string) *notify.Slack {
	s := &h.Config.Slack
	token := secretOf(h, "slack", "token", s.TokenFile, s.TokenEnv)
	return &notify.Slack{Chat: slacklist.NewChat(s.URL, token, h.Now), Channel: channel, Now: h.Now}
}

// secretOf reads a secret each time that it is needed. It must not be empty.
func secretOf(h *Home, table, what, file, env string) func() (string, error) {
	return func() (string, error) {
		secret, err := config.Secret(file, env, h.Getenv)
		if err == nil && secret == "" {
			err = errors.New("none is set")
		}
		if err == nil {
			return secret, nil
		}
		next := fmt.Sprintf("put it into the environment variable %s, or name a file as %s_file in [%s] of otm.toml", env, what, table)
		if file != "" {
			next = "put it into " + file
		}
		return "", &notify.Refused{Err: fmt.Errorf("the %s of [%s] is missing: %w", what, table, err), Next: next}
	}
}

// toldPath is the path of the state of an outlet, see notify.State.
func toldPath(h *Home, outlet string) string { return filepath.Join(h.Dir, "notified-"+outlet+".json") }

// offPath is the file whose existence says that nobody is told anything.
func offPath(h *Home) string { return filepath.Join(h.Dir, "notify-off") }

// isOff reports whether nobody is told anything.
func isOff(h *Home) bool {
	_, err := os.Stat(offPath(h))
	return err == nil
}

// untold returns a finding for each outlet that takes nothing.
func untold(h *Home) (found []explain.Finding) {
	all := outlets(h)
	if info, err := os.Stat(offPath(h)); err == nil && len(all) > 0 {
		return append(found, explain.New(explain.NotifyOff, "since", info.ModTime()))
	}
	if h.Config.Slack.AuditChannel != "" {
		all = append(all, outlet{name: auditName})
	}
	for _, o := range all {
		s, err := notify.Read(toldPath(h, o.name))
		if err != nil || s == nil || s.Failing == nil {
			continue
		}
		needs := ""
		if s.Failing.Next != "" {
			needs = "; needs a person: " + s.Failing.Next
		}
		found = append(found, explain.New(explain.NotifyFails, "outlet", o.name, "since", s.Failing.Since, "error", s.Failing.Error, "needs", needs))
	}
	return found
}

// newNotifiers returns a notifier for each outlet of [notify].
func newNotifiers(h *Home, store core.Store, log *slog.Logger) []*notify.Notifier {
	what := notify.Usual
	if of := h.Config.Notify.What; len(of) > 0 {
		what = pipeline.Map(of, func(kind string) notify.Kind { return notify.Kind(kind) })
	}
	person := func(name string) bool {
		a := h.Agents().Named(name)
		return a != nil && a.Person
	}
	return pipeline.Map(outlets(h), func(o outlet) *notify.Notifier {
		return &notify.Notifier{Place: placeOf(h, o.name, store, log), Outlet: o, What: what, Types: h.Config.Types, Person: person, Quiet: h.Config.Notify.Silent}
	})
}

// placeOf returns the place of an outlet in the events.
func placeOf(h *Home, name string, store core.Store, log *slog.Logger) notify.Place {
	off := func() bool { return isOff(h) }
	return notify.Place{Name: name, Store: store, Path: toldPath(h, name), Off: off, Now: h.Now, Log: log}
}

// auditName names the audit as an outlet.
const auditName = "audit"

// newAudit returns the mirror of events in the audit channel; nil: no channel is configured.
func newAudit(h *Home, store core.Store, log *slog.Logger) *notify.Audit {
	channel := h.Config.Slack.AuditChannel
	if channel == "" {
		return nil
	}
	id, _ := h.stores.id()
	words := func(e *core.Event) string {
		if _, old := e.Data.(core.Imported); old {
			return "taken over from the former data directory"
		}
		return view.HistoryWords(e)
	}
	return &notify.Audit{Place: placeOf(h, auditName, store, log), Chat: slackChannel(h, channel).Chat, Channel: channel, StoreID: id, Words: words}
}

// notifyCommand is otm notify.
func notifyCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "Test the messages to people, or turn them off and on",
		Long: `OTM can tell people what needs them: tasks that are blocked, failed, or to be
reviewed, and what otm incidents lists. In otm.toml name where, one or more:

  [notify.telegram]
  chat = "123456789"          # and the bot's token in TELEGRAM_BOT_TOKEN

  [notify.slack]
  channel = "C0123456789"     # and the token of the Slack List, with the scope chat:write

  [notify.webhook]
  url = "https://example.org/otm"   # and a secret in OTM_WEBHOOK_SECRET

  [notify]
  command = ["~/bin/tell"]

A command and a webhook get each message as one JSON object: "text" is ready to be
sent, "items" has the parts. What was not taken is tried again, with what has come
since. The dispatcher, if it stays, tells.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	off := &cobra.Command{Use: "off", Short: "Tell nobody anything, until otm notify on", Example: "  otm notify off", Args: cobra.NoArgs}
	switches(off, s, "nobody is told anything; what happens is told after: otm notify on", func(path string) error {
		return durable.Replace(path, nil)
	})
	on := &cobra.Command{Use: "on", Short: "Tell people again, and what happened meanwhile", Example: "  otm notify on", Args: cobra.NoArgs}
	switches(on, s, "people are told again", func(path string) error {
		if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return durable.SyncDir(filepath.Dir(path))
	})
	c.AddCommand(off, on, &cobra.Command{
		Use:   "test",
		Short: "Send one message to each outlet now, and say what came of it",
		Long: `Send one message to each outlet now, and say what came of it. An outlet that takes it
after it took nothing for a while is told at once what waits for it.`,
		Example: "  otm notify test",
		Args:    cobra.NoArgs,
		RunE:    withHome(s, testOutlets),
	})
	return c
}

// switches makes c a command for people that changes the file that turns messages off.
func switches(c *cobra.Command, s cli.Streams, says string, change func(path string) error) {
	forPeople(c, s, func(_ context.Context, h *Home, as *acting, _ []string) error {
		if _, err := as.actor(); err != nil {
			return err
		}
		if err := change(offPath(h)); err != nil {
			return err
		}
		h.Note("%s", says)
		return nil
	})
}

func testOutlets(ctx context.Context, h *Home, _ []string) error {
	all := outlets(h)
	if channel := h.Config.Slack.AuditChannel; channel != "" {
		all = append(all, outlet{auditName, slackChannel(h, channel)})
	}
	if len(all) == 0 {
		return cli.Errorf(cli.BadConfig, "[notify] names nobody to tell").Hint("otm notify --help")
	}
	failed := false
	for _, o := range all {
		err := o.Tell(ctx, notify.Test(h.Now()))
		if err == nil {
			h.Note("%s: the message was taken", o.name)
			if err := notify.EndPause(toldPath(h, o.name)); err != nil {
				h.Warn("%s is told what waits after its pause only: %v", o.name, err)
			}
			continue
		}
		failed = true
		h.Warn("%s: the message was not taken: %v", o.name, err)
		if r, ok := errors.AsType[*notify.Refused](err); ok && r.Next != "" {
			h.Note("→ %s", r.Next)
		}
	}
	if failed {
		return cli.Exit(cli.Failed)
	}
	return nil
}
