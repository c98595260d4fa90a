package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"otm/dispatch"
	"otm/internal/app"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// OfTask is the task of a request.
type OfTask struct {
	ID string `path:"id" doc:"Id of the task: T-00035, T-35 or 35"`
}

func (o OfTask) task() (pipeline.TaskID, error) {
	id, err := pipeline.ParseTaskID(o.ID)
	if err != nil {
		return 0, &app.FieldError{Field: "path.id", Err: err}
	}
	return id, nil
}

// OfAgent is the agent of a request.
type OfAgent struct {
	Agent string `path:"agent" doc:"Name of the agent"`
}

// NewTask has the fields of a task to be made.
type NewTask struct {
	_        struct{} `additionalProperties:"false"`
	Title    string   `json:"title" doc:"What is to be done, one line"`
	Agent    string   `json:"agent" doc:"Who does it"`
	Steps    []string `json:"subtasks,omitempty" doc:"The steps; none: one to confirm that it is done"`
	Priority string   `json:"priority,omitempty" doc:"critical, high, normal (where none is given), low or batchable"`
	Type     string   `json:"type,omitempty" doc:"action (where none is given), decision, review, or one of [types] in otm.toml"`
	Project  string   `json:"project,omitempty"`
	Context  string   `json:"context,omitempty"`
	Inputs   []string `json:"inputFiles,omitempty" doc:"Files or links that the task starts from"`
	Body     string   `json:"body,omitempty" doc:"What its agent is to know beside the title: lines of text, at most 20,000 bytes"`
	Parent   string   `json:"parent,omitempty" doc:"The task of which it is a part, or which it follows"`
}

func (n *NewTask) task() (t pipeline.Task, err error) {
	t = pipeline.Task{Title: n.Title, Agent: n.Agent, Steps: n.Steps, Project: n.Project, Context: n.Context, Inputs: n.Inputs, Body: n.Body}
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(cmp.Or(n.Priority, string(pipeline.Normal))); !ok {
		return t, &app.FieldError{Field: "priority", Err: errors.New("it is " + strings.Join(pipeline.Texts(pipeline.Priorities), ", "))}
	}
	if t.Type, ok = pipeline.ParseType(cmp.Or(n.Type, string(pipeline.Action))); !ok {
		return t, &app.FieldError{Field: "type", Err: errors.New("is no name")}
	}
	if n.Parent != "" {
		if t.Parent, err = pipeline.ParseTaskID(n.Parent); err != nil {
			err = &app.FieldError{Field: "parent", Err: err}
		}
	}
	return t, err
}

// Report has the fields of an agent's report, as otm-update takes them.
type Report struct {
	_        struct{} `additionalProperties:"false"`
	Agent    string   `json:"agent,omitempty" doc:"The agent that reports; a bot with the name of an agent reports as that one"`
	Run      int      `json:"run,omitempty" doc:"The run to which the report belongs, as taking the task told" minimum:"1"`
	Status   string   `json:"status,omitempty" doc:"in_progress, blocked, agent_done or failed"`
	Steps    []string `json:"subtasksDone,omitempty" doc:"Titles or numbers of steps that are done"`
	Reason   string   `json:"reason,omitempty" doc:"Of blocked and failed: why"`
	Result   string   `json:"result,omitempty" doc:"What came of it"`
	Terminal bool     `json:"terminal,omitempty" doc:"Of failed: another try makes no sense"`
	Note     string   `json:"note,omitempty" doc:"A message in the thread of the task"`
	Tag      string   `json:"tag,omitempty" doc:"Of the note"`
	Percent  *int     `json:"percent,omitempty" doc:"Of the note: how much of the task is done"`
	Mentions []string `json:"mentions,omitempty" doc:"Of the note: agents that are shown it"`
}

// NewMessage is a message on a task.
type NewMessage struct {
	_        struct{} `additionalProperties:"false"`
	Text     string   `json:"text"`
	Tag      string   `json:"tag,omitempty" doc:"handoff, progress, complete, blocked, escalate, result or note"`
	Mentions []string `json:"mentions,omitempty" doc:"Agents that are shown it too"`
	Agent    string   `json:"agent,omitempty" doc:"The agent whose message it is; none: a person's"`
}

// Next is the answer to an agent that asks for its next task.
type Next struct {
	Task   *dispatch.Taken `json:"task" doc:"The task; null: none waits, or the agent is paused"`
	Paused *app.Paused     `json:"paused,omitempty" doc:"A person has paused the agent"`
}

// TakenTask is the form of a dispatch.Taken.
type TakenTask struct {
	TaskID   pipeline.TaskID    `json:"taskId"`
	Title    string             `json:"title"`
	Agent    string             `json:"agent"`
	Priority pipeline.Priority  `json:"priority"`
	Body     string             `json:"body,omitempty" doc:"What it is to know beside the title"`
	Steps    []string           `json:"subtasks"`
	Done     []int              `json:"done" doc:"Numbers of the steps that are done"`
	Run      int                `json:"run,omitempty" doc:"To be given with each report"`
	Continue bool               `json:"continue" doc:"It was given before, and is unfinished"`
	Reason   string             `json:"reason,omitempty" doc:"What a person or a reviewer says"`
	Messages []dispatch.Message `json:"messages" doc:"What others wrote since"`
}

// Taking is how a task is taken.
type Taking struct {
	_       struct{} `additionalProperties:"false"`
	Another bool     `json:"another,omitempty" doc:"Take another one even if the last is unfinished"`
}

