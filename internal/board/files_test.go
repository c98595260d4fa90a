package board_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// fetch gets a URL with the token, if any, and returns status and body.
func fetch(t *testing.T, address, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
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
	return resp.StatusCode, string(raw)
}

func get(t *testing.T, address string) string {
	t.Helper()
	status, body := fetch(t, address, "")
	if status != http.StatusOK {
		t.Fatalf("get %s: status %d", address, status)
	}
	return body
}

func TestFilesInfo(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	now.advance(time.Hour)
	b.Create(t, "")
	answer := b.Must(t, "files.info", object{"file": b.ListID, "count": 0, "page": 0})
	file := answer["file"].(object)
	wants := object{
		"id": b.ListID, "mode": "list", "mimetype": "application/vnd.slack-list", "pretty_type": "List",
		"user": board.BotUser, "last_editor": board.BotUser, "access": "owner", "editable": true,
		"created": float64(now.Now().Add(-time.Hour).Unix()), "updated": float64(now.Now().Unix()),
		"edit_timestamp": float64(now.Now().Add(-time.Hour).Unix()), "teams_shared_with": array{},
	}
	for name, want := range wants {
		wantEqual(t, name, file[name], want)
	}
	view := dig(t, file, "list_metadata", "views", 0).(object)
	if _, ok := view["position"].(string); !ok {
		t.Errorf("a view's position is no string: %v", view)
	}
	if _, ok := dig(t, view, "columns", 0, "position").(string); !ok {
		t.Errorf("a view column's position is no string: %v", view)
	}
	wantEqual(t, "integrations", dig(t, file, "list_metadata", "integrations"), array{})
	wantCode(t, b.Call(t, "files.info", object{"file": "F0NOTHING"}), "file_not_found")
	wantCode(t, b.Call(t, "files.info", nil), "invalid_arguments")
}

func TestFilesList(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	now.advance(time.Second)
	second, _ := newList(t, b, `[`+primary+`]`, nil)
	for _, c := range []struct {
		args object
		want array
	}{
		{object{"types": "list"}, array{second, b.ListID}},
		{nil, array{second, b.ListID}},
		{object{"types": "images,list"}, array{second, b.ListID}},
		{object{"types": "images"}, array{}},
		{object{"count": 1}, array{second}},
		{object{"count": 1, "page": 2}, array{b.ListID}},
		{object{"count": 1, "page": 3}, array{}},
		{object{"count": 0}, array{second, b.ListID}},
	} {
		answer := b.Must(t, "files.list", c.args)
		ids := array{}
		for _, f := range answer["files"].(array) {
			ids = append(ids, f.(object)["id"])
			wantEqual(t, "filetype", f.(object)["filetype"], "list")
		}
		wantEqual(t, "files", ids, c.want)
	}
	// Lists of one moment stand in one order, or pages would show some twice.
	for range 5 {
		newList(t, b, `[`+primary+`]`, nil)
	}
	shown := map[any]bool{}
	for page := range 7 {
		shown[dig(t, b.Must(t, "files.list", object{"count": 1, "page": page + 1}), "files", 0, "id")] = true
	}
	wantEqual(t, "lists on seven pages", len(shown), 7)
	paging := b.Must(t, "files.list", object{"count": 1})["paging"]
	wantEqual(t, "paging", paging, decode(t, `{"count":1,"total":7,"page":1,"pages":7}`))
}

