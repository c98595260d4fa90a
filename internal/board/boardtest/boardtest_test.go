package boardtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
)

const (
	create = "slackLists.items.create"
	list   = "slackLists.items.list"
)

// An outcome is what a client sees of one call.
type outcome struct {
	status int
	body   string
	err    error
	header http.Header
}

// call makes a call over a connection of its own, so that one fault cannot
// meet a connection another has broken.
func call(ctx context.Context, b *boardtest.Board, method string, args url.Values) outcome {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	args.Set("list_id", b.ListID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+method, strings.NewReader(args.Encode()))
	if err != nil {
		return outcome{err: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+b.Token)
	resp, err := client.Do(req)
	if err != nil {
		return outcome{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return outcome{resp.StatusCode, string(body), err, resp.Header}
}

// rows is how many rows the board has.
func rows(t *testing.T, b *boardtest.Board) int {
	t.Helper()
	file := b.Must(t, "files.info", map[string]any{"file": b.ListID})["file"].(map[string]any)
	return int(file["list_limits"].(map[string]any)["row_count"].(float64))
}

// Each fault of a create: what the client sees, and whether it was applied.
func TestFaultsOfACreate(t *testing.T) {
	t.Parallel()
	okBody := func(o outcome) bool {
		return o.err == nil && o.status == 200 && strings.HasPrefix(o.body, `{"ok":true`)
	}
	status := func(code int) func(outcome) bool {
		return func(o outcome) bool { return o.err == nil && o.status == code }
	}
	reset := func(o outcome) bool { return errors.Is(o.err, syscall.ECONNRESET) || errors.Is(o.err, io.EOF) }
	gaveUp := func(o outcome) bool { return errors.Is(o.err, context.Canceled) }
	says := func(body string) func(outcome) bool {
		return func(o outcome) bool { return o.status == 200 && o.body == body }
	}
	retry := func(want ...string) func(outcome) bool {
		return func(o outcome) bool {
			got := o.header.Values("Retry-After")
			return o.status == 429 && strings.Join(got, "|") == strings.Join(want, "|") && strings.Contains(o.body, `"ratelimited"`)
		}
	}
	for _, c := range []struct {
		name    string
		fault   boardtest.Fault
		sees    func(outcome) bool
		applied int
	}{
		{"pass", boardtest.Pass(), okBody, 1},
		{"500", boardtest.Status(500), status(500), 0},
		{"503", boardtest.Status(503), status(503), 0},
		{"reset", boardtest.Reset(), reset, 0},
		{"timeout", boardtest.Timeout(), gaveUp, 0},
		{"429", boardtest.RateLimited("7"), retry("7"), 0},
		{"429 without header", boardtest.RateLimited(""), retry(), 0},
		{"429 with a fraction", boardtest.RateLimited("1.5"), retry("1.5"), 0},
		{"200 ratelimited", boardtest.ErrorCode("ratelimited"), says(`{"ok":false,"error":"ratelimited"}`), 0},
		{"no error", boardtest.NoError(), says(`{"ok":false}`), 0},
		{"odd errors", boardtest.OddErrors("invalid_args"), says(`{"ok":false,"error":"invalid_args","errors":[{"foo":1}]}`), 0},
		{"html", boardtest.HTML(), func(o outcome) bool { return o.status == 200 && strings.HasPrefix(o.body, "<!doctype") }, 0},
		{"apply, reset", boardtest.ApplyThenReset(), reset, 1},
		{"apply, timeout", boardtest.ApplyThenTimeout(), gaveUp, 1},
		{"apply, 502", boardtest.ApplyThenStatus(502), status(502), 1},
		{"apply, internal_error", boardtest.ApplyThenError("internal_error"), says(`{"ok":false,"error":"internal_error"}`), 1},
		{"apply, half body", boardtest.ApplyThenHalf(), func(o outcome) bool {
			return errors.Is(o.err, io.ErrUnexpectedEOF) && strings.HasPrefix(o.body, `{"ok":true`)
		}, 1},
		{"truncated", boardtest.Truncated(), func(o outcome) bool {
			return o.err == nil && strings.HasPrefix(o.body, `{"ok":true`) && !json.Valid([]byte(o.body))
		}, 1},
		{"dripping", boardtest.Dripping(64, time.Millisecond), func(o outcome) bool { return okBody(o) && json.Valid([]byte(o.body)) }, 1},
		{"apply, hide", boardtest.ApplyAndHide(0), reset, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := boardtest.Start(t)
			b.Faults.Next(create, c.fault)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			if strings.Contains(c.name, "timeout") {
				changes := b.Server.Changes()
				go func() {
					<-b.Faults.Came(create, 1)
					if c.applied == 1 {
						<-changes
					}
					giveUp()
				}()
			}
			if o := call(ctx, b, create, url.Values{}); !c.sees(o) {
				t.Errorf("client sees %+v", o)
			}
			if got := rows(t, b); got != c.applied {
				t.Errorf("%d rows, want %d", got, c.applied)
			}
			if o := call(t.Context(), b, create, url.Values{}); !okBody(o) {
				t.Errorf("the next call: %+v", o)
			}
		})
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	came := b.Faults.Came(list, 2)
	b.Call(t, list, map[string]any{"list_id": b.ListID, "limit": 7})
	select {
	case <-came:
		t.Error("one call counted as two")
	default:
	}
	call(t.Context(), b, list, url.Values{"limit": {"8"}})
	<-came
	b.Faults.Next("", boardtest.Status(500))
	call(t.Context(), b, create, url.Values{})
	calls := b.Faults.Calls()
	if len(calls) != 3 || b.Faults.Count(list) != 2 || b.Faults.Count("") != 3 {
		t.Fatalf("calls %v", calls)
	}
	if c := calls[0]; c.Method != list || c.Args.Get("limit") != "7" || c.At.IsZero() || c.Fault != "" {
		t.Errorf("first call %+v", c)
	}
	if c := calls[1]; c.Args.Get("limit") != "8" || c.Args.Has("token") {
		t.Errorf("second call %+v", c)
	}
	if c := calls[2]; c.Method != create || c.Fault != "status 500" {
		t.Errorf("third call %+v", c)
	}
	b.Faults.Reset()
	if n := b.Faults.Count(""); n != 0 {
		t.Errorf("%d calls after Reset", n)
	}
}

func TestAlways(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	stop := b.Faults.Always(list, boardtest.Status(503))
	b.Faults.Next(list, boardtest.Pass())
	for i, want := range []int{200, 503, 503} {
		if o := call(t.Context(), b, list, url.Values{}); o.status != want {
			t.Errorf("call %d: status %d, want %d", i, o.status, want)
		}
	}
	stop()
	if o := call(t.Context(), b, list, url.Values{}); o.status != 200 {
		t.Errorf("after stop: %+v", o)
	}
}

func TestPickAndForget(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	stop := b.Faults.Always("", boardtest.Pick(func(method string) boardtest.Fault {
		if method == list {
			return boardtest.Status(503)
		}
		return boardtest.Pass()
	}))
	b.Faults.Next(create, boardtest.Status(500))
	b.Faults.Forget()
	if o := call(t.Context(), b, create, url.Values{}); o.status != 200 {
		t.Errorf("create: %+v", o)
	}
	if o := call(t.Context(), b, list, url.Values{}); o.status != 503 {
		t.Errorf("list: %+v", o)
	}
	stop()
	if got := rows(t, b); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  func(<-chan struct{}) boardtest.Fault
		during int
	}{
		"before applying": {boardtest.Hold, 0},
		"after applying":  {boardtest.ApplyThenHold, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardtest.Start(t)
			release := make(chan struct{})
			changes := b.Server.Changes()
			b.Faults.Next(create, c.fault(release))
			done := make(chan outcome, 1)
			go func() { done <- call(t.Context(), b, create, url.Values{}) }()
			<-b.Faults.Came(create, 1)
			if c.during == 1 {
				<-changes
			}
			if got := rows(t, b); got != c.during {
				t.Errorf("%d rows while it is held, want %d", got, c.during)
			}
			close(release)
			if o := <-done; o.err != nil || o.status != 200 {
				t.Errorf("after release: %+v", o)
			}
			if got := rows(t, b); got != 1 {
				t.Errorf("%d rows after release", got)
			}
		})
	}
}

func items(t *testing.T, b *boardtest.Board, args map[string]any) ([]any, string) {
	t.Helper()
	args["list_id"] = b.ListID
	answer := b.Must(t, list, args)
	meta, _ := answer["response_metadata"].(map[string]any)
	next, _ := meta["next_cursor"].(string)
	return answer["items"].([]any), next
}

func TestHiddenRow(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	b.Create(t, "")
	b.Faults.Next(create, boardtest.ApplyAndHide(0), boardtest.ApplyAndHide(time.Nanosecond))
	call(t.Context(), b, create, url.Values{})
	if shown, _ := items(t, b, map[string]any{}); len(shown) != 1 {
		t.Errorf("%d rows listed, want the one that is not hidden", len(shown))
	}
	b.Faults.Reveal()
	if shown, _ := items(t, b, map[string]any{}); len(shown) != 2 {
		t.Errorf("%d rows listed after Reveal, want 2", len(shown))
	}
	call(t.Context(), b, create, url.Values{})
	for shown := []any(nil); len(shown) != 3; { // the span ends by itself
		shown, _ = items(t, b, map[string]any{})
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for range 5 {
		b.Create(t, "")
	}
	walk := func(pages int) (cursors []string) {
		cursor := ""
		for range pages {
			_, cursor = items(t, b, map[string]any{"limit": 2, "cursor": cursor})
			cursors = append(cursors, cursor)
			if cursor == "" {
				break
			}
		}
		return cursors
	}
	if got := walk(9); len(got) != 3 {
		t.Errorf("plain walk: %q", got)
	}
	stop := b.Faults.Always(list, boardtest.StuckCursor())
	if got := walk(5); len(got) != 5 || got[0] == "" || got[4] != got[0] {
		t.Errorf("stuck walk: %q", got)
	}
	stop()
	stop = b.Faults.Always(list, boardtest.CycleCursor())
	if got := walk(6); len(got) != 6 || got[0] == got[1] || got[2] != got[0] || got[3] != got[1] {
		t.Errorf("cycling walk: %q", got)
	}
	stop()
	b.Faults.Always(list, boardtest.NoCursor())
	answer := b.Must(t, list, map[string]any{"list_id": b.ListID})
	if _, there := answer["response_metadata"]; there {
		t.Errorf("last page has response_metadata: %v", answer)
	}
}

// Odd bodies reach the client as they are, in one item only.
func TestOddBodies(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	for range 3 {
		b.Create(t, "", boardtest.TextCell(title, "fine"))
	}
	plain, _ := items(t, b, map[string]any{})
	for _, odd := range boardtest.OddBodies() {
		b.Faults.Next(list, boardtest.Odd(odd, 1))
		got, _ := items(t, b, map[string]any{})
		for i := range plain {
			same := equalJSON(t, got[i], plain[i])
			if same == (i == 1) {
				t.Errorf("%s: item %d is the same: %t", odd.Name, i, same)
			}
		}
		if got[1].(map[string]any)["id"] != plain[1].(map[string]any)["id"] {
			t.Errorf("%s: the item lost its id", odd.Name)
		}
	}
	b.Faults.Next(list, boardtest.Odd(boardtest.OddBodies()[0], 99))
	if got, _ := items(t, b, map[string]any{}); !equalJSON(t, got, plain) {
		t.Error("an index beyond the page changed it")
	}
	b.Faults.Next("files.info", boardtest.OddList())
	file := b.Must(t, "files.info", map[string]any{"file": b.ListID})["file"].(map[string]any)
	if meta := file["list_metadata"].(map[string]any); !equalJSON(t, meta["integrations"], map[string]any{}) {
		t.Errorf("list object %v", meta)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}
