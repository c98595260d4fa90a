package board_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// send makes a raw request; "TOKEN" and "LIST" in it stand for the board's.
func send(t *testing.T, b *boardtest.Board, verb, path, headers, body string) (int, object) {
	t.Helper()
	fill := strings.NewReplacer("TOKEN", b.Token, "LIST", b.ListID)
	req, err := http.NewRequestWithContext(t.Context(), verb, b.Page()+fill.Replace(path), strings.NewReader(fill.Replace(body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(headers, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			req.Header.Set(name, fill.Replace(value))
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("answer has CORS header %s", name)
		}
	}
	var answer object
	json.Unmarshal(raw, &answer) // refusals of the guard are plain text
	return resp.StatusCode, answer
}

const (
	formType = "Content-Type: application/x-www-form-urlencoded"
	auth     = "Authorization: Bearer TOKEN"
)

func TestTransport(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const list = "api/slackLists.items.list"
	for _, c := range []struct {
		name, verb, path, headers, body string
		status                          int
		code                            string
	}{
		{"form with bearer", "POST", list, formType + "\n" + auth, "list_id=LIST", 200, ""},
		{"form with charset", "POST", list, formType + "; charset=UTF-8\n" + auth, "list_id=LIST", 200, ""},
		{"bearer in small letters", "POST", list, formType + "\nAuthorization: bearer TOKEN", "list_id=LIST", 200, ""},
		{"empty body", "POST", "api/auth.test", auth, "", 200, ""},
		{"unknown arguments", "POST", list, formType + "\n" + auth, "list_id=LIST&nonsense=1&cells=[", 200, ""},

		{"no token", "POST", list, formType, "list_id=LIST", 200, "not_authed"},
		{"token in a query", "POST", list + "?token=TOKEN", formType, "list_id=LIST", 200, "not_authed"},
		{"token in the form", "POST", list, formType, "list_id=LIST&token=TOKEN", 200, "not_authed"},
		{"prefix of the token", "POST", list, formType + "\nAuthorization: Bearer xoxb-otm-", "list_id=LIST", 200, "invalid_auth"},
		{"other scheme", "POST", list, formType + "\nAuthorization: Basic TOKEN", "list_id=LIST", 200, "not_authed"},
		{"unknown token", "POST", list, formType + "\nAuthorization: Bearer TOKENx", "list_id=LIST", 200, "invalid_auth"},

		{"unknown method", "POST", "api/slackLists.items.archive", formType + "\n" + auth, "", 200, "unknown_method"},
		{"unknown method without token", "POST", "api/slackLists.info", formType, "", 200, "unknown_method"},
		{"no method", "POST", "api/", formType, "", 200, "unknown_method"},
		{"get", "GET", list + "?list_id=LIST", auth, "", 405, "invalid_post_type"},
		{"json", "POST", list, "Content-Type: application/json\n" + auth, `{"list_id":"LIST"}`, 200, "invalid_post_type"},
		{"put", "PUT", list, formType + "\n" + auth, "list_id=LIST", 405, "invalid_post_type"},
		{"options", "OPTIONS", list, auth, "", 405, "invalid_post_type"},

		{"no content type", "POST", list, auth, "list_id=LIST", 200, "invalid_post_type"},
		{"multipart", "POST", list, "Content-Type: multipart/form-data; boundary=x\n" + auth, "--x--", 200, "invalid_post_type"},
		{"text", "POST", list, "Content-Type: text/plain\n" + auth, "list_id=LIST", 200, "invalid_post_type"},
		{"broken escape", "POST", list, formType + "\n" + auth, "list_id=%zz", 200, "invalid_form_data"},

		{"missing argument", "POST", list, formType + "\n" + auth, "limit=5", 200, "invalid_arguments"},
		{"empty argument", "POST", list, formType + "\n" + auth, "list_id=", 200, "invalid_arguments"},
		{"limit 0", "POST", list, formType + "\n" + auth, "list_id=LIST&limit=0", 200, "invalid_arguments"},
		{"limit 1001", "POST", list, formType + "\n" + auth, "list_id=LIST&limit=1001", 200, "invalid_arguments"},
		{"limit no number", "POST", list, formType + "\n" + auth, "list_id=LIST&limit=many", 200, "invalid_arguments"},
		{"malformed json field", "POST", "api/slackLists.items.update", formType + "\n" + auth, "list_id=LIST&cells=[{", 200, "invalid_arguments"},
		{"deep json field", "POST", "api/slackLists.items.update", formType + "\n" + auth, "list_id=LIST&cells=" + strings.Repeat("[", 100_000), 200, "invalid_arguments"},
		{"null field", "POST", "api/slackLists.items.update", formType + "\n" + auth, "list_id=LIST&cells=null", 200, "invalid_arguments"},
		{"null ids", "POST", "api/slackLists.items.deleteMultiple", formType + "\n" + auth, "list_id=LIST&ids=null", 200, "invalid_arguments"},
		{"ids no strings", "POST", "api/slackLists.items.deleteMultiple", formType + "\n" + auth, "list_id=LIST&ids=[1]", 200, "invalid_arguments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, answer := send(t, b, c.verb, c.path, c.headers, c.body)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			wantCode(t, answer, c.code)
			if c.code == "invalid_arguments" {
				if m, _ := dig(t, answer, "response_metadata", "messages", 0).(string); !strings.HasPrefix(m, "[ERROR] ") {
					t.Errorf("message %q, want one that begins with [ERROR]", m)
				}
			}
		})
	}
}

// TestEachMethodNeedsTheToken calls each method without a token, with that of
// somebody else, and with the right one in the address.
func TestEachMethodNeedsTheToken(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for _, name := range board.MethodNames() {
		for headers, want := range map[string]string{formType: "not_authed", formType + "\nAuthorization: Bearer TOKENx": "invalid_auth"} {
			status, answer := send(t, b, "POST", "api/"+name, headers, "list_id=LIST")
			if status != 200 {
				t.Errorf("%s: status %d", name, status)
			}
			wantCode(t, answer, want)
		}
		_, answer := send(t, b, "POST", "api/"+name+"?token=TOKEN", formType, "list_id=LIST")
		wantCode(t, answer, "not_authed")
	}
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const path, headers = "api/slackLists.items.create", formType + "\n" + auth
	fits := "list_id=LIST&x="
	status, answer := send(t, b, "POST", path, headers, fits+strings.Repeat("a", 1<<20-len(fits)-len(b.ListID)+len("LIST")))
	if status != 200 || answer["ok"] != true {
		t.Errorf("a body of 1 MiB: %d %v", status, answer)
	}
	status, answer = send(t, b, "POST", path, headers, "list_id=LIST&x="+strings.Repeat("a", 1<<20))
	if status != http.StatusRequestEntityTooLarge || answer["ok"] != false {
		t.Errorf("a larger body: %d %v, want 413", status, answer)
	}
	if n := len(listAll(t, b, b.ListID, 100)); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// The double refuses what a token is not granted, as Slack does.
func TestScopes(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withIdentities(
		board.Identity{Token: "xoxp-reader", UserID: board.HumanUser},
		board.Identity{Token: "xoxp-none", UserID: board.HumanUser},
	), func(o *boardtest.Options) {
		o.Scopes = map[string][]string{"xoxp-reader": {"lists:read", "chat:write"}, "xoxp-none": {}}
	})
	for _, c := range []struct{ token, method, code, needed, provided string }{
		{"xoxp-reader", "slackLists.items.list", "", "", ""},
		{"xoxp-reader", "slackLists.items.create", "missing_scope", "lists:write", "lists:read,chat:write"},
		{"xoxp-reader", "files.info", "missing_scope", "files:read", "lists:read,chat:write"},
		{"xoxp-none", "auth.test", "", "", ""},
		{"xoxp-none", "slackLists.items.list", "missing_scope", "lists:read", ""},
	} {
		answer := b.CallAs(t, c.token, c.method, object{"list_id": b.ListID, "file": b.ListID})
		wantCode(t, answer, c.code)
		needed, _ := answer["needed"].(string)
		provided, _ := answer["provided"].(string)
		if needed != c.needed || provided != c.provided {
			t.Errorf("%s as %s: needed %q provided %q, want %q %q", c.method, c.token, needed, provided, c.needed, c.provided)
		}
	}
}

func TestHostAndOrigin(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	own, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, headers string
		status              int
	}{
		{"own host", "api/auth.test", "", 200},
		{"localhost, any port", "api/auth.test", "Host: localhost:1", 200},
		{"localhost in capitals", "api/auth.test", "Host: LOCALHOST", 200},
		{"127.0.0.1 without port", "api/auth.test", "Host: 127.0.0.1", 200},
		{"ipv6", "api/auth.test", "Host: [::1]:18780", 200},
		{"ipv6 without port", "api/auth.test", "Host: [::1]", 200},
		{"foreign host", "api/auth.test", "Host: board.example", 403},
		{"foreign host with our port", "api/auth.test", "Host: board.example:18780", 403},
		{"name that begins like ours", "api/auth.test", "Host: localhost.example", 403},
		{"address that begins like ours", "api/auth.test", "Host: 127.0.0.1.example", 403},
		{"all interfaces", "api/auth.test", "Host: 0.0.0.0", 403},
		{"foreign host on the page", "", "Host: board.example", 403},
		{"foreign host on the style", "page.css", "Host: board.example", 403},
		{"own origin", "api/auth.test", "Origin: http://" + own.Host, 200},
		{"own origin by another name", "api/auth.test", "Host: localhost:5\nOrigin: http://localhost:5", 200},
		{"foreign origin", "api/auth.test", "Origin: http://evil.example", 403},
		{"other local port", "api/auth.test", "Origin: http://127.0.0.1:3000", 403},
		{"other name of this machine", "api/auth.test", "Host: localhost:5\nOrigin: http://127.0.0.1:5", 403},
		{"https", "api/auth.test", "Origin: https://" + own.Host, 403},
		{"null origin", "api/auth.test", "Origin: null", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			verb := "GET"
			if strings.HasPrefix(c.path, "api/") {
				verb = "POST"
			}
			status, _ := send(t, b, verb, c.path, auth+"\n"+c.headers, "")
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
		})
	}
}

