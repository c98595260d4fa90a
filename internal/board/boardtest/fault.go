package boardtest

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Fault is what happens to one call instead of the board's plain answer.
type Fault struct {
	// Name tells faults apart in Call.Fault.
	Name string

	serve func(*Exchange)
}

// Pass lets the call through.
func Pass() Fault { return Fault{} }

// Pick asks choose for the fault of each call, by the call's method.
func Pick(choose func(method string) Fault) Fault {
	return Fault{"picked", func(x *Exchange) {
		if f := choose(strings.TrimPrefix(x.r.URL.Path, "/api/")); f.serve != nil {
			f.serve(x)
			return
		}
		x.pass()
	}}
}

// Faults before anything is applied.

// Status answers with the HTTP status and a plain text; nothing is applied.
func Status(code int) Fault {
	return Fault{"status " + strconv.Itoa(code), func(x *Exchange) {
		http.Error(x.w, http.StatusText(code), code)
	}}
}

// Reset resets the connection; nothing is applied.
func Reset() Fault {
	return Fault{"reset", (*Exchange).reset}
}

// Timeout never answers; nothing is applied. The call ends when the caller
// gives up.
func Timeout() Fault {
	return Fault{"timeout", (*Exchange).hang}
}

// RateLimited answers 429 with the Retry-After header as given: "" leaves it
// out, "1.5" is what some proxies send.
func RateLimited(retryAfter string) Fault {
	return Fault{"429 " + retryAfter, func(x *Exchange) {
		if retryAfter != "" {
			x.w.Header().Set("Retry-After", retryAfter)
		}
		x.say(http.StatusTooManyRequests, `{"ok":false,"error":"ratelimited"}`)
	}}
}

// ErrorCode answers 200 with ok:false and the code; nothing is applied.
// "ratelimited" is one that a client must not take for an argument error.
func ErrorCode(code string) Fault {
	return Fault{"error " + code, func(x *Exchange) {
		x.say(http.StatusOK, fmt.Sprintf(`{"ok":false,"error":%q}`, code))
	}}
}

// NoError answers {"ok":false} without a code; nothing is applied.
func NoError() Fault { return Body("no error", `{"ok":false}`) }

// Body answers 200 with the text as JSON; nothing is applied.
func Body(name, body string) Fault {
	return Fault{name, func(x *Exchange) { x.say(http.StatusOK, body) }}
}

// HTML answers 200 with a web page, as proxies and captive portals do.
func HTML() Fault {
	return Fault{"html", func(x *Exchange) {
		x.w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(x.w, "<!doctype html><title>Sign in</title><p>Please sign in to the network.")
	}}
}

// Hold keeps the call until release is closed, then lets it through.
func Hold(release <-chan struct{}) Fault {
	return Fault{"hold", func(x *Exchange) {
		if x.wait(release) {
			x.pass()
		}
	}}
}

// Faults after the call was applied.

// ApplyThenReset applies the call and resets the connection.
func ApplyThenReset() Fault {
	return Fault{"apply, reset", func(x *Exchange) {
		x.apply()
		x.reset()
	}}
}

// ApplyThenTimeout applies the call and never answers.
func ApplyThenTimeout() Fault {
	return Fault{"apply, timeout", func(x *Exchange) {
		x.apply()
		x.hang()
	}}
}

// ApplyThenStatus applies the call and answers with the HTTP status.
func ApplyThenStatus(code int) Fault {
	return Fault{"apply, status " + strconv.Itoa(code), func(x *Exchange) {
		x.apply()
		http.Error(x.w, http.StatusText(code), code)
	}}
}

// ApplyThenError applies the call and answers 200 with ok:false and the code,
// such as internal_error.
func ApplyThenError(code string) Fault {
	return Fault{"apply, error " + code, func(x *Exchange) {
		x.apply()
		x.say(http.StatusOK, fmt.Sprintf(`{"ok":false,"error":%q}`, code))
	}}
}

// ApplyThenHalf applies the call, announces the whole answer, sends half of it
// and closes the connection.
func ApplyThenHalf() Fault {
	return Fault{"apply, half body", func(x *Exchange) {
		body := x.apply().Body.Bytes()
		h := x.w.Header()
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		x.w.Write(body[:len(body)/2])
		http.NewResponseController(x.w).Flush()
		panic(http.ErrAbortHandler)
	}}
}

// ApplyThenHold applies the call and keeps the answer until release is closed.
func ApplyThenHold(release <-chan struct{}) Fault {
	return Fault{"apply, hold", func(x *Exchange) {
		rec := x.apply()
		if x.wait(release) {
			x.send(rec)
		}
	}}
}

