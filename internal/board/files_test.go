package board_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
	b := boardtest.Start(t)
	b.Create(t, "")
	answer := b.Must(t, "files.info", object{"file": b.ListID, "count": 0, "page": 0})
	wantEqual(t, "id", dig(t, answer, "file", "id"), b.ListID)
	wantEqual(t, "rows", dig(t, answer, "file", "list_limits", "row_count"), 1.0)
	wantCode(t, b.Call(t, "files.info", object{"file": "F0NOTHING"}), "file_not_found")
	wantCode(t, b.Call(t, "files.info", nil), "invalid_arguments")
}

// The page is served where people and permalinks look for it, and nowhere else.
func TestPage(t *testing.T) {
	t.Parallel()
	shown := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page of ", r.URL.Path) })
	b := boardtest.Start(t, func(o *boardtest.Options) { o.Page = shown })
	for _, address := range []string{b.Page(), b.Page() + "page/app.js", b.Page() + "lists/T0OTM/" + b.ListID} {
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

// An edit over the API by another program than OTM's client counts as a person's.
func TestForeignProgram(t *testing.T) {
	t.Parallel()
	var edits atomic.Int64
	b := boardtest.Start(t, func(o *boardtest.Options) { o.OwnAgent, o.OnPeopleEdit = "ours", func() { edits.Add(1) } })
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

func TestDefaultList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	file := b.Must(t, "files.info", object{"file": b.ListID})["file"].(object)
	wantEqual(t, "title", file["title"], "OTM")
	wantEqual(t, "filetype", file["filetype"], "list")
	var got []string
	for _, c := range dig(t, file, "list_metadata", "schema").(array) {
		c := c.(object)
		got = append(got, fmt.Sprint(c["name"], "|", c["key"], "|", c["type"], "|", c["is_primary_column"]))
	}
	wantEqual(t, "columns", got, []string{
		"Title|title|text|true", "Task ID|task_id|text|false", "Type|type|select|false", "Assignee|assignee|select|false",
		"Project 2|project_2|text|false", "Priority|priority|select|false", "Status|status|select|false",
		"Subtasks remaining|subtasks_remaining|number|false", "Completion|completion|number|false",
		"Assigned at|assigned_at|text|false", "Completed at|completed_at|text|false", "Reason|reason|text|false", "Result|result|text|false",
		"Completed|todo_completed|todo_completed|false", "Assignee|todo_assignee|todo_assignee|false", "Due date|todo_due_date|todo_due_date|false",
	})
	var statuses []string
	for _, c := range dig(t, file, "list_metadata", "schema", 6, "options", "choices").(array) {
		statuses = append(statuses, fmt.Sprint(c.(object)["value"], "=", c.(object)["label"]))
	}
	wantEqual(t, "statuses", statuses, []string{
		"new=New", "assigned=Assigned", "pending=Pending", "in_progress=In Progress", "blocked=Blocked", "agent_done=Agent Done",
		"done=Done", "rejected=Rejected", "failed=Failed", "cancelled=Cancelled", "dormant=Dormant", "archived=Archived",
	})
	wantEqual(t, "assignees", dig(t, file, "list_metadata", "schema", 3, "options", "choices"), array{})
}