// A refused origin must not have had its effect.
func TestForeignOriginWritesNothing(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	headers := formType + "\n" + auth + "\nOrigin: http://evil.example"
	if status, _ := send(t, b, "POST", "api/slackLists.items.create", headers, "list_id=LIST"); status != 403 {
		t.Errorf("status %d, want 403", status)
	}
	if items := listAll(t, b, b.ListID, 100); len(items) != 0 {
		t.Errorf("a row was made: %v", items)
	}
}

func TestAuthTest(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withIdentities(board.Identity{Token: "xoxp-alice", UserID: "U0ALICE"}))
	bot := b.Must(t, "auth.test", nil)
	if bot["user_id"] != board.BotUser || bot["user"] != "otm" {
		t.Errorf("bot: %v", bot)
	}
	person := b.CallAs(t, "xoxp-alice", "auth.test", nil)
	if person["user_id"] != "U0ALICE" || person["user"] != "U0ALICE" {
		t.Errorf("person: %v", person)
	}
}

// C36: a local user without a token sent bodies that the board read before it
// looked at the token. It looks first, and reads nothing.
func TestC36TokenBeforeBody(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	s, err := board.Open(board.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, method := range board.MethodNames() {
		for _, token := range []string{"", "Bearer " + b.Token} { // another board's
			body := &untouched{}
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/"+method, body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Authorization", token)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if body.read || w.Header().Get("Connection") != "close" || !strings.Contains(w.Body.String(), "auth") {
				t.Errorf("%s with token %q: read %t, connection %q, %s", method, token, body.read, w.Header().Get("Connection"), w.Body)
			}
		}
	}
}

// untouched is a body that notes whether it was read.
type untouched struct{ read bool }

func (b *untouched) Read([]byte) (int, error) {
	b.read = true
	return 0, io.EOF
}
