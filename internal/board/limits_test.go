package board_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// Slack's tiers (facts 1.1), as calls that pass at once.
func TestTiers(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withClock(newClock()), func(o *board.Options) { o.Limits = &board.Limits{} })
	for method, want := range map[string]int{
		"slackLists.create": 20, "slackLists.update": 20, "slackLists.access.set": 50, "slackLists.access.delete": 50,
		"slackLists.download.start": 20, "slackLists.download.get": 100,
		"slackLists.items.create": 50, "slackLists.items.update": 50, "slackLists.items.list": 20, "slackLists.items.info": 20,
		"slackLists.items.delete": 20, "slackLists.items.deleteMultiple": 20,
		"files.info": 100, "files.list": 50, "conversations.replies": 50,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			passed := 0
			for ; passed < 200; passed++ { // refused calls count too
				if b.Call(t, method, nil)["error"] == "ratelimited" {
					break
				}
			}
			wantEqual(t, "calls that passed", passed, want)
		})
	}
}

func TestRateLimitAnswer(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), withIdentities(board.Identity{Token: "xoxp-human", UserID: board.HumanUser}),
		func(o *board.Options) {
			o.Limits = &board.Limits{PerMinute: map[string]int{"slackLists.items.list": 4}}
		})
	ask := func(token string) *http.Response {
		body := strings.NewReader("list_id=" + b.ListID + "&token=" + token)
		resp, err := http.Post(b.URL+"slackLists.items.list", "application/x-www-form-urlencoded", body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	for range 4 {
		wantEqual(t, "status", ask(b.Token).StatusCode, 200)
	}
	resp := ask(b.Token)
	wantEqual(t, "status", resp.StatusCode, 429)
	wantEqual(t, "Retry-After", resp.Header.Get("Retry-After"), "15")
	wantEqual(t, "another token", ask("xoxp-human").StatusCode, 200)
	wantCode(t, b.Call(t, "slackLists.items.info", object{"list_id": b.ListID, "id": "Rec1"}), "record_not_found") // another method
	now.advance(14500 * time.Millisecond)
	resp = ask(b.Token)
	wantEqual(t, "just before", resp.StatusCode, 429)
	wantEqual(t, "Retry-After is whole seconds, at least one", resp.Header.Get("Retry-After"), "1")
	now.advance(500 * time.Millisecond)
	wantEqual(t, "after", ask(b.Token).StatusCode, 200)
	wantEqual(t, "once", ask(b.Token).StatusCode, 429)
	now.advance(time.Hour)
	for range 4 {
		wantEqual(t, "a full bucket holds a minute's calls", ask(b.Token).StatusCode, 200)
	}
	wantEqual(t, "and no more", ask(b.Token).StatusCode, 429)
	now.advance(-2 * time.Hour)
	resp = ask(b.Token)
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || seconds > 60 {
		t.Errorf("after the clock went back: Retry-After %q", resp.Header.Get("Retry-After"))
	}
}

func TestShortMinute(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), func(o *board.Options) { o.Limits = &board.Limits{Minute: 2 * time.Second} })
	drain := func() int {
		for n := 0; ; n++ {
			if b.Call(t, "slackLists.items.list", object{"list_id": b.ListID})["error"] == "ratelimited" {
				return n
			}
		}
	}
	wantEqual(t, "at first", drain(), 20)
	now.advance(100 * time.Millisecond)
	wantEqual(t, "after a twentieth of the minute", drain(), 1)
	now.advance(2 * time.Second)
	wantEqual(t, "after a minute", drain(), 20)
}

// chat.postMessage takes about one message a second a channel.
func TestPostMessageLimit(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), func(o *board.Options) { o.Limits = &board.Limits{} })
	post := func(channel string) object {
		return b.Call(t, "chat.postMessage", object{"channel": channel, "text": "x"})
	}
	wantCode(t, post("C0A"), "")
	wantCode(t, post("C0A"), "ratelimited")
	wantCode(t, post("C0B"), "")
	now.advance(time.Second)
	wantCode(t, post("C0A"), "")
}

func TestNoLimits(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withClock(newClock()))
	for range 150 {
		b.Must(t, "slackLists.items.list", object{"list_id": b.ListID})
	}
}

// Export jobs are kept up to a number; the oldest go.
func TestOldestJobsGo(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	args := object{"list_id": b.ListID}
	start := func() string { return b.Must(t, "slackLists.download.start", args)["job_id"].(string) }
	ask := func(job string) object {
		return b.Call(t, "slackLists.download.get", object{"list_id": b.ListID, "job_id": job})
	}
	oldest, next := start(), start()
	for range board.MaxJobs - 1 {
		start()
	}
	wantCode(t, ask(oldest), "job_not_found")
	wantCode(t, ask(next), "")
}

// A board takes so many lists, and another where one has gone.
func TestMostLists(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	if err := board.AddLists(b.Server, board.MaxLists-2); err != nil {
		t.Fatal(err)
	}
	create := func() object { return b.Call(t, "slackLists.create", object{"name": "X"}) }
	last := create()
	wantCode(t, last, "")
	wantCode(t, create(), "over_list_file_maximum")
	wantCode(t, b.Call(t, "files.delete", object{"file": last["list_id"]}), "")
	wantCode(t, create(), "")
	wantCode(t, create(), "over_list_file_maximum")
}
