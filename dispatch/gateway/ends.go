package gateway

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Status is how the gateway says a run stands.
type Status string

// Statuses of a run that has ended. A gateway may send others.
const (
	StatusOK      Status = "ok" // does not mean that the work was done
	StatusError   Status = "error"
	StatusTimeout Status = "timeout" // timed out or aborted
)

// final reports whether the run has ended.
func (s Status) final() bool { return s == StatusOK || s == StatusError || s == StatusTimeout }

// End is how a run ended.
type End struct {
	RunID      string // the idempotency key
	Status     Status
	At         time.Time     // by the gateway's clock; zero if it does not say
	Message    string        // what the gateway says of a failure; may be empty
	LastWords  string        // what the agent said last, untrusted; may be empty
	RetryAfter time.Duration // the pause that the gateway asks for; zero: none
}

// endIn reads the end of a run from a frame. ok is false if it is none. The
// connection that asked for a run gets its end twice, as an event and as the
// second response. Other connections get the event only.
func endIn(f frame) (end End, ok bool) {
	if f.Type == "event" {
		return endInEvent(f)
	}
	return endInResponse(f)
}

// requestSep separates the number and the run's key in the id of a request for
// a run, so that a second response names its run without anything remembered.
const requestSep = ":"

// runAnswer is the payload of a response to the method agent.
type runAnswer struct {
	RunID  string `json:"runId"`
	Status Status `json:"status"`
	Result struct {
		Payloads []struct {
			Text string `json:"text"`
		} `json:"payloads"`
	} `json:"result"`
}

// endInResponse reads the end of a run from a response: a second one, or the
// first one if the gateway remembers the key. ok is false if it is no end.
func endInResponse(f frame) (end End, ok bool) {
	_, key, isRun := strings.Cut(f.ID, requestSep)
	var p runAnswer
	decode(f.Payload, &p)
	if !isRun || !p.Status.final() {
		return End{}, false
	}
	end = End{RunID: cmp.Or(p.RunID, key), Status: p.Status}
	if !f.OK {
		r := f.refusal()
		end.Message, end.RetryAfter = r.Message, r.retryAfter()
		if end.Status == StatusOK { // a run ended well only if both say so
			end.Status = StatusError
		}
	}
	if len(p.Result.Payloads) > 0 {
		end.LastWords = p.Result.Payloads[0].Text
	}
	return end, true
}

// endInEvent reads the end of a run from a lifecycle event. The gateway sends
// those of all runs of all agents to every client that may read (both
// versions). ok is false if it is no end: on 2026.3.13 the phase "error" ends one
// attempt of a run, and another "start" follows. 2026.9.6 marks the last one.
func endInEvent(f frame) (end End, ok bool) {
	var p struct {
		RunID  string `json:"runId"`
		Stream string `json:"stream"`
		Data   struct {
			Phase         string `json:"phase"`
			Aborted       bool   `json:"aborted"`
			Settled       bool   `json:"executionSettled"`
			Error         string `json:"error"`
			TerminalReply struct {
				Text string `json:"text"`
			} `json:"terminalReply"`
		} `json:"data"`
	}
	decode(f.Payload, &p)
	if f.Event != "agent" || p.Stream != "lifecycle" || p.RunID == "" {
		return End{}, false
	}
	end = End{RunID: p.RunID, LastWords: p.Data.TerminalReply.Text, Message: p.Data.Error}
	switch {
	case p.Data.Phase == "end" && p.Data.Aborted:
		end.Status = StatusTimeout
	case p.Data.Phase == "end":
		end.Status = StatusOK
	case p.Data.Phase == "error" && p.Data.Settled:
		end.Status = StatusError
	default:
		return End{}, false
	}
	return end, true
}

// listedTask is a row of tasks.list: a turn, or a command in the background.
type listedTask struct {
	RunID      string
	SessionKey string
	Status     string
	CreatedAt  float64 // milliseconds since the epoch, as is EndedAt
	EndedAt    float64
	Error      string
}

// endInTasks reads the end of a run from the list of an agent's tasks. A turn that a crash cut off
// counts as "cancelled". The gateway resumes it under another id in the same session: the run
// goes on while a later task of that does, and ends with the last one.
func endInTasks(tasks []listedTask, runID string) (end End, ended, goesOn bool) {
	i := slices.IndexFunc(tasks, func(t listedTask) bool { return t.RunID == runID })
	if i < 0 {
		return End{}, false, false
	}
	own := tasks[i]
	last, queued := own, false
	for _, t := range tasks {
		if t.SessionKey != own.SessionKey || t.CreatedAt < own.CreatedAt {
			continue
		}
		if t.Status == "running" {
			return End{}, false, true
		}
		queued = queued || t.Status == "queued"
		if own.Status == "cancelled" && t.EndedAt > last.EndedAt {
			last = t
		}
	}
	status := map[string]Status{"completed": StatusOK, "timed_out": StatusTimeout, "failed": StatusError, "cancelled": StatusError}[last.Status]
	if queued || status == "" {
		return End{}, false, false
	}
	return End{RunID: runID, Status: status, At: gatewayTime(last.EndedAt), Message: last.Error}, true, false
}

// gatewayTime is a time in milliseconds since the epoch; zero if it is none.
func gatewayTime(ms float64) (t time.Time) {
	if ms > 0 && ms < 1<<53 {
		t = time.UnixMilli(int64(ms))
	}
	return t
}
