package slacklist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// Every way in which a create can fail, and what the error says of it.
func TestErrors(t *testing.T) {
	t.Parallel()
	type want struct {
		class   pipeline.BoardClass
		code    string
		maybe   bool
		creds   bool
		full    bool
		gone    bool
		until   time.Duration // after now; 0: not known
		applied int
		text    string
	}
	for _, c := range []struct {
		name  string
		fault boardtest.Fault
		want  want
	}{
		{"500", boardtest.Status(500), want{maybe: true, text: "HTTP status 500"}},
		{"502 after it was applied", boardtest.ApplyThenStatus(502), want{maybe: true, applied: 1}},
		{"302", boardtest.Status(302), want{maybe: true, text: "HTTP status 302"}},
		{"reset before", boardtest.Reset(), want{maybe: true}},
		{"reset after", boardtest.ApplyThenReset(), want{maybe: true, applied: 1}},
		{"half an answer", boardtest.ApplyThenHalf(), want{maybe: true, applied: 1}},
		{"answer cut off", boardtest.Truncated(), want{maybe: true, applied: 1, text: "no Slack answer"}},
		{"HTML", boardtest.HTML(), want{maybe: true, text: `no Slack answer: "<!doctype html>`}},
		{"empty", boardtest.Body("", ""), want{maybe: true, text: "no Slack answer"}},
		{"an array", boardtest.Body("", `[{"ok":true}]`), want{maybe: true, text: "no Slack answer"}},
		{"ok as a text", boardtest.Body("", `{"ok":"true"}`), want{maybe: true, text: "neither a success nor an error"}},
		{"something behind", boardtest.Body("", `{"ok":true}{"ok":true}`), want{maybe: true, text: "no Slack answer"}},
		{"ok without an item", boardtest.Body("", `{"ok":true}`), want{maybe: true, text: "no row id"}},
		{"ok with an item without id", boardtest.Body("", `{"ok":true,"item":{"fields":[]}}`), want{maybe: true, text: "no row id"}},
		{"no code", boardtest.NoError(), want{maybe: true, text: "neither a success nor an error"}},
		{"errors of a wrong shape", boardtest.OddErrors("invalid_args"), want{class: pipeline.Refused, code: "invalid_args"}},
		{"429", boardtest.RateLimited("7"), want{code: "ratelimited", until: 7 * time.Second}},
		{"429 with a fraction", boardtest.RateLimited("1.5"), want{code: "ratelimited", until: 1500 * time.Millisecond}},
		{"429 with nothing", boardtest.RateLimited(""), want{code: "ratelimited", until: time.Minute}},
		{"429 with a date", boardtest.RateLimited("Sat, 28 Nov 2026 00:00:00 GMT"), want{code: "ratelimited", until: time.Minute}},
		{"429 with zero", boardtest.RateLimited("0"), want{code: "ratelimited", until: time.Second}},
		{"429 with NaN", boardtest.RateLimited("NaN"), want{code: "ratelimited", until: time.Minute}},
		{"429 for days", boardtest.RateLimited("86400"), want{code: "ratelimited", until: time.Minute}},
		{"ratelimited with 200", boardtest.ErrorCode("ratelimited"), want{code: "ratelimited", until: time.Minute}},
		{"internal_error", boardtest.ErrorCode("internal_error"), want{code: "internal_error", maybe: true}},
		{"fatal_error after it was applied", boardtest.ApplyThenError("fatal_error"), want{code: "fatal_error", maybe: true, applied: 1}},
		{"service_unavailable", boardtest.ErrorCode("service_unavailable"), want{code: "service_unavailable", maybe: true}},
		{"invalid_auth", boardtest.ErrorCode("invalid_auth"), want{class: pipeline.Fatal, code: "invalid_auth", creds: true}},
		{"missing_scope", boardtest.Body("", `{"ok":false,"error":"missing_scope","needed":"lists:write","provided":"chat:write"}`),
			want{class: pipeline.Fatal, code: "missing_scope", creds: true, text: "needs the scope lists:write"}},
		{"list_not_found", boardtest.ErrorCode("list_not_found"), want{class: pipeline.Fatal, code: "list_not_found"}},
		{"paid_teams_only", boardtest.ErrorCode("paid_teams_only"), want{class: pipeline.Fatal, code: "paid_teams_only"}},
		{"permission_denied", boardtest.ErrorCode("permission_denied"), want{class: pipeline.Fatal, code: "permission_denied"}},
		{"over_row_maximum", boardtest.ErrorCode("over_row_maximum"), want{code: "over_row_maximum", full: true}},
		{"row_not_found", boardtest.ErrorCode("row_not_found"), want{class: pipeline.Refused, code: "row_not_found", gone: true}},
		{"invalid_arguments", boardtest.Body("", `{"ok":false,"error":"invalid_arguments","response_metadata":{"messages":["[ERROR] no","[ERROR] never"]}}`),
			want{class: pipeline.Refused, code: "invalid_arguments", text: "[ERROR] no; [ERROR] never"}},
		{"a code nobody knows", boardtest.ErrorCode("title_too_silly"), want{class: pipeline.Refused, code: "title_too_silly"}},
		{"a code that is an object", boardtest.Body("", `{"ok":false,"error":{"code":"x"}}`), want{maybe: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.batch(w.client(), func(s *Session) {
				w.walk(s)
				w.Faults.Next(createMethod, c.fault)
				_, err := s.Create(t.Context(), "", taskCells(1)...)
				e := boardError(t, err)
				if e.Class != c.want.class || e.Code != c.want.code || e.MaybeApplied != c.want.maybe || e.Credentials != c.want.creds ||
					e.Full != c.want.full || e.RowGone != c.want.gone || e.Method != createMethod {
					t.Errorf("error %+v, want %+v", e, c.want)
				}
				if until := e.Until.Sub(w.clock.Now()); e.Until.IsZero() != (c.want.until == 0) || c.want.until != 0 && until != c.want.until {
					t.Errorf("to be called again after %v, want %v", until, c.want.until)
				}
				if !strings.Contains(err.Error(), c.want.text) {
					t.Errorf("error %q, want %q in it", err, c.want.text)
				}
				w.walk(s)
				if n := len(ids(s)); n != c.want.applied {
					t.Errorf("%d rows, want %d", n, c.want.applied)
				}
			})
		})
	}
}

