package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
)

// eventsCommand is otm events.
func eventsCommand(s cli.Streams) *cobra.Command {
	var task, since string
	var filter core.EventFilter
	var follow bool
	c := &cobra.Command{
		Use:     "events",
		Short:   "Print what happened, oldest first",
		Long:    eventsHelp(),
		Example: "  otm events --task T-00035\n  otm events --since 24h --type TaskMoved\n  otm events --follow --json",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if err := eventFilter(&filter, task, since, h.Now()); err != nil {
				return err
			}
			store, err := h.OpenStore(ctx)
			if err != nil {
				return err
			}
			return printEvents(ctx, h, store, filter, follow)
		}),
	}
	c.Flags().StringVar(&task, "task", "", "only those of a task")
	c.Flags().StringVar(&filter.Agent, "agent", "", "only those of an agent")
	c.Flags().StringSliceVar(&filter.Types, "type", nil, "only those of a type, such as TaskMoved")
	c.Flags().StringVar(&since, "since", "", "only those since a time, such as 24h or 2026-11-29T08:00:00Z")
	c.Flags().BoolVar(&follow, "follow", false, "go on with new ones")
	jsonFlag(c, "print one JSON object a line")
	return c
}

// eventsHelp is the help of otm events. It explains the codes.
func eventsHelp() string {
	text := `Print the events: all that happened to tasks and agents. --follow goes on with
new ones until it is interrupted; with --since 0s it prints those only.

A line says when, to whom, the code, the type, by whom, and what happened. The codes
of moves, which docs/state-machine.md lists with who may make them:
`
	for i := range core.Moves {
		if m := &core.Moves[i]; !strings.Contains(text, m.Code) {
			text += fmt.Sprintf("  %s  to %s: %s\n", m.Code, m.To, m.When)
		}
	}
	return text + `A move without a code is one that a person made past the table. Other codes:
  AT-01  a run began  AT-02  it succeeded  AT-03  it paused or was canceled  AT-04  it failed
  IE-01  a person changed something   IE-02  an agent reported   IE-03  a task was taken
  IE-04  a result was accepted        OE-01  an agent was woken  OE-06  the board was written
  IE-SYS-01  the dispatcher or the gateway started
  ERR-05 the board showed what nobody meant`
}

// eventFilter fills a filter from flags.
func eventFilter(f *core.EventFilter, task, since string, now time.Time) (err error) {
	if task != "" {
		if f.Task, err = pipeline.ParseTaskID(task); err != nil {
			return cli.Errorf(cli.Usage, "--task: %w", err).Hint("otm events --task T-00035")
		}
	}
	for _, typ := range f.Types {
		if all := core.Types(); !slices.Contains(all, typ) {
			e := cli.Errorf(cli.Usage, "--type %q: there is %s", typ, strings.Join(all, ", "))
			if near := pipeline.Nearest(typ, all); near != "" {
				e.Hint("otm events --type %s", near)
			}
			return e
		}
	}
	if since == "" {
		return nil
	}
	if f.Since, err = time.Parse(time.RFC3339, since); err == nil {
		return nil
	}
	ago, err := parseDays(since)
	if err != nil {
		return cli.Errorf(cli.Usage, "--since %q is neither a duration nor a time", since).Hint("otm events --since 24h")
	}
	f.Since = now.Add(-ago)
	return nil
}

// lookForEvents is the pause between two looks for new events.
const lookForEvents = 200 * time.Millisecond

// eventsAtOnce bounds how many events are read together.
const eventsAtOnce = 1000

func printEvents(ctx context.Context, h *Home, s *store.Store, f core.EventFilter, follow bool) error {
	f.Limit, f.Archived = eventsAtOnce, true
	for {
		events, err := s.Events(ctx, f)
		if err != nil {
			return err
		}
		for i := range events {
			if err := printEvent(h, s.ID(), &events[i]); err != nil {
				return err
			}
			f.After = events[i].Seq
		}
		switch {
		case len(events) == eventsAtOnce:
			continue
		case !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookForEvents):
		}
	}
}

func printEvent(h *Home, tenant string, e *core.Event) error {
	envelope, err := e.Envelope(tenant, core.Producer{Service: "otm", Version: h.Version})
	if err != nil {
		return err
	}
	if h.asJSON {
		line, err := json.Marshal(envelope)
		if err == nil {
			_, err = fmt.Fprintf(h.Out, "%s\n", line)
		}
		return err
	}
	subject := envelope.Subject.Task
	if subject == "" {
		subject = e.Agent
	}
	_, err = fmt.Fprintf(h.Out, "%s  %-8s %-6s %-20s %s  %s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"), subject, e.Code(), e.Type(), safe.Escape(e.By.String()), safe.Escape(view.Words(e)))
	return err
}
