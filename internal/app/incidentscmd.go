package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
)

// newWatcher returns the watcher of incidents. It looks more often if [notify] names an outlet.
func newWatcher(h *Home, store core.Store, log *slog.Logger) *incident.Watcher {
	w := &incident.Watcher{Store: store, By: core.Component(heartbeat.Dispatcher), Now: h.Now, Log: log}
	if len(outlets(h)) > 0 {
		w.Every = 5 * time.Second
	}
	w.Find = func(ctx context.Context) ([]explain.Finding, error) {
		v, err := loadView(ctx, h, nil, true)
		if err != nil {
			return nil, err
		}
		found := view.Watched(v)
		return found, v.Err()
	}
	beat, beaten := heartbeat.NewWriter(h.Dir, heartbeat.Monitor, h.Version, h.Now), time.Time{}
	w.Beat = func() {
		if now := h.Now(); now.Sub(beaten).Abs() >= incident.LookEvery {
			beat.Progress()
			beat.Beat(heartbeat.Success, "looked for incidents") // if it cannot be written, its age tells
			beaten = now
		}
	}
	return w
}

// ShownIncident is an incident with its words, as --json prints it.
type ShownIncident struct {
	ID       string          `json:"id"`   // such as I-12
	Code     string          `json:"code"` // such as ERR-01; "": it is none of the specification
	Kind     string          `json:"kind"` // in plain words
	Level    explain.Level   `json:"level"`
	Task     pipeline.TaskID `json:"taskId,omitzero"`
	About    string          `json:"about,omitempty"` // the agent, the component or the sink
	FirstAt  time.Time       `json:"firstAt"`
	Since    time.Time       `json:"since"`
	ClosedAt time.Time       `json:"closedAt,omitzero"`
	Holds    bool            `json:"holds"`           // it is found now
	Count    int             `json:"count"`           // how often it was opened
	Acted    int             `json:"acted,omitempty"` // how often OTM did something about it
	Cause    string          `json:"cause,omitempty"`
	CauseBy  string          `json:"causeBy,omitempty"`
	Text     string          `json:"text"`
	Next     string          `json:"next,omitempty"`
	Or       string          `json:"or,omitempty"` // what may be done instead
	Finding  explain.Code    `json:"finding"`
}

// incidentID is the number of an incident as people write it.
func incidentID(id int64) string { return "I-" + strconv.FormatInt(id, 10) }

// IncidentsOf returns the incidents that are open, with all the closed ones, too; since selects
// those that were open at that time or later. Their words are those of what v finds now, where
// it still finds it. What is not found now has no next step, as the process that it names may
// be another one by now.
func IncidentsOf(ctx context.Context, v *view.View, all bool, since time.Time) ([]ShownIncident, error) {
	stood, err := v.Store.Incidents(ctx, core.IncidentFilter{Open: !all && since.IsZero(), Since: since})
	if err != nil {
		return nil, err
	}
	present, shown := incident.Worst(view.Watched(v)), []ShownIncident{}
	for _, i := range stood {
		f, holds := present[i.Key]
		if holds = holds && i.Open(); !holds {
			f = i.Found
		}
		finding := incident.Finding(&f)
		told := explain.Tell(finding, v.Now)
		if !holds {
			told.Text, told.Hint, told.Or = explain.Fact(&finding, v.Now), "", ""
		}
		switch {
		case holds, !i.Open():
		case v.Component(heartbeat.Dispatcher).State == heartbeat.Red: // it alone finds some of them
			told.Text = "not looked for while the dispatcher does not run: " + told.Text
		case i.Count > 1:
			told.Text = "comes and goes: " + told.Text
		default:
			told.Text = "not found any more: " + told.Text
		}
		shown = append(shown, ShownIncident{
			incidentID(i.ID), i.Err, i.Kind, told.Level, i.Task, i.About,
			i.FirstAt, i.OpenedAt, i.ClosedAt, holds, i.Count, i.Acted, i.Cause, i.CauseBy, told.Text, told.Hint, told.Or, told.Code,
		})
	}
	return shown, v.Err()
}

