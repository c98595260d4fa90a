package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/notify/notifytest"
	"otm/pipeline"
)

const botToken = "123456:AAsecret"

// telegram is an outlet with a double of the Bot API.
func telegram(t *testing.T) (*Telegram, *notifytest.Telegram) {
	double := &notifytest.Telegram{Token: botToken, Chat: "-100"}
	server := httptest.NewServer(double)
	t.Cleanup(server.Close)
	return &Telegram{URL: server.URL, Chat: "-100", Token: func() (string, error) { return botToken, nil }}, double
}

// Texts of others come to Telegram as they are, whatever they hold, and never too long.
func TestTelegramTexts(t *testing.T) {
	t.Parallel()
	o, double := telegram(t)
	odd := "_*[]()~`>#+-=|{}.!\\ <b>&amp;</b> \\* ünï 👩‍👩‍👧"
	item := func(title, after string) Item {
		return Item{words: words{"T-00001 ", title, after}, Next: "otm accept T-00001"}
	}
	for name, m := range map[string]Message{
		"test":       Test(time.Now()),
		"odd":        message([]Item{item(odd, ": "+odd), problem(Item{}, odd)}),
		"emoji":      message([]Item{item(strings.Repeat("👩", 5000), strings.Repeat("👩", 5000))}),
		"all marks":  message([]Item{item(strings.Repeat("*", 5000), strings.Repeat("_", 5000))}),
		"many":       message(slices.Repeat([]Item{item("Build it", strings.Repeat("!", 500))}, 200)),
		"many emoji": message(slices.Repeat([]Item{item("🦀", strings.Repeat("🦀", 300))}, 40)),
	} {
		before := len(double.Texts())
		if err := o.Tell(t.Context(), m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := double.Texts()[before]
		if n := len(utf16.Encode([]rune(got))); n > 4096 || strings.Contains(got, "\uFFFD") {
			t.Errorf("%s: %d UTF-16 units: %.100s", name, n, got)
		}
		switch name {
		case "odd":
			if want := "T-00001 " + odd + ": " + odd + " → otm accept T-00001\n" + odd; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		case "many":
			if !strings.Contains(got, " earlier ones are left out") || strings.Count(got, "\n") < 3 {
				t.Errorf("got %q", got)
			}
		}
	}
	if calls, texts := double.Calls(), len(double.Texts()); calls != texts {
		t.Errorf("%d calls for %d messages: the double refused marks", calls, texts)
	}
}

// What the Bot API refuses is tried again when it says, or when a person has helped. Nothing
// that it says shows the token.
func TestTelegramRefuses(t *testing.T) {
	t.Parallel()
	refuse := notifytest.Refuse
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		says    string // "": the message is taken
		after   time.Duration
		next    string
	}{
		"limit":       {[]http.HandlerFunc{refuse(429, "Too Many Requests: retry after 35", `{"retry_after":35}`)}, "Telegram refuses it: 429 Too Many Requests: retry after 35", 35 * time.Second, ""},
		"no token":    {[]http.HandlerFunc{refuse(401, "Unauthorized", "")}, "Telegram refuses it: 401 Unauthorized", 0, "@BotFather"},
		"half token":  {[]http.HandlerFunc{refuse(404, "Not Found", "")}, "Telegram refuses it: 404 Not Found", 0, "@BotFather"},
		"blocked":     {[]http.HandlerFunc{refuse(403, "Forbidden: bot was blocked by the user", "")}, "Telegram refuses it: 403 Forbidden: bot was blocked by the user", 0, "/start"},
		"wrong chat":  {[]http.HandlerFunc{refuse(400, "Bad Request: chat not found", ""), refuse(400, "Bad Request: chat not found", "")}, "Telegram refuses it: 400 Bad Request: chat not found", 0, "notify.telegram.chat"},
		"moved":       {[]http.HandlerFunc{refuse(400, "Bad Request: group chat was upgraded to a supergroup chat", `{"migrate_to_chat_id":-100123}`)}, "Telegram refuses it: 400 Bad Request: group chat was upgraded to a supergroup chat", 0, `"-100123"`},
		"broken":      {[]http.HandlerFunc{refuse(500, "Internal Server Error", "")}, "Telegram refuses it: 500 Internal Server Error", 0, ""},
		"marks":       {[]http.HandlerFunc{refuse(400, "Bad Request: can't parse entities", "")}, "", 0, ""},
		"page":        {[]http.HandlerFunc{notifytest.HTML(502)}, "no answer of Telegram, but HTTP status 502", 0, ""},
		"portal":      {[]http.HandlerFunc{notifytest.HTML(200)}, "no answer of Telegram, but HTTP status 200", 0, ""},
		"redirect":    {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }}, "no answer of Telegram, but HTTP status 302", 0, ""},
		"no body":     {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) {}}, "no answer of Telegram, but HTTP status 200", 0, ""},
		"endless":     {[]http.HandlerFunc{endless}, "no answer of Telegram, but HTTP status 200", 0, ""},
		"hangs up":    {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, "EOF", 0, ""},
		"says it all": {[]http.HandlerFunc{refuse(500, strings.Repeat("x", 10000), "")}, "Telegram refuses it: 500 " + strings.Repeat("x", 500), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, double := telegram(t)
			double.Next(c.answers...)
			err := o.Tell(t.Context(), Test(time.Now()))
			r := &Refused{}
			errors.As(err, &r)
			if err == nil && c.says == "" {
				return
			}
			if err == nil || err.Error() != c.says || r.After != c.after || (r.Next == "") != (c.next == "") || !strings.Contains(r.Next, c.next) {
				t.Errorf("got %v, %+v", err, r)
			}
			if strings.Contains(fmt.Sprint(err, r.Next), "secret") {
				t.Errorf("%v: it shows the token", err)
			}
		})
	}
}

