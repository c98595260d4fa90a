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

// readForm reads and decodes the body. Invalid UTF-8 is replaced here, once, because raw
// values are stored as they come. Arguments that no method asks for are never looked at,
// as in Slack.
func readForm(r *http.Request) (url.Values, error) {
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
	return form, nil
}

// problem notes what is wrong with the arguments; the first problem is told.
func (c *call) problem(format string, v ...any) {
	if c.err == nil {
		c.err = refuse("invalid_arguments", fmt.Sprintf(format, v...))
	}
}

// text returns an argument, "" if absent.
func (c *call) text(name string) string { return c.form.Get(name) }

// required is text that must be there.
func (c *call) required(name string) string {
	s := c.text(name)
	if s == "" {
		c.problem("missing required field: %s", name)
	}
	return s
}

// raw returns an argument that holds JSON, nil if it is absent or null.
func (c *call) raw(name string) json.RawMessage {
	raw := json.RawMessage(c.text(name))
	valid := json.Valid(raw)
	if len(raw) > 0 && !valid {
		c.problem("invalid JSON: %s", name)
	}
	if !valid || isNull(raw) {
		return nil
	}
	return raw
}
