package boardtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"otm/internal/board"
)

// A Board is a running board with a layer of faults in front.
type Board struct {
	// Server is the board itself, for people's edits and quirks.
	Server *Server
	// Faults is the layer; every call goes through it.
	Faults *Layer
	// URL is the base of the API and ends in "/".
	URL string
	// Token is the bot's.
	Token string
	// ListID is the default list.
	ListID string
	// Dir holds the board's files.
	Dir string

	http *httptest.Server
}

// An Option changes the board's options before it is opened.
type Option func(*Options)

// Start opens a board in a directory of its own and serves it until the test
// ends.
func Start(t testing.TB, options ...Option) *Board {
	t.Helper()
	o := Options{Options: board.Options{Dir: t.TempDir()}}
	for _, change := range options {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open board: %v", err)
	}
	faults := NewLayer(s.Handler())
	web := httptest.NewServer(faults)
	t.Cleanup(func() {
		faults.Close() // or calls that hang would keep the server
		web.Close()
		if err := s.Close(); err != nil {
			t.Errorf("close board: %v", err)
		}
	})
	return &Board{
		Server: s, Faults: faults, URL: web.URL + "/api/",
		Token: s.Token(), ListID: s.ListID(), Dir: o.Dir, http: web,
	}
}

// Page is the address of the board's web page.
func (b *Board) Page() string { return b.http.URL + "/" }

// Column returns the id of the default list's column with the name and type;
// an empty type is any.
func (b *Board) Column(t testing.TB, name, kind string) string {
	t.Helper()
	columns, err := b.Server.Columns(b.ListID)
	if err != nil {
		t.Fatalf("columns: %v", err)
	}
	for _, c := range columns {
		if c.Name == name && (kind == "" || c.Type == kind) {
			return c.ID
		}
	}
	t.Fatalf("no column %q of type %q", name, kind)
	return ""
}

// Call makes a form call with the bot's token and returns the answer as it
// decodes, whether ok or not. Values that are not strings travel as JSON. The
// test ends if there is no answer, or one that is no JSON.
func (b *Board) Call(t testing.TB, method string, args map[string]any) map[string]any {
	t.Helper()
	return b.CallAs(t, b.Token, method, args)
}

// CallAs is Call with another token.
func (b *Board) CallAs(t testing.TB, token, method string, args map[string]any) map[string]any {
	t.Helper()
	if answer, done := viaWebAPI(t, b.URL, token, method, args); done {
		return answer
	}
	form := url.Values{}
	for name, v := range args {
		form.Set(name, formValue(t, v))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+method, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: read answer: %v", method, err)
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%s: answer %.200q: %v", method, raw, err)
	}
	return answer
}

// Must is Call for calls that must be ok.
func (b *Board) Must(t testing.TB, method string, args map[string]any) map[string]any {
	t.Helper()
	answer := b.Call(t, method, args)
	if answer["ok"] != true {
		t.Fatalf("%s: %v", method, answer)
	}
	return answer
}

// Create makes a row in the default list by the API and returns its id.
func (b *Board) Create(t testing.TB, parent string, cells ...Cell) string {
	t.Helper()
	args := map[string]any{"list_id": b.ListID, "initial_fields": cells}
	if parent != "" {
		args["parent_item_id"] = parent
	}
	return b.Must(t, "slackLists.items.create", args)["item"].(map[string]any)["id"].(string)
}

func formValue(t testing.TB, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
