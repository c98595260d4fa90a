package core

import (
	"encoding/json"
	"fmt"
	"time"

	"otm/pipeline"
)

// Envelope is an event as it leaves the program: the form of otm events --json, of
// archives and of logs.
type Envelope struct {
	Schema        string          `json:"schema"` // otm.event.v1
	Sequence      int64           `json:"sequence"`
	EventID       string          `json:"event_id"`
	EventType     string          `json:"event_type"`
	EventVersion  int             `json:"event_version"`
	Timestamp     time.Time       `json:"timestamp"`
	Scope         Scope           `json:"scope"`
	Producer      Producer        `json:"producer"`
	CorrelationID string          `json:"correlation_id,omitempty"` // the task's, through all that happens to it
	CausationID   *string         `json:"causation_id"`             // the command's; null: none had an id
	Subject       Subject         `json:"subject"`
	Traceparent   pipeline.Trace  `json:"traceparent,omitempty"` // see Event.Trace
	Key           string          `json:"idempotency_key,omitempty"`
	Code          string          `json:"code,omitempty"`
	Actor         Actor           `json:"actor"`
	Tags          Tags            `json:"tags"`
	Payload       json.RawMessage `json:"payload"`
}

// Scope is the store and the project to which an event belongs.
type Scope struct {
	Tenant  string `json:"tenant_id"`
	Project string `json:"project_id"`
}

// Tags say how an event is to be treated.
type Tags struct {
	Sensitivity string `json:"sensitivity"` // always "internal": nothing else is decided yet
}

// Producer is the program that shows the event.
type Producer struct {
	Service string `json:"service"`
	Version string `json:"version"`
}

// Subject is what an event is about.
type Subject struct {
	Task  string `json:"task_id,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// Envelope returns an event as it leaves the program. tenant is the id of the store.
func (e *Event) Envelope(tenant string, by Producer) (Envelope, error) {
	payload, err := json.Marshal(e.Data)
	env := Envelope{
		Schema: "otm.event.v1", Sequence: e.Seq, EventID: e.ID, EventType: e.Type(), EventVersion: EventVersion, Timestamp: e.At.UTC(),
		Scope: Scope{tenant, "default"}, Producer: by, Traceparent: e.Trace, Key: e.Cause, Code: e.Code(), Actor: e.By, Tags: Tags{"internal"}, Payload: payload, Subject: Subject{Agent: e.Agent},
	}
	if e.Task != 0 {
		env.Subject.Task, env.CorrelationID = e.Task.String(), e.Task.String()
	}
	if e.Cause != "" {
		env.CausationID = &e.Cause
	}
	return env, err
}

// Event returns the event that an envelope was made of.
func (env *Envelope) Event() (e Event, err error) {
	if env.EventVersion > EventVersion {
		return e, fmt.Errorf("event %d has version %d, which is not known: a newer version of otm wrote it", env.Sequence, env.EventVersion)
	}
	e = Event{Seq: env.Sequence, ID: env.EventID, At: env.Timestamp, By: env.Actor, Agent: env.Subject.Agent, Cause: env.Key, Trace: env.Traceparent}
	if env.Subject.Task != "" {
		e.Task, err = pipeline.ParseTaskID(env.Subject.Task)
	}
	if err == nil {
		e.Data, err = DecodeData(env.EventType, env.Payload)
	}
	if err != nil {
		err = fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, err
}
