package app

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/notify"
	"otm/internal/safe"
	"otm/internal/view"
)

// watchdog tells people when the dispatcher stopped looking for incidents. It needs neither
// the store nor another program but the command of an outlet.
type watchdog struct {
	home    *Home
	outlets []outlet
	log     *slog.Logger
	missed  int             // looks in a row without a fresh heartbeat
	told    map[string]bool // the outlets that were told so
}

// watchdogTold is the file that says which outlets were told, so that a restart does not tell
// them again.
const watchdogTold = "watchdog-told.json"

// newWatchdog returns the watchdog of a directory, as far as it was when it ended. Without
// that, people are told again.
func newWatchdog(h *Home, all []outlet, log *slog.Logger) *watchdog {
	w := &watchdog{home: h, outlets: all, log: log, told: map[string]bool{}}
	data, err := durable.ReadFile(filepath.Join(h.Dir, watchdogTold))
	if err == nil {
		err = json.Unmarshal(data, &w.told)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || w.told == nil { // nil: the file holds null
		log.Warn("what people were told is not known any more", "err", err)
		w.told = map[string]bool{}
	}
	return w
}

// keep writes whom it told. It goes on if the disk is full: people are told all the same.
func (w *watchdog) keep() {
	data, err := json.Marshal(w.told)
	if err == nil {
		err = durable.Replace(filepath.Join(w.home.Dir, watchdogTold), append(data, '\n'))
	}
	if err != nil {
		w.log.Warn("people are told again after a restart", "err", err)
	}
}

const (
	// watchdogEvery is the time between two looks.
	watchdogEvery = time.Minute
	// maxMissed is how many looks in a row find a stale heartbeat before people are told. After
	// the machine slept, the heartbeat is stale until the dispatcher has looked.
	maxMissed = 3
)

// look looks once.
func (w *watchdog) look(ctx context.Context) {
	now := w.home.Now()
	b, err := heartbeat.Read(w.home.Dir, heartbeat.Monitor)
	w.missed++
	if heartbeat.Judge(b, now) == heartbeat.Green {
		w.missed = 0
	}
	var message notify.Message
	switch item := (notify.Item{At: now.UTC(), Code: explain.NobodyLooks, Over: w.missed == 0}); {
	case w.missed == 0:
		message = notify.Trouble(item, "over: incidents are looked for again")
	case w.missed >= maxMissed:
		args := []any{"start", w.home.startOf(heartbeat.Dispatcher), "why", w.why(err, now)}
		if b != nil {
			args = append(args, "since", b.LastRun)
		}
		says := explain.Tell(explain.New(item.Code, args...), now)
		item.Next = safe.Escape(says.Hint)
		message = notify.Trouble(item, safe.Escape(says.Text))
	default:
		return
	}
	for _, o := range w.outlets {
		if wrong := w.missed > 0; w.told[o.name] == wrong || isOff(w.home) {
			continue
		}
		if err := o.Tell(ctx, message); err != nil {
			w.log.Warn("people were not told; the next look tries again", "outlet", o.name, "err", err)
			continue
		}
		w.log.Warn(message.Text, "outlet", o.name)
		w.told[o.name] = w.missed > 0
		w.keep()
	}
}

// why says what is wrong with the components, as far as their heartbeats tell.
func (w *watchdog) why(err error, now time.Time) string {
	var all []string
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		all = append(all, err.Error())
	}
	for _, c := range view.Components(view.Sources{Dir: w.home.Dir, Now: now, Runner: w.home.runner(), LogDir: w.home.LogDir()}) {
		if c.Problem != nil {
			all = append(all, explain.Sentence(c.Problem, now))
		}
	}
	if len(all) == 0 {
		return "the dispatcher runs, and cannot read the store or the directory"
	}
	return strings.Join(all, "; ")
}

// watchdogCommand is otm watchdog.
func watchdogCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "watchdog",
		Short: "Tell people when the dispatcher stopped looking for incidents",
		Long: `The dispatcher looks for incidents, and tells people as [notify] says. This command
checks once a minute that it still does. If it stopped, people are told within ten
minutes by the same outlets, and again when it went on. It stays until it is interrupted,
and needs neither the store nor another program. otm install runs it as a service of its
own where [notify] is configured.`,
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			w := newWatchdog(h, outlets(h), h.stderrLog(heartbeat.Watchdog))
			if len(w.outlets) == 0 {
				return cli.Errorf(cli.BadConfig, "[notify] of otm.toml names nobody to tell").Hint("otm notify --help")
			}
			for {
				w.look(ctx)
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(watchdogEvery):
				}
			}
		}),
	}
}