// ApplyAndHide applies a create, resets the connection, and keeps the new row
// out of items.list until span has passed, or for ever until Layer.Reveal if
// it is zero.
func ApplyAndHide(span time.Duration) Fault {
	return Fault{"apply, hide", func(x *Exchange) {
		var id string
		editBody(x.apply(), func(answer map[string]any) {
			item, _ := answer["item"].(map[string]any)
			id = textOf(item["id"])
		})
		x.layer.hide(id)
		if span > 0 {
			time.AfterFunc(span, func() { x.layer.unhide(id) })
		}
		x.reset()
	}}
}

// Truncated sends the first half of the answer as if it were all of it.
func Truncated() Fault {
	return Fault{"truncated", func(x *Exchange) {
		rec := x.apply()
		rec.Body.Truncate(rec.Body.Len() / 2)
		x.send(rec)
	}}
}

// Dripping sends the answer in pieces of n bytes with a pause after each.
func Dripping(n int, pause time.Duration) Fault {
	return Fault{"dripping", func(x *Exchange) {
		rec := x.apply()
		x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
		x.w.WriteHeader(rec.Code)
		for rec.Body.Len() > 0 {
			x.w.Write(rec.Body.Next(n))
			http.NewResponseController(x.w).Flush()
			timer := time.NewTimer(pause)
			ended := !x.waitTime(timer.C)
			timer.Stop()
			if ended {
				return
			}
		}
	}}
}

// Rewrite lets the board answer and edits the decoded answer.
func Rewrite(name string, edit func(answer map[string]any)) Fault {
	return Fault{name, func(x *Exchange) {
		rec := x.apply()
		editBody(rec, edit)
		x.send(rec)
	}}
}

// Faults of paging, for items.list.

// StuckCursor gives every page the next_cursor of the first page it saw, so
// that a walk with it never ends.
func StuckCursor() Fault {
	var mu sync.Mutex
	stuck := ""
	return Rewrite("stuck cursor", func(answer map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		meta, _ := answer["response_metadata"].(map[string]any)
		if stuck == "" {
			stuck = textOf(meta["next_cursor"])
		}
		if meta != nil {
			meta["next_cursor"] = stuck
		}
	})
}

// CycleCursor ends no walk: in place of the end it sends the first cursor that
// it saw, so that pages repeat in turn.
func CycleCursor() Fault {
	var mu sync.Mutex
	first := ""
	return Rewrite("cycling cursor", func(answer map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		meta, _ := answer["response_metadata"].(map[string]any)
		next := textOf(meta["next_cursor"])
		if first == "" {
			first = next
		}
		if meta != nil && next == "" {
			meta["next_cursor"] = first
		}
	})
}

// EndlessPages answers every page with the rows of the first one and a cursor
// that no page had before. With fresh, the rows have new ids on every page.
func EndlessPages(fresh bool) Fault {
	var mu sync.Mutex
	n := 0
	return Fault{"endless pages", func(x *Exchange) {
		form, err := url.ParseQuery(string(x.body))
		if err == nil {
			form.Del("cursor")
			x.body = []byte(form.Encode())
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		rec := x.apply()
		editBody(rec, func(answer map[string]any) {
			answer["response_metadata"] = map[string]any{"next_cursor": fmt.Sprint("page ", n)}
			items, _ := answer["items"].([]any)
			for _, item := range items {
				if m, ok := item.(map[string]any); ok && fresh {
					m["id"] = fmt.Sprint(textOf(m["id"]), "N", n)
				}
			}
		})
		x.send(rec)
	}}
}

// NoCursor leaves response_metadata out where next_cursor would be empty.
func NoCursor() Fault {
	return Rewrite("no response_metadata", func(answer map[string]any) {
		meta, _ := answer["response_metadata"].(map[string]any)
		if textOf(meta["next_cursor"]) == "" {
			delete(answer, "response_metadata")
		}
	})
}

func (x *Exchange) say(status int, body string) {
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.w.WriteHeader(status)
	fmt.Fprint(x.w, body)
}

// reset closes the connection without an answer: with unsent data thrown away
// the peer sees a reset, not an end.
func (x *Exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// hang waits until the caller is gone or the layer is closed.
func (x *Exchange) hang() {
	x.wait(nil)
	panic(http.ErrAbortHandler)
}

// wait returns true once release is closed, false if the caller or the layer
// has gone first.
func (x *Exchange) wait(release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-x.r.Context().Done():
	case <-x.layer.closed:
	}
	return false
}

func (x *Exchange) waitTime(tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-x.r.Context().Done():
	case <-x.layer.closed:
	}
	return false
}