// Pausing is how an agent is paused.
type Pausing struct {
	_      struct{} `additionalProperties:"false"`
	Reason string   `json:"reason,omitempty" doc:"Why; the agent is told"`
}

// Retrying is how a drop is put back.
type Retrying struct {
	_     struct{} `additionalProperties:"false"`
	NewID bool     `json:"newId,omitempty" doc:"Give the task a new id: its own belongs to another one"`
}

// Cause is the cause of an incident, in a person's words.
type Cause struct {
	_     struct{} `additionalProperties:"false"`
	Cause string   `json:"cause" minLength:"1"`
}

// changes registers the operations that change something.
func changes(s *server) {
	s.huma.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[dispatch.Taken](), reflect.TypeFor[TakenTask]())
	b := s.back
	add(s, op{http.MethodPost, "/tasks", "createTask", "Make a task", "As otm-create does."},
		func(ctx context.Context, in *struct {
			Keyed
			Body NewTask
		}) (*app.Answer, error) {
			t, err := in.Body.task()
			if err != nil {
				return nil, err
			}
			return b.Create(ctx, in.request(ctx, "create", in.Body), t)
		})
	add(s, op{http.MethodPost, "/tasks/{id}/report", "reportOnTask", "Report on a task", "As otm-update does."},
		func(ctx context.Context, in *struct {
			Keyed
			OfTask
			Body Report
		}) (*app.Answer, error) {
			id, err := in.task()
			if err != nil {
				return nil, err
			}
			r := &in.Body
			u := drop.Update{TaskID: id, By: r.Agent, Run: r.Run, StepsDone: r.Steps, Reason: r.Reason, Result: r.Result, Terminal: r.Terminal,
				Message: pipeline.Message{Text: r.Note, Tag: pipeline.Tag(r.Tag), Percent: r.Percent, Mentions: r.Mentions}}
			if r.Status != "" {
				if u.Status, err = drop.ParseReport(r.Status); err != nil {
					return nil, &app.FieldError{Field: "status", Err: err}
				}
			}
			return b.Report(ctx, in.request(ctx, "report", id, r), u)
		})
	add(s, op{http.MethodPost, "/tasks/{id}/say", "sayOnTask", "Write a message on a task", "As otm say does."},
		func(ctx context.Context, in *struct {
			Keyed
			OfTask
			Body NewMessage
		}) (*app.Answer, error) {
			id, err := in.task()
			if err != nil {
				return nil, err
			}
			m := in.Body
			return b.Say(ctx, in.request(ctx, "say", id, m), id, m.Agent, pipeline.Message{Text: m.Text, Tag: pipeline.Tag(m.Tag), Mentions: m.Mentions})
		})
	for _, c := range app.TaskCommands() {
		add(s, op{http.MethodPost, "/tasks/{id}/" + c.Name, c.Name + "Task", c.Short, "As otm " + c.Name + " does." + needs(c.Needs)},
			func(ctx context.Context, in *struct {
				Keyed
				OfTask
				Body *app.Steering
			}) (*app.Answer, error) {
				id, err := in.task()
				if err != nil {
					return nil, err
				}
				var asked app.Steering
				if in.Body != nil {
					asked = *in.Body
				}
				return b.Steer(ctx, in.request(ctx, c.Name, id, asked), c.Name, id, asked)
			})
	}
	add(s, op{http.MethodPost, "/agents/{agent}/next", "nextTask", "Take the next task of an agent", "As otm next does. While the task that was taken last is unfinished, the answer is that one again."},
		func(ctx context.Context, in *struct {
			OfAgent
			Body *Taking
		}) (t Next, err error) {
			t.Task, t.Paused, err = b.Next(ctx, caller(ctx), in.Agent, in.Body != nil && in.Body.Another)
			return t, err
		})
	add(s, op{http.MethodPost, "/agents/{agent}/pause", "pauseAgent", "Neither start an agent nor give it tasks", "As otm pause does."},
		func(ctx context.Context, in *struct {
			Keyed
			OfAgent
			Body *Pausing
		}) (*app.Answer, error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			return b.Pause(ctx, in.request(ctx, "pause", in.Agent, reason), in.Agent, reason)
		})
	add(s, op{http.MethodPost, "/agents/{agent}/resume", "resumeAgent", "Start an agent again that is paused or left alone", "As otm resume does."},
		func(ctx context.Context, in *struct {
			Keyed
			OfAgent
		}) (*app.Answer, error) {
			return b.Resume(ctx, in.request(ctx, "resume", in.Agent), in.Agent)
		})
	add(s, op{http.MethodPost, "/dead/{file}/retry", "retryDrop", "Put a failed drop back into its inbox", "As otm retry does. A repeated request finds the file no more."},
		func(ctx context.Context, in *struct {
			File string `path:"file" doc:"Name of the file, as the list of what failed gives it"`
			Body *Retrying
		}) (app.Retried, error) {
			return b.Retry(ctx, caller(ctx), in.File, in.Body != nil && in.Body.NewID)
		})
	add(s, op{http.MethodPost, "/incidents/{id}/tag", "tagIncident", "Note what led to an incident", "As otm incident tag does."},
		func(ctx context.Context, in *struct {
			ID   string `path:"id" doc:"Id of the incident, such as I-12"`
			Body Cause
		}) (Cause, error) {
			return in.Body, b.Tag(ctx, caller(ctx), in.ID, in.Body.Cause)
		})
}

func needs(field string) string {
	if field == "" {
		return ""
	}
	return " Needs " + field + "."
}