// A call that only reads is never refused because of a row: nobody may fail a
// drop because the board could not be looked at.
func TestReadsAreNotRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{"auth.test", listMethod, filesMethod} {
		for _, code := range []string{"invalid_arguments", "invalid_cursor", "user_not_found", "row_not_found", "internal_error", "", "whatever"} {
			w.batch(w.client(func(o *Options) { o.Dir = t.TempDir() }), func(s *Session) {
				w.Faults.Next(method, boardtest.ErrorCode(code))
				err := s.Refresh(t.Context(), 0)
				if e := boardError(t, err); e.Class != pipeline.Transient || e.RowGone || e.MaybeApplied || e.Method != method {
					t.Errorf("%s of %s: %+v", code, method, e)
				}
			})
			w.Faults.Reset()
		}
		if method == listMethod { // Refresh has the schema from the page: take it away for files.info
			w.Server.SetQuirks(boardtest.Quirks{IgnoreIncludeList: true})
		}
	}
}

// A connection that was never made surely changed nothing; one that broke may
// have.
func TestSurelyNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) { w.walk(s) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String() + "/api/"
	l.Close()
	for name, c := range map[string]struct {
		url   string
		ended bool
		want  bool
	}{
		"nobody listens":  {nobody, false, false},
		"no such host":    {"http://board.invalid/api/", false, false},
		"given up before": {w.URL, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			client := w.client(func(o *Options) { o.URL = c.url })
			s, err := client.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.End()
			w.batchSchema(s)
			ctx, cancel := context.WithCancel(t.Context())
			if c.ended {
				cancel()
			}
			defer cancel()
			_, err = s.Create(ctx, "", taskCells(1)...)
			if err == nil || pipeline.MaybeApplied(err) != c.want {
				t.Errorf("%v: may be applied: %t, want %t", err, pipeline.MaybeApplied(err), c.want)
			}
			if err != nil && strings.Contains(err.Error(), "http://") {
				t.Errorf("error repeats the address: %v", err)
			}
		})
	}
}

// batchSchema gives a session the schema of the board without a call.
func (w *world) batchSchema(s *Session) {
	w.t.Helper()
	snap, err := readSnapshot(w.dir + "/board/snapshot.json")
	if err != nil {
		w.t.Fatal(err)
	}
	s.snap.Schema = snap.Schema
}