// endless answers more than anybody reads.
func endless(w http.ResponseWriter, _ *http.Request) {
	for range 4 * maxAnswer / 64 {
		if _, err := io.WriteString(w, strings.Repeat(" ", 64)); err != nil {
			return
		}
	}
}

// An answer that drips is given up, and neither an address that cannot be reached nor one
// that is none shows the token.
func TestTelegramSilent(t *testing.T) {
	t.Parallel()
	o, double := telegram(t)
	double.Next(notifytest.Drip)
	if err := o.Tell(t.Context(), Test(time.Now())); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("it drips: %v", err)
	}
	for _, url := range []string{"http://127.0.0.1:1", "http://[::1", "http://127.0.0.1:1/\x7f"} {
		o.URL = url
		if err := o.Tell(t.Context(), Test(time.Now())); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	o.Token = func() (string, error) { return "", errors.New("none") }
	if err := o.Tell(t.Context(), Test(time.Now())); err == nil || err.Error() != "none" {
		t.Errorf("without a token: %v", err)
	}
}

// A dead agent is told by Telegram. While that is down for a day, nothing is lost, and it
// is not asked more often than every ten minutes; afterwards there is one message.
func TestTelegramDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, double := telegram(t)
	w.n.Outlet = o
	w.once(0)
	f := core.Found{Key: "x", Severity: 2, Code: string(explain.AgentLeftAlone), Args: explain.New(explain.AgentLeftAlone, "agent", "devdas", "n", 3, "ended", w.now(), "how", "exit status 1", "next", w.now()).Args}
	w.do(core.Command{By: core.Component("x"), Do: core.Watch{Found: []core.Seen{{Found: f, Since: w.now()}}}})
	w.once(0)
	if all := double.Texts(); len(all) != 1 || !strings.Contains(all[0], "devdas") {
		t.Fatalf("a dead agent: told %q", all)
	}
	before := double.Calls()
	for range 200 {
		double.Next(notifytest.HTML(502))
	}
	for minute := range 24 * 60 {
		if minute%60 == 0 {
			w.reported(pipeline.TaskID(minute/60+1), core.Report{Status: pipeline.AgentDone})
		}
		w.pass(time.Minute)
		_ = w.n.Once(t.Context()) // it fails
	}
	if n := double.Calls() - before; n > 24*6+10 {
		t.Errorf("it was asked %d times in a day", n)
	}
	double.Reset()
	w.pass(11 * time.Minute)
	if err := w.n.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := double.Texts()
	if len(all) != 2 {
		t.Fatalf("told %d messages", len(all))
	}
	for id := range pipeline.TaskID(24) {
		if !strings.Contains(all[1], (id + 1).String()) {
			t.Errorf("%v was not told", id+1)
		}
	}
}

// A webhook hears of the trace to which all items of a message belong.
func TestWebhookTrace(t *testing.T) {
	t.Parallel()
	headers := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header.Get("traceparent") }))
	defer server.Close()
	o := &Webhook{URL: server.URL, Secret: func() (string, error) { return "s3cret", nil }, Now: time.Now}
	const one, two, other pipeline.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01", "00-22222222222222222222222222222222-3333333333333333-00"
	for _, c := range []struct {
		items []pipeline.Trace
		want  pipeline.Trace
	}{{[]pipeline.Trace{one, two}, two}, {[]pipeline.Trace{one, other}, ""}, {[]pipeline.Trace{one, ""}, ""}, {[]pipeline.Trace{"", one}, ""}, {[]pipeline.Trace{""}, ""}} {
		var m Message
		for _, trace := range c.items {
			m.Items = append(m.Items, Item{Trace: trace})
		}
		if err := o.Tell(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got := <-headers; got != string(c.want) {
			t.Errorf("items of %q: the header is %q, want %q", c.items, got, c.want)
		}
	}
}

// A webhook gets what a command gets, signed. Only an answer of success counts.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		at, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("OTM-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte("s3cret"))
		fmt.Fprintf(mac, "%s.%s", at, body)
		if at != "1764417600" || signature != fmt.Sprintf("%x", mac.Sum(nil)) || !strings.HasPrefix(string(body), `{"text":"a test: `) {
			t.Errorf("got %s, signed %q", body, r.Header.Get("OTM-Signature"))
		}
		answer(w, r)
	}))
	defer server.Close()
	o := &Webhook{URL: server.URL, Secret: func() (string, error) { return "s3cret", nil }, Now: func() time.Time { return time.Date(2025, 11, 29, 12, 0, 0, 0, time.UTC) }}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
		}
	}
	for _, c := range []struct {
		answer http.HandlerFunc
		says   string
		after  time.Duration
		person bool
	}{
		{status(200), "<nil>", 0, false},
		{status(204), "<nil>", 0, false},
		{notifytest.Drip, "<nil>", 0, false},
		{notifytest.HTML(200), "the webhook answers with an HTML page", 0, false},
		{status(302, "Location", server.URL), "the webhook answers with HTTP status 302", 0, true},
		{status(401), "the webhook answers with HTTP status 401", 0, true},
		{status(410), "the webhook answers with HTTP status 410", 0, true},
		{status(429, "Retry-After", "7"), "the webhook answers with HTTP status 429", 7 * time.Second, false},
		{status(503, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), "the webhook answers with HTTP status 503", 0, false},
		{status(500), "the webhook answers with HTTP status 500", 0, false},
	} {
		answer = c.answer
		err := o.Tell(t.Context(), Test(time.Now()))
		r := &Refused{}
		errors.As(err, &r)
		if fmt.Sprint(err) != c.says || r.After != c.after || (r.Next != "") != c.person {
			t.Errorf("got %v, %+v, want %+v", err, r, c)
		}
	}
}
