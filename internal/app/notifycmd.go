package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/hook"
	"otm/internal/notify"
)

// notifyPath is the file that says what people were told.
func notifyPath(h *Home) string { return filepath.Join(h.Dir, "notified.json") }

// untold says that people cannot be told, and since when; nil: nothing is known of it.
func untold(h *Home) *explain.Finding {
	if len(h.Config.Notify) == 0 {
		return nil
	}
	s, err := notify.Read(notifyPath(h))
	if err != nil || s == nil || s.Failing == nil {
		return nil
	}
	f := explain.New(explain.NotifyFails, "since", s.Failing.Since, "error", s.Failing.Error)
	return &f
}

// outlet is the command of [notify]; nil: there is none.
func outlet(h *Home) notify.Outlet {
	if len(h.Config.Notify) == 0 {
		return nil
	}
	env := append(hook.Environment(pathDir(h), h.Config.SecretEnv()), "OTM_DIR="+h.Dir)
	return &notify.Command{Line: h.Config.Notify, Dir: h.Dir, Env: env}
}

// newNotifier makes what tells people, as [notify] says; nil: nobody is told.
func newNotifier(h *Home, store core.Reader, log *slog.Logger) *notify.Notifier {
	o := outlet(h)
	if o == nil {
		return nil
	}
	n := &notify.Notifier{Store: store, Outlet: o, What: notify.Usual, Path: notifyPath(h), Now: h.Now, Log: log}
	if of := h.Config.NotifyOf; len(of) > 0 {
		n.What = nil
		for _, kind := range of {
			n.What = append(n.What, notify.Kind(kind))
		}
	}
	return n
}

// notifyCommand is otm notify.
func notifyCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "Try what tells people of blocked and failed tasks, and of problems",
		Long: `OTM can tell people what needs them: tasks that are blocked, failed, or to be
reviewed, and what otm incidents lists. In otm.toml name a command:

  [notify]
  command = ["~/bin/tell"]

It gets each message as one JSON object on stdin. "text" is ready to be sent; "items"
has the parts. It has taken a message if it exits with 0; else the message is tried
again, with what has come since. The dispatcher, if it stays, starts it.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:     "test",
		Short:   "Send one message now, and say what came of it",
		Example: "  otm notify test",
		Args:    cobra.NoArgs,
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			o := outlet(h)
			if o == nil {
				return cli.Errorf(cli.BadConfig, "no [notify] command is configured").Hint("otm notify --help")
			}
			text := "a test: OTM can tell you what needs you"
			m := notify.Message{Text: text, Items: []notify.Item{{Kind: notify.Problem, At: h.Now().UTC(), Text: text}}}
			if err := o.Tell(ctx, m); err != nil {
				return cli.Errorf(cli.Failed, "the message was not taken: %w", err)
			}
			h.Note("the message was taken")
			return nil
		}),
	})
	return c
}
