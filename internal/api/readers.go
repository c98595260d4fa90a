package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/app"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
)

// Tasks is a page of tasks.
type Tasks struct {
	Tasks []view.Card `json:"tasks"`
	Next  string      `json:"next,omitempty" doc:"The after of the next page; absent: there is none"`
}

// Task is a task with its history.
type Task struct {
	Task    *view.Card  `json:"task" doc:"As the board has it; null: only a file says that it is to be made"`
	Body    string      `json:"body,omitempty" doc:"What its agent is to know beside the title"`
	History []view.Line `json:"history"`
	Why     why.Reason  `json:"why" doc:"Why it is where it is"`
}

// Events is a page of events.
type Events struct {
	Events []core.Envelope `json:"events"`
	Next   int64           `json:"next" doc:"The after of the next page: the number of the last event that was looked at"`
}

// EventFilter selects events.
type EventFilter struct {
	After int64    `query:"after" minimum:"0" doc:"Only events with greater numbers"`
	Task  string   `query:"task" doc:"Only those of a task"`
	Agent string   `query:"agent" doc:"Only those of an agent"`
	Types []string `query:"type" doc:"Only those of these types, such as TaskMoved"`
}

func (f *EventFilter) filter() (core.EventFilter, error) {
	out := core.EventFilter{After: f.After, Agent: f.Agent, Types: f.Types, Archived: true}
	for _, t := range f.Types {
		if !slices.Contains(core.Types(), t) {
			return out, &app.FieldError{Field: "query.type", Err: errors.New("there is " + strings.Join(core.Types(), ", "))}
		}
	}
	if f.Task != "" {
		id, err := pipeline.ParseTaskID(f.Task)
		if err != nil {
			return out, &app.FieldError{Field: "query.task", Err: err}
		}
		out.Task = id
	}
	return out, nil
}

// viewed registers an operation that reads a view of the directory. countOnly is as in
// [app.Backend.View].
func viewed[T any](s *server, o op, countOnly bool, read func(*view.View) (T, error)) {
	add(s, o, func(ctx context.Context, _ *struct{}) (out T, err error) {
		v, err := s.back.View(ctx, countOnly)
		if err != nil {
			return out, err
		}
		return read(v)
	})
}

