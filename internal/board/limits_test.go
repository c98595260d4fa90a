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
	b := boardtest.Start(t, withClock(newClock()), func(o *boardtest.Options) { o.Limits = &board.Limits{} })
	for method, want := range map[string]int{
		"slackLists.items.create": 50, "slackLists.items.update": 50, "slackLists.items.list": 20, "slackLists.items.info": 20,
		"slackLists.items.deleteMultiple": 20,
		"files.info":                      100, "auth.test": 100,
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
		func(o *boardtest.Options) { o.Limits = &board.Limits{} })
	ask := func(token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"slackLists.items.list", strings.NewReader("list_id="+b.ListID))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	for range 20 {
		wantEqual(t, "status", ask(b.Token).StatusCode, 200)
	}
	resp := ask(b.Token)
	wantEqual(t, "status", resp.StatusCode, 429)
	wantEqual(t, "Retry-After", resp.Header.Get("Retry-After"), "3")
	wantEqual(t, "another token", ask("xoxp-human").StatusCode, 200)
	wantCode(t, b.Call(t, "slackLists.items.info", object{"list_id": b.ListID, "id": "Rec1"}), "record_not_found") // another method
	now.advance(2500 * time.Millisecond)
	resp = ask(b.Token)
	wantEqual(t, "just before", resp.StatusCode, 429)
	wantEqual(t, "Retry-After is whole seconds, at least one", resp.Header.Get("Retry-After"), "1")
	now.advance(500 * time.Millisecond)
	wantEqual(t, "after", ask(b.Token).StatusCode, 200)
	wantEqual(t, "once", ask(b.Token).StatusCode, 429)
	now.advance(time.Hour)
	for range 20 {
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
	b := boardtest.Start(t, withClock(now), func(o *boardtest.Options) { o.Limits = &board.Limits{Minute: 2 * time.Second} })
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

func TestNoLimits(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withClock(newClock()))
	for range 150 {
		b.Must(t, "slackLists.items.list", object{"list_id": b.ListID})
	}
}