// incidentsCommand is otm incidents.
func incidentsCommand(s cli.Streams) *cobra.Command {
	var all bool
	var since string
	c := &cobra.Command{
		Use:     "incidents",
		Aliases: []string{"incident"},
		Short:   "List what is wrong, since when, and what to do",
		Long: `List the incidents that stand: the problems of otm status that lasted, each from when it
began. Tasks that failed, wait for a review or are blocked are no incidents by themselves:
otm dead and otm list show them. --all lists the closed ones as well, --since those that
stood at a time or later. The dispatcher, if it stays, opens and closes them. The code is
that of the specification, such as ERR-01, or plain words. One that comes and goes stays
open longer each time; while it is not found, it has no next step.`,
		Example: "  otm incidents\n  otm incidents --since 24h",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			var f core.EventFilter
			if err := eventFilter(&f, "", since, h.Now()); err != nil {
				return err
			}
			v, err := loadView(ctx, h, nil, true)
			if err != nil {
				return err
			}
			shown, err := IncidentsOf(ctx, v, all, f.Since)
			if err != nil {
				return err
			}
			if !v.Component(heartbeat.Dispatcher).Resident {
				h.Note("nobody updates this list: no dispatcher stays running here; start it with: %s", v.Runner.StartOf(heartbeat.Dispatcher))
			}
			return h.answer(shown, func() error { return printIncidents(h, shown) })
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "list those that are closed, too")
	c.Flags().StringVar(&since, "since", "", "list those that stood at a time or later, such as 24h or 2026-11-29T08:00:00Z")
	jsonFlag(c, "print it as JSON")
	tag := &cobra.Command{
		Use:     "tag ID CAUSE",
		Short:   "Note what led to an incident",
		Example: "  otm incident tag I-12 'the disk of the gateway was full'",
		Args:    words(2, 2, "want the id of an incident, and its cause", "otm incident tag I-12 'the disk was full'"),
	}
	forPeople(tag, s, tagIncident)
	c.AddCommand(tag)
	return c
}

func printIncidents(h *Home, shown []ShownIncident) error {
	now := h.Now()
	if len(shown) == 0 {
		_, err := fmt.Fprintln(h.Out, "no incident stands")
		return err
	}
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	for _, i := range shown {
		stands := "since " + explain.Ago(i.Since, now)
		switch {
		case !i.Holds && i.ClosedAt.IsZero():
			stands = "came last " + explain.Ago(i.Since, now)
		case !i.Holds:
			stands = "closed " + explain.Ago(i.ClosedAt, now)
		}
		times := ""
		if i.Count > 1 {
			times = fmt.Sprintf("%d times", i.Count)
		}
		line := explain.Told{Text: i.Text, Hint: i.Next, Or: i.Or}.Line()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", i.ID, i.Level, cmp.Or(i.Code, i.Kind), stands, times, safe.Escape(line))
		if i.Cause != "" {
			fmt.Fprintf(w, "\t\tcause\t\t\t%s\n", safe.Escape(i.Cause))
		}
	}
	return w.Flush()
}

// dailyCommand is otm daily.
func dailyCommand(s cli.Streams) *cobra.Command {
	var date string
	c := &cobra.Command{
		Use:   "daily",
		Short: "Say which incidents came up in a day",
		Long: `Say which incidents came up yesterday, or in another day: how many of each code, which
came up for the first time, and how many OTM put right by itself. A day ends at the
midnight of this machine.`,
		Example: "  otm daily\n  otm daily --date 2026-11-29",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			d, err := DayOf(ctx, h, date)
			if wrong, ok := errors.AsType[*FieldError](err); ok {
				return cli.Errorf(cli.Usage, "--date %w", wrong.Err).Hint("otm daily --date %s", h.Now().Format(time.DateOnly))
			}
			if err != nil {
				return err
			}
			return h.answer(d, func() error {
				_, err := fmt.Fprintln(h.Out, safe.Escape(d.Text()))
				return err
			})
		}),
	}
	c.Flags().StringVar(&date, "date", "", "the day, such as 2026-11-29 (default: yesterday)")
	jsonFlag(c, "print it as JSON")
	return c
}

// Day counts the incidents of a day.
type Day = incident.Day

// DayOf counts the incidents of a day; "": yesterday. The error may be a *FieldError.
func DayOf(ctx context.Context, h *Home, date string) (*Day, error) {
	now := h.Now()
	from := time.Date(now.Year(), now.Month(), now.Day()-1, 0, 0, 0, 0, now.Location())
	if date != "" {
		var err error
		if from, err = time.ParseInLocation(time.DateOnly, date, now.Location()); err != nil {
			return nil, &FieldError{"query.date", fmt.Errorf("%q is no day", date)}
		}
	}
	store, err := h.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	return incident.Daily(ctx, store, from, from.AddDate(0, 0, 1))
}

// tagIncident is otm incident tag.
func tagIncident(ctx context.Context, h *Home, as *acting, args []string) error {
	id, err := parseIncident(args[0])
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err).Hint("otm incidents --all")
	}
	by, err := as.actor()
	if err != nil {
		return err
	}
	if err = tag(ctx, h, by, id, args[1]); err == core.ErrNoIncident {
		return cli.Errorf(cli.Failed, "%s: %w", incidentID(id), err).Hint("otm incidents --all")
	}
	return err
}

// parseIncident reads the id of an incident.
func parseIncident(text string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(strings.ToUpper(text), "I-"), 10, 64)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("%q is no id of an incident", text)
	}
	return id, nil
}

// tag notes the cause of an incident. The error may be core.ErrNoIncident.
func tag(ctx context.Context, h *Home, by core.Actor, id int64, cause string) error {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	_, err = core.DoOne(ctx, store, core.Command{At: h.Now(), By: by, Do: core.TagIncident{ID: id, Cause: cause}})
	return err
}