func TestDownload(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	b.Create(t, "", board.TextCell(title, `one, "two"`), board.SelectCell(status, "in_progress"))
	old := b.Create(t, "", board.TextCell(title, "old"))
	if err := b.Server.ArchiveRow("", b.ListID, old); err != nil {
		t.Fatal(err)
	}
	start := func(args object) object {
		args["list_id"] = b.ListID
		args["job_id"] = b.Must(t, "slackLists.download.start", args)["job_id"]
		return args
	}
	finish := func(args object) string {
		first := b.Must(t, "slackLists.download.get", args)
		if first["status"] == "COMPLETED" || first["download_url"] != nil {
			t.Errorf("the first answer is final: %v", first)
		}
		second := b.Must(t, "slackLists.download.get", args)
		wantEqual(t, "status", second["status"], "COMPLETED")
		return second["download_url"].(string)
	}
	plain := start(object{})
	if id := plain["job_id"].(string); !strings.HasPrefix(id, "Le") {
		t.Errorf("job id %q", id)
	}
	address := finish(plain)
	code, csv := fetch(t, address, b.Token)
	if code != 200 || !strings.HasPrefix(csv, "Title,Task ID,") || !strings.Contains(csv, `"one, ""two""",`) ||
		!strings.Contains(csv, ",In Progress,") || strings.Contains(csv, "old") {
		t.Errorf("csv: %d %q", code, csv)
	}
	for _, token := range []string{"", "xoxb-wrong"} {
		if code, _ := fetch(t, address, token); code != http.StatusForbidden {
			t.Errorf("with token %q: status %d, want 403", token, code)
		}
	}
	rows := start(object{"format": "json", "include_archived": true, "include_threads": true})
	code, text := fetch(t, finish(rows), b.Token)
	if items, _ := decode(t, text).(array); code != 200 || len(items) != 2 {
		t.Errorf("json: %d %s", code, text)
	}

	for name, c := range map[string]struct {
		args object
		code string
	}{
		"other format":  {object{"list_id": b.ListID, "job_id": rows["job_id"], "format": "csv", "include_threads": true}, "job_not_found"},
		"other threads": {object{"list_id": b.ListID, "job_id": rows["job_id"], "format": "json"}, "job_not_found"},
		"unknown job":   {object{"list_id": b.ListID, "job_id": "Le1"}, "job_not_found"},
		"no job":        {object{"list_id": b.ListID}, "invalid_arguments"},
		"unknown list":  {object{"list_id": "F0NOTHING", "job_id": rows["job_id"]}, "list_not_found"},
		"bad format":    {object{"list_id": b.ListID, "job_id": rows["job_id"], "format": "xls"}, "invalid_arguments"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, b.Call(t, "slackLists.download.get", c.args), c.code) })
	}
}

// An export is there for whoever may read the list, under the addresses that are
// given out. Without a job, archived rows are left out.
func TestExportAddresses(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withIdentities(
		board.Identity{Token: "xoxp-stranger", UserID: "U0STRANGER"},
		board.Identity{Token: "xoxp-files", UserID: board.HumanUser, Scopes: []string{board.ScopeFilesRead}},
	))
	title := b.Column(t, "Title", "text")
	b.Create(t, "", board.TextCell(title, "here"))
	if err := b.Server.ArchiveRow("", b.ListID, b.Create(t, "", board.TextCell(title, "archived"))); err != nil {
		t.Fatal(err)
	}
	team := b.Must(t, "auth.test", nil)["team_id"].(string)
	for name, c := range map[string]struct {
		path, token string
		status      int
	}{
		"csv":             {team + "-" + b.ListID + "/csv/list", b.Token, http.StatusOK},
		"unknown job":     {team + "-" + b.ListID + "/json/list?job=Le1", b.Token, http.StatusOK},
		"unknown format":  {team + "-" + b.ListID + "/xls/list", b.Token, http.StatusNotFound},
		"unknown list":    {team + "-F0NOTHING/csv/list", b.Token, http.StatusNotFound},
		"no list":         {team + "/csv/list", b.Token, http.StatusNotFound},
		"a stranger":      {team + "-" + b.ListID + "/csv/list", "xoxp-stranger", http.StatusNotFound},
		"without a scope": {team + "-" + b.ListID + "/csv/list", "xoxp-files", http.StatusForbidden},
	} {
		status, body := fetch(t, b.Page()+"files-pri/"+c.path, c.token)
		if status != c.status || strings.Contains(body, "here") != (status == http.StatusOK) || strings.Contains(body, "archived") {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.status, body)
		}
	}
}

// Each kind of cell stands in an export as people read it.
func TestExportOfCells(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, col := newList(t, b, `[`+primary+`,{"key":"done","name":"Done","type":"checkbox"},{"key":"n","name":"N","type":"number"},
		{"key":"link","name":"Link","type":"link"},
		{"key":"s","name":"S","type":"select","options":{"choices":[{"value":"a","label":"Ay"},{"value":"b","label":"Bee"}],"format":"multi_select"}}]`, nil)
	b.Must(t, "slackLists.items.create", object{"list_id": list, "initial_fields": array{
		cell(t, col["done"], `"checkbox":true`), cell(t, col["n"], `"number":[2.5]`),
		cell(t, col["link"], `"link":[{"original_url":"https://a.example"}]`), cell(t, col["s"], `"select":["a","b"]`),
	}})
	if err := b.Server.RemoveOption("", list, col["s"], "b"); err != nil {
		t.Fatal(err)
	}
	team := b.Must(t, "auth.test", nil)["team_id"].(string)
	_, body := fetch(t, b.Page()+"files-pri/"+team+"-"+list+"/csv/list", b.Token)
	want := "Title,Done,N,Link,S\n" +
		`,true,2.5,"{""originalUrl"":""https://a.example"",""displayAsUrl"":false,""displayName"":"""",""attachment"":null}","Ay, b"` + "\n"
	wantEqual(t, "export", body, want)
}

