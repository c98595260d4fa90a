package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxBody bounds the body of a call, in bytes.
const maxBody = 1 << 20

// args are the arguments of one call, from a form, a query or a JSON body.
// Arguments that no method asks for are never looked at, as Slack does. The
// getters collect what is wrong; err returns it.
type args struct {
	form     url.Values                 // nil for a JSON body
	body     map[string]json.RawMessage // nil for a form
	problems []string
}

// readArgs decodes the request and finds the token. A token in a query or in a
// JSON body does not count: Slack takes it from the header or a form.
func readArgs(w http.ResponseWriter, r *http.Request, m *method) (*args, string, error) {
	token := bearer(r.Header)
	if r.Method == http.MethodGet {
		if !m.read {
			return nil, "", refuse("invalid_post_type", "use POST for "+m.name)
		}
		form, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, "", refuse("invalid_arguments", "malformed query")
		}
		return &args{form: validUTF8(form)}, token, nil
	}
	kind, err := contentKind(r)
	if err != nil {
		return nil, "", err
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, "", err
	}
	if kind == "application/json" {
		a, err := jsonArgs(body)
		return a, token, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, "", refuse("invalid_form_data")
	}
	if token == "" {
		token = form.Get("token")
	}
	return &args{form: validUTF8(form)}, token, nil
}

func bearer(h http.Header) string {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// contentKind checks the media type; an empty body needs none.
func contentKind(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		if r.ContentLength == 0 {
			return "", nil
		}
		return "", refuse("missing_post_type")
	}
	kind, params, err := mime.ParseMediaType(header)
	if err != nil || (kind != "application/json" && kind != "application/x-www-form-urlencoded") {
		return "", refuse("invalid_post_type")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", refuse("invalid_charset")
	}
	return kind, nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		e := refuse("invalid_arguments", fmt.Sprintf("the body is larger than %d bytes", maxBody))
		e.status = http.StatusRequestEntityTooLarge
		return nil, e
	case err != nil:
		return nil, refuse("request_timeout")
	}
	return body, nil
}

// jsonArgs reads a JSON body. Invalid UTF-8 is replaced here, once, because
// raw values are stored as they come.
func jsonArgs(body []byte) (*args, error) {
	a := &args{body: make(map[string]json.RawMessage)}
	if len(bytes.TrimSpace(body)) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(bytes.ToValidUTF8(body, []byte("\uFFFD")), &a.body); err != nil {
		return nil, refuse("invalid_arguments", "the body is not a JSON object")
	}
	return a, nil
}

func validUTF8(form url.Values) url.Values {
	for _, values := range form {
		for i, v := range values {
			values[i] = strings.ToValidUTF8(v, "\uFFFD")
		}
	}
	return form
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

// has says whether the argument was given; null and an empty form field count
// as not given.
func (a *args) has(name string) bool {
	if a.form != nil {
		return a.form.Get(name) != ""
	}
	raw, ok := a.body[name]
	return ok && !isNull(raw)
}

// text returns a string argument, "" if absent. A JSON number is taken as its
// digits.
func (a *args) text(name string) string {
	if a.form != nil {
		return a.form.Get(name)
	}
	if !a.has(name) {
		return ""
	}
	raw := a.body[name]
	if s, err := toString(raw); err == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	a.problem("must be a string: %s", name)
	return ""
}

// required is text that must be there.
func (a *args) required(name string) string {
	s := a.text(name)
	if s == "" {
		a.missing(name)
	}
	return s
}

func (a *args) missing(name string) { a.problem("missing required field: %s", name) }

// flag returns a boolean argument, false if absent.
func (a *args) flag(name string) bool {
	if !a.has(name) {
		return false
	}
	s := ""
	if a.form != nil {
		s = a.form.Get(name)
	} else {
		s = strings.Trim(string(bytes.TrimSpace(a.body[name])), `"`)
	}
	switch s {
	case "true", "1":
		return true
	case "false", "0":
		return false
	}
	a.problem("must be a boolean: %s", name)
	return false
}

// number returns a whole number between least and most, or standard if absent.
func (a *args) number(name string, standard, least, most int) int {
	if !a.has(name) {
		return standard
	}
	n, err := strconv.Atoi(a.text(name))
	if err != nil || n < least || n > most {
		a.problem("must be a whole number from %d to %d: %s", least, most, name)
		return standard
	}
	return n
}

// raw returns an array or object argument, nil if absent. In a form it is one
// field with JSON in it.
func (a *args) raw(name string) json.RawMessage {
	if a.form == nil {
		if !a.has(name) {
			return nil
		}
		return a.body[name]
	}
	field := a.form.Get(name)
	if field == "" {
		return nil
	}
	raw := json.RawMessage(field)
	if !json.Valid(raw) {
		a.problem("invalid JSON: %s", name)
		return nil
	}
	if isNull(raw) {
		return nil
	}
	return raw
}

// array returns the elements of an array argument, nil if absent.
func (a *args) array(name string) []json.RawMessage {
	raw := a.raw(name)
	if raw == nil {
		return nil
	}
	elements := []json.RawMessage{}
	if err := json.Unmarshal(raw, &elements); err != nil {
		a.problem("must be an array: %s", name)
		return nil
	}
	return elements
}

// strings returns the elements of an array of strings, nil if absent.
func (a *args) strings(name string) []string {
	elements := a.array(name)
	if elements == nil {
		return nil
	}
	texts := make([]string, 0, len(elements))
	for _, raw := range elements {
		s, err := toString(raw)
		if err != nil {
			a.problem("must be an array of strings: %s", name)
			return nil
		}
		texts = append(texts, s)
	}
	return texts
}
