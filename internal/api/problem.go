package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"otm/core"
	"otm/internal/app"
	"otm/internal/cli"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// Problem is why a request was refused (RFC 9457).
type Problem struct {
	huma.ErrorModel
	Allowed  []pipeline.Status `json:"allowed,omitempty" doc:"The statuses of the task that permit it"`
	Possible []string          `json:"possible,omitempty" doc:"The commands for the task as it is"`
	Hints    []string          `json:"hints,omitempty" doc:"What to do"`
}

func init() {
	huma.DefaultArrayNullable = false // a list without members is []
	huma.NewError = func(status int, detail string, errs ...error) huma.StatusError {
		return newProblem(status, detail, errs...)
	}
}

func newProblem(status int, detail string, errs ...error) *Problem {
	p := &Problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}}
	for _, err := range errs {
		p.Add(err)
	}
	return p
}

// field is the problem with a field, such as title, or query.status.
func field(name, reason string) *Problem {
	if !strings.Contains(name, ".") {
		name = "body." + name
	}
	return newProblem(http.StatusUnprocessableEntity, strings.TrimPrefix(name, "body.")+": "+reason, &huma.ErrorDetail{Location: name, Message: reason})
}

// names are the names of fields in the API that have another one in files.
var names = map[string]string{"note": "text", "taskId": "path.id"}

// problem returns an error as the API tells it.
func (s *server) problem(err error) error {
	var known huma.StatusError
	var role *app.RoleError
	var wrong *app.FieldError
	var invalid *drop.InvalidError
	var refused *app.RefusedError
	var key *app.KeyError
	var said *cli.Error
	errors.As(err, &said)
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, errNoToken), errors.Is(err, errUnknownToken):
		return newProblem(http.StatusUnauthorized, err.Error())
	case errors.As(err, &role):
		return newProblem(http.StatusForbidden, role.Error())
	case errors.As(err, &wrong):
		p := field(wrong.Field, wrong.Err.Error())
		if said != nil {
			p.Hints = said.Hints
		}
		return p
	case errors.As(err, &invalid):
		name := invalid.Field
		if other := names[name]; other != "" {
			name = other
		}
		return field(name, invalid.Reason)
	case errors.As(err, &key):
		return newProblem(http.StatusConflict, key.Error(), &huma.ErrorDetail{Location: "header.Idempotency-Key", Message: "was used for another request", Value: key.Key})
	case errors.As(err, &refused):
		p := newProblem(http.StatusConflict, refused.Reason)
		p.Allowed, p.Possible = refused.Allowed, refused.Can
		return p
	case errors.Is(err, core.ErrNoIncident):
		return newProblem(http.StatusNotFound, "there is no such incident", &huma.ErrorDetail{Location: "path.id", Message: "is no incident"})
	case errors.Is(err, app.ErrNotFailed):
		return newProblem(http.StatusNotFound, "the file is not in failed/", &huma.ErrorDetail{Location: "path.file", Message: err.Error()})
	case errors.Is(err, core.ErrNoTask):
		return newProblem(http.StatusNotFound, "there is no such task", &huma.ErrorDetail{Location: "path.id", Message: "is no task that OTM knows"})
	}
	if said == nil {
		said = app.Explain(err)
	}
	s.back.Log.Warn("API request failed", "err", err)
	p := newProblem(http.StatusServiceUnavailable, err.Error())
	if said != nil {
		p.Hints = said.Hints
	}
	return p
}

// refuse writes a problem outside of an operation.
func (s *server) refuse(w http.ResponseWriter, err error) {
	p := s.problem(err).(*Problem)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	refuse(w, p.Status, p.Detail)
}

// counted has the context of an operation know which status was sent.
type counted struct {
	http.ResponseWriter
	context huma.Context
}

func (w counted) WriteHeader(status int) { w.context.SetStatus(status) }

// unserved answers with a problem where the mux has no handler for a path or a method.
type unserved struct {
	http.ResponseWriter
	path string
}

func (w unserved) WriteHeader(status int) {
	detail := "there is nothing at " + w.path + ": " + Prefix + "/openapi.json lists what there is"
	if status == http.StatusMethodNotAllowed {
		detail = w.path + " takes " + w.Header().Get("Allow")
	}
	refuse(w.ResponseWriter, status, detail)
}

// Write drops the text of the mux.
func (w unserved) Write(text []byte) (int, error) { return len(text), nil }

// refuse closes the connection, so that the caller holds none, and so that the rest of the
// request is not read.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(newProblem(status, detail))
}
