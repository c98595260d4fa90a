package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// What people and agents do in a simulated day. Tasks come from 8 to 18 h, a
// tenth of them at 9 h sharp. Each has one, two or three steps.
const (
	dayBegins   = 8 * time.Hour
	dayEnds     = 18 * time.Hour
	planning    = 9 * time.Hour
	plannedOf   = 10               // one task of so many is dropped at planning
	beginsAfter = 5 * time.Minute  // from assigned to the agent's first report
	stepTakes   = 10 * time.Minute // from one report to the next
	reviewTakes = time.Hour        // from agent_done until a person sets done, at work
)

// regime is how many tasks come a day, for how many days, and how often what is
// over leaves the list.
type regime struct {
	tasks    int // a day
	days     int
	rows     int           // that the list may hold; 0: any number
	every    time.Duration // when otm archive --yes runs; 0: never, and a list that is full ends it
	keptDone time.Duration // its --older-than
}

// simulated is a week, or less, of a regime.
type simulated struct {
	*virtual
	regime
	agents []string
	status string // the column

	mu      sync.Mutex // guards what follows
	dice    *rand.Rand
	drops   map[pipeline.TaskID]time.Time   // when it was created
	reports map[pipeline.TaskID][]time.Time // when the agent reported its steps
	ended   int                             // tasks that a person set to done
	most    int                             // rows on the list at once
	full    time.Time                       // when the list was full for the first time; zero: never
}

func newSimulated(v *virtual, r regime, agents []string) *simulated {
	return &simulated{
		virtual: v, regime: r, agents: agents, status: v.far.column(v.T, "Status"), dice: rand.New(rand.NewPCG(3, 4)),
		drops: map[pipeline.TaskID]time.Time{}, reports: map[pipeline.TaskID][]time.Time{},
	}
}

// live runs all days, to their end or until the list is full and nothing is
// taken off it.
func (l *simulated) live() {
	end := epoch.Add(time.Duration(l.days) * 24 * time.Hour)
	ctx, cancel := context.WithDeadline(l.Context(), end)
	defer cancel()
	stop := l.up()
	var all sync.WaitGroup
	all.Go(func() { l.count(ctx, cancel) })
	if l.every > 0 {
		all.Go(func() { l.archive(ctx) })
	}
	for day := range l.days {
		for i := range l.tasks {
			at := l.moment(day, i)
			all.Go(func() { l.task(ctx, at) })
		}
	}
	all.Wait()
	stop()
}

// moment is when a task of a day is created.
func (l *simulated) moment(day, i int) time.Time {
	at := planning
	if i%plannedOf != 0 {
		at = dayBegins + time.Duration(l.roll(int64(dayEnds-dayBegins)))
	}
	return epoch.Add(time.Duration(day)*24*time.Hour + at)
}

func (l *simulated) roll(n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dice.Int64N(n)
}

// about is a duration with the given mean, none of them longer than four times
// that.
func (l *simulated) about(mean time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(time.Duration(l.dice.ExpFloat64()*float64(mean)), 4*mean)
}

// task is one from its drop until a person sets it to done.
func (l *simulated) task(ctx context.Context, at time.Time) {
	if !pass(ctx, time.Until(at)) {
		return
	}
	steps := 1 + int(l.roll(3))
	args := []string{"--title", fmt.Sprintf("Do what was asked for at %v", at.Format(time.TimeOnly)), "--agent", l.agents[l.roll(int64(len(l.agents)))]}
	for s := range steps {
		args = append(args, "--subtask", "Step "+strconv.Itoa(s+1))
	}
	id := l.create(args...)[0]
	l.mu.Lock()
	l.drops[id] = time.Now()
	l.mu.Unlock()
	if !l.await(ctx, id, pipeline.Assigned) || !pass(ctx, l.about(beginsAfter)) {
		return
	}
	l.update(id, "--status", "in_progress")
	for s := range steps {
		if !pass(ctx, l.about(stepTakes)) {
			return
		}
		l.mu.Lock()
		l.reports[id] = append(l.reports[id], time.Now())
		l.mu.Unlock()
		l.update(id, "--subtask-done", strconv.Itoa(s+1))
	}
	if l.await(ctx, id, pipeline.AgentDone) && pass(ctx, l.about(reviewTakes)) && pass(ctx, untilWork()) {
		l.review(id)
	}
}

// pass lets time pass; false where the week ends before.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// untilWork is how long it is until people are at work.
func untilWork() time.Duration {
	switch clock := time.Since(epoch) % (24 * time.Hour); {
	case clock < dayBegins:
		return dayBegins - clock
	case clock > dayEnds:
		return 24*time.Hour - clock + dayBegins
	}
	return 0
}

// workedUntil is how much of a span of time, from a midnight on, is within people's
// hours.
func workedUntil(d time.Duration) time.Duration {
	days := d / (24 * time.Hour)
	return days*(dayEnds-dayBegins) + min(max(d%(24*time.Hour)-dayBegins, 0), dayEnds-dayBegins)
}

// await looks for a state again and again, less often as time goes by.
func (l *simulated) await(ctx context.Context, id pipeline.TaskID, status pipeline.Status) bool {
	for pause := 5 * time.Second; l.statusOf(id) != status; pause = min(pause*5/4, 5*time.Minute) {
		if !pass(ctx, pause) {
			return false
		}
	}
	return true
}

// review is what a person does on the list.
func (l *simulated) review(id pipeline.TaskID) {
	err := l.far.EditRow("", l.far.ListID(), l.stored(id).RowID, boardtest.SelectCell(l.status, string(pipeline.Done)))
	if err != nil {
		l.Errorf("review %v: %v", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

// archive is a timer that runs otm archive --yes. Where the rate limit puts it
// off, it goes on at its next time.
func (l *simulated) archive(ctx context.Context) {
	for pass(ctx, l.every) {
		on, err := newEngine(ctx, l.h, "otm", l.board, slog.New(slog.DiscardHandler))
		if err != nil {
			l.Error(err)
			return
		}
		a := &archiver{home: l.h, engine: on, age: l.keptDone}
		var e *pipeline.BoardError
		if _, err := a.run(ctx, true); err != nil && ctx.Err() == nil && !(errors.As(err, &e) && e.Code == "ratelimited") {
			l.Errorf("otm archive: %v", err)
		}
	}
}

// count looks how many rows there are, every few minutes.
func (l *simulated) count(ctx context.Context, end func()) {
	for pass(ctx, 5*time.Minute) {
		rows := l.far.rows(l.T)
		l.mu.Lock()
		l.most = max(l.most, rows)
		if l.rows > 0 && rows >= l.rows && l.full.IsZero() {
			l.full = time.Now()
			if l.every == 0 {
				end()
			}
		}
		l.mu.Unlock()
	}
}