// A call that is given up while it is under way may have been applied.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batch(w.client(), func(s *Session) {
		w.walk(s)
		ctx, cancel := context.WithCancel(t.Context())
		w.Faults.Next(createMethod, boardtest.ApplyThenTimeout())
		go func() {
			<-w.Faults.Came(createMethod, 1)
			cancel()
		}()
		_, err := s.Create(ctx, "", taskCells(1)...)
		if !pipeline.MaybeApplied(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// The token stands in no error, no log and no file, also where a server sends
// back what it was sent.
func TestTokenStaysSecret(t *testing.T) {
	t.Parallel()
	const token = "xoxb-secret-0123456789"
	answers := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", 55)+bearer(r))
		},
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s", bearer(r)) },
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"ok":false,"error":%q}`, "bad_"+bearer(r))
		},
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"ok":false,"error":"invalid_arguments","response_metadata":{"messages":[%q]}}`,
				strings.Repeat("x", maxForeign-10)+bearer(r))
		},
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"ok":false,"error":"missing_scope","needed":%q}`, bearer(r))
		},
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/?token="+bearer(r), http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, bearer(r), http.StatusTeapot) },
	}
	world := newWorld(t)
	world.batch(world.client(), func(s *Session) { world.walk(s) })
	for i, answer := range answers {
		web := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(web.Close)
		var log bytes.Buffer
		c := world.client(func(o *Options) {
			o.URL, o.Token = web.URL+"/api", token
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		s, err := c.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		world.batchSchema(s)
		_, createErr := s.Create(t.Context(), "", taskCells(1)...)
		updateErr := s.Update(t.Context(), status("Rec1", pipeline.Done))
		walkErr := s.Refresh(t.Context(), 0)
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{createErr, updateErr, walkErr} {
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "secret") {
				t.Errorf("answer %d: error %v", i, err)
			}
			if n := len(err.Error()); n > 2*maxForeign {
				t.Errorf("answer %d: an error of %d bytes", i, n)
			}
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("answer %d: logged %s", i, log.String())
		}
		if files := filesWith(t, world.dir, "secret"); files != nil {
			t.Errorf("answer %d: in %v", i, files)
		}
	}
	if files := filesWith(t, world.dir, world.Token); files != nil {
		t.Errorf("the board's token is in %v", files)
	}
}

// A redirect is not followed: the form holds the token.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var got atomic.Int32
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
		t.Cleanup(elsewhere.Close)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) }))
		t.Cleanup(web.Close)
		c := New(Options{Dir: t.TempDir(), URL: web.URL, ListID: "F1", Token: "t"})
		if _, err := c.api.call(t.Context(), authMethod, nil); err == nil || got.Load() != 0 {
			t.Errorf("%d: error %v, %d requests elsewhere", status, err, got.Load())
		}
	}
}

// A huge answer is not read to its end.
func TestHugeAnswer(t *testing.T) {
	t.Parallel()
	body := strings.NewReader(strings.Repeat("x", 5000))
	if got, err := readBody(body, 1<<40, 1000); err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
	if body.Len() == 0 {
		t.Error("all was read")
	}
	if got, err := readBody(strings.NewReader(strings.Repeat("x", 1000)), -1, 1000); err != nil || len(got) != 1000 {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
}

// C22: an app that may read the list but not write it is answered list_not_found
// when it writes. The last walk proves that the list exists, so the error says
// when reading worked.
func TestC22ReadButNotWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	refuse := func(code string) (stop func()) {
		var stops []func()
		for _, method := range []string{createMethod, updateMethod, deleteMethod} {
			stops = append(stops, w.Faults.Always(method, boardtest.ErrorCode(code)))
		}
		return func() {
			for _, stop := range stops {
				stop()
			}
		}
	}
	stop := refuse("list_not_found")
	w.batch(c, func(s *Session) {
		_, err := s.Create(t.Context(), "", taskCells(1)...)
		if e := boardError(t, err); e.Class != pipeline.Fatal || !e.ReadAt.IsZero() {
			t.Errorf("before any walk: %+v", e)
		}
	})
	stop()
	var row string
	w.batch(c, func(s *Session) {
		row = w.add(s, 1)
		w.walk(s)
	})
	walked := w.clock.Now()
	for _, code := range []string{"list_not_found", "permission_denied"} {
		w.clock.Advance(time.Minute)
		stop = refuse(code)
		for name, write := range map[string]func(*Session) error{
			"create": func(s *Session) error { _, err := s.Create(t.Context(), "", taskCells(2)...); return err },
			"update": func(s *Session) error { return s.Update(t.Context(), status(row, pipeline.Done)) },
			"delete": func(s *Session) error { return s.Delete(t.Context(), row) },
		} {
			w.batch(c, func(s *Session) {
				if e := boardError(t, write(s)); e.Class != pipeline.Fatal || !e.ReadAt.Equal(walked) {
					t.Errorf("%s, %s: %+v, want one that says that reading worked at %v", code, name, e, walked)
				}
			})
		}
		stop()
	}
	w.Faults.Always(createMethod, boardtest.ErrorCode("over_row_maximum"))
	w.batch(c, func(s *Session) {
		_, err := s.Create(t.Context(), "", taskCells(3)...)
		if e := boardError(t, err); !e.ReadAt.IsZero() {
			t.Errorf("a full list: %+v", e)
		}
	})
}

// bearer is the token of a call.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