// readers registers the operations that read.
func readers(s *server) {
	b := s.back
	add(s, op{http.MethodGet, "/tasks", "listTasks", "List tasks", "Without a status, those that are done, cancelled or archived are left out."},
		func(ctx context.Context, in *struct {
			Status string `query:"status"`
			Agent  string `query:"agent"`
			All    bool   `query:"all" doc:"Also those that are over"`
			After  string `query:"after" doc:"The next of the page before"`
			Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"100 where none is given"`
		}) (out Tasks, err error) {
			var after pipeline.TaskID
			if in.After != "" {
				if after, err = pipeline.ParseTaskID(in.After); err != nil {
					return out, &app.FieldError{Field: "query.after", Err: err}
				}
			}
			status, ok := pipeline.ParseStatus(in.Status)
			if in.Status != "" && !ok {
				return out, &app.FieldError{Field: "query.status", Err: errors.New("there is " + strings.Join(pipeline.Texts(pipeline.Statuses), ", "))}
			}
			var more bool
			if out.Tasks, more, err = b.Tasks(ctx, status, in.Agent, in.All, after, cmp.Or(in.Limit, defaultLimit)); more {
				out.Next = out.Tasks[len(out.Tasks)-1].TaskID.String()
			}
			return out, err
		})
	add(s, op{http.MethodGet, "/tasks/{id}", "getTask", "Show a task, its runs and all that happened to it", "As otm show does."},
		func(ctx context.Context, in *struct{ OfTask }) (out Task, err error) {
			id, err := in.task()
			if err != nil {
				return out, err
			}
			is, err := b.Task(ctx, id)
			if err != nil {
				return out, err
			}
			out = Task{Task: is.Task, History: append([]view.Line{}, is.History...), Why: is.Why}
			if is.State != nil {
				out.Body = is.State.Body
			}
			return out, nil
		})
	viewed(s, op{http.MethodGet, "/agents", "listAgents", "Say who works at what", "As otm agents does."}, true, app.AgentLines)
	viewed(s, op{http.MethodGet, "/dead", "listDead", "List the tasks and drops that failed", "As otm dead does."}, false, app.DeadLetters)
	viewed(s, op{http.MethodGet, "/status", "getStatus", "Say how things stand", "As otm status does."}, true,
		func(v *view.View) (*view.Summary, error) { return view.SummaryOf(v, maxFailed), v.Err() })
	viewed(s, op{http.MethodGet, "/why", "listSlow", "Say which tasks have stood too long, why, and what to do", "As otm why --all does."}, false, why.Slow)
	add(s, op{http.MethodGet, "/stats", "getStats", "Say how many tasks were done, how long they took, and what went wrong", "As otm stats does."},
		func(ctx context.Context, in *struct {
			Since time.Time `query:"since" doc:"30 days ago where none is given"`
			Year  int       `query:"year" minimum:"2000" maximum:"9999" doc:"Of a year, by months as well"`
		}) (*app.Stats, error) {
			return app.StatsOf(ctx, b.Home, in.Since, in.Year)
		})
	add(s, op{http.MethodGet, "/daily", "getDaily", "Say which incidents came up in a day", "As otm daily does."},
		func(ctx context.Context, in *struct {
			Date string `query:"date" doc:"Such as 2026-11-29; yesterday where none is given"`
		}) (*app.Day, error) {
			return app.DayOf(ctx, b.Home, in.Date)
		})
	add(s, op{http.MethodGet, "/incidents", "listIncidents", "List what is wrong, since when, and what to do", "As otm incidents does."},
		func(ctx context.Context, in *struct {
			All   bool      `query:"all" doc:"Also those that are closed"`
			Since time.Time `query:"since" doc:"Those that stood at this time or later"`
		}) ([]app.ShownIncident, error) {
			v, err := b.View(ctx, true)
			if err != nil {
				return nil, err
			}
			return app.IncidentsOf(ctx, v, in.All, in.Since)
		})
	add(s, op{http.MethodGet, "/events", "listEvents", "List what happened, oldest first", "As otm events does."},
		func(ctx context.Context, in *struct {
			EventFilter
			Limit int `query:"limit" minimum:"1" maximum:"1000" doc:"100 where none is given"`
		}) (out Events, err error) {
			f, err := in.filter()
			if err != nil {
				return out, err
			}
			f.Limit = cmp.Or(in.Limit, defaultLimit)
			out.Events, out.Next, err = s.events(ctx, f)
			return out, err
		})
}

// defaultLimit is how many tasks or events a page has.
const defaultLimit = 100

// maxFailed bounds how many failed files the status gives reasons of.
const maxFailed = 50

// events reads a page of events, and the number after which the next one begins.
func (s *server) events(ctx context.Context, f core.EventFilter) ([]core.Envelope, int64, error) {
	store, err := s.back.Home.OpenStore(ctx)
	if err != nil {
		return nil, 0, err
	}
	last, err := store.LastEvent(ctx) // before the page is read: what comes later is on the next one
	if err != nil {
		return nil, 0, err
	}
	events, err := store.Events(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	all := make([]core.Envelope, 0, len(events))
	next := max(f.After, last)
	for i := range events {
		e, err := events[i].Envelope(store.ID(), core.Producer{Service: "otm", Version: s.back.Home.Version})
		if err != nil {
			return nil, 0, err
		}
		all = append(all, e)
	}
	if n := len(events); n > 0 && (n == f.Limit || events[n-1].Seq > next) {
		next = events[n-1].Seq
	}
	return all, next, nil
}