func TestChat(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	post := func(channel, text, thread string) string {
		answer := b.Must(t, "chat.postMessage", object{"channel": channel, "text": text, "thread_ts": thread})
		wantEqual(t, "channel", answer["channel"], channel)
		wantEqual(t, "text", dig(t, answer, "message", "text"), text)
		wantEqual(t, "user", dig(t, answer, "message", "user"), board.BotUser)
		return answer["ts"].(string)
	}
	parent := post("C0TEAM", "parent", "")
	other := post("C0TEAM", "other", "")
	if parent == other {
		t.Error("two messages have the same ts")
	}
	post("C0ELSE", "elsewhere", parent)
	post("C0TEAM", "one", parent)
	post("C0TEAM", "two", parent)
	texts := func(answer object) array {
		var got array
		for _, m := range answer["messages"].(array) {
			got = append(got, m.(object)["text"])
		}
		return got
	}
	whole := b.Must(t, "conversations.replies", object{"channel": "C0TEAM", "ts": parent})
	wantEqual(t, "thread", texts(whole), array{"parent", "one", "two"})
	wantEqual(t, "reply_count", dig(t, whole, "messages", 0, "reply_count"), 2.0)
	wantEqual(t, "thread_ts", dig(t, whole, "messages", 2, "thread_ts"), parent)
	page := b.Must(t, "conversations.replies", object{"channel": "C0TEAM", "ts": parent, "limit": 2})
	wantEqual(t, "first page", texts(page), array{"parent", "one"})
	wantEqual(t, "has_more", page["has_more"], true)
	rest := b.Must(t, "conversations.replies", object{
		"channel": "C0TEAM", "ts": parent, "limit": 2, "cursor": dig(t, page, "response_metadata", "next_cursor"),
	})
	wantEqual(t, "second page", texts(rest), array{"two"})
	wantEqual(t, "alone", texts(b.Must(t, "conversations.replies", object{"channel": "C0TEAM", "ts": other})), array{"other"})

	wantCode(t, b.Call(t, "conversations.replies", object{"channel": "C0TEAM", "ts": "1.2"}), "thread_not_found")
	wantCode(t, b.Call(t, "conversations.replies", object{"channel": "C0TEAM", "ts": parent, "cursor": "x"}), "invalid_cursor")
	blocks := decode(t, `[{"type":"divider"}]`)
	wantEqual(t, "blocks", dig(t, b.Must(t, "chat.postMessage", object{"channel": "C0TEAM", "blocks": blocks}), "message", "blocks"), blocks)
	wantCode(t, b.Call(t, "chat.postMessage", object{"channel": "C0TEAM", "blocks": object{}}), "invalid_arguments")
	wantCode(t, b.Call(t, "chat.postMessage", object{"channel": "C0TEAM"}), "no_text")
	wantCode(t, b.Call(t, "chat.postMessage", object{"text": "x"}), "invalid_arguments")
}

// The page that is given stands where people and permalinks look for it, and
// nowhere else.
func TestPage(t *testing.T) {
	t.Parallel()
	shown := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page of ", r.URL.Path) })
	b := boardtest.Start(t, func(o *board.Options) { o.Page = shown })
	link := dig(t, b.Must(t, "files.info", object{"file": b.ListID}), "file", "permalink").(string)
	for _, address := range []string{b.Page(), b.Page() + "page/app.js", link} {
		if got := get(t, address); !strings.HasPrefix(got, "page of /") {
			t.Errorf("%s: %q", address, got)
		}
	}
	for _, path := range []string{"nothing", "lists", "pages"} {
		if code, body := fetch(t, b.Page()+path, ""); code != http.StatusNotFound {
			t.Errorf("/%s: status %d, %q", path, code, body)
		}
	}
	if code, _ := fetch(t, boardtest.Start(t).Page(), ""); code != http.StatusNotFound {
		t.Errorf("without a page: status %d", code)
	}
}

// Who edits over the API without being OTM's client is a person to it.
func TestForeignProgram(t *testing.T) {
	t.Parallel()
	var edits atomic.Int64
	b := boardtest.Start(t, func(o *board.Options) { o.OwnAgent, o.OnPeopleEdit = "ours", func() { edits.Add(1) } })
	call := func(agent, method, form string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.URL+method, strings.NewReader("list_id="+b.ListID+form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.Token)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("User-Agent", agent)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	call("ours", "slackLists.items.create", "")
	call("curl", "slackLists.items.list", "")
	call("curl", "slackLists.items.create", "&initial_fields=broken")
	wantEqual(t, "edits", edits.Load(), int64(0))
	call("curl", "slackLists.items.create", "")
	wantEqual(t, "edits", edits.Load(), int64(1))
}
