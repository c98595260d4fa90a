package board

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// args are the arguments of one call, from a form. Arguments that no method
// asks for are never looked at, as in Slack. The getters collect what is
// wrong; err returns it.
type args struct {
	form     url.Values
	problems []string
}

// readArgs reads and decodes the body. Invalid UTF-8 is replaced here, once,
// because raw values are stored as they come.
func readArgs(r *http.Request) (*args, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && (err != nil || kind != "application/x-www-form-urlencoded") {
		return nil, refuse("invalid_post_type", "send a form")
	}
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		e := refuse("invalid_arguments", fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
		e.status = http.StatusRequestEntityTooLarge
		return nil, e
	case err != nil:
		return nil, refuse("request_timeout")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse("invalid_form_data")
	}
	for _, values := range form {
		for i, v := range values {
			values[i] = strings.ToValidUTF8(v, "\uFFFD")
		}
	}
	return &args{form: form}, nil
}

func (a *args) problem(format string, v ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, v...))
}

// err is nil, or invalid_arguments with a message for each problem so far.
func (a *args) err() error {
	if len(a.problems) == 0 {
		return nil
	}
	return refuse("invalid_arguments", a.problems...)
}

// text returns an argument, "" if absent.
func (a *args) text(name string) string { return a.form.Get(name) }

// required is text that must be there.
func (a *args) required(name string) string {
	s := a.text(name)
	if s == "" {
		a.problem("missing required field: %s", name)
	}
	return s
}

// raw returns an argument that holds JSON, nil if it is absent or null.
func (a *args) raw(name string) json.RawMessage {
	raw := json.RawMessage(a.text(name))
	switch {
	case len(raw) == 0:
		return nil
	case !json.Valid(raw):
		a.problem("invalid JSON: %s", name)
		return nil
	case isNull(raw):
		return nil
	}
	return raw
}
