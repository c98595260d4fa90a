package board_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"otm/internal/board/boardtest"
)

func TestPaging(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	made := make(map[string]bool)
	for i := range 23 {
		if i%5 == 0 {
			now.advance(time.Second) // several rows a second
		}
		made[b.Create(t, "")] = true
	}
	for _, limit := range []int{1, 4, 22, 23, 24, 1000} {
		items := listAll(t, b, b.ListID, limit)
		seen := make(map[string]bool)
		last := now.Now().Unix() + 1
		for _, item := range items {
			second := int64(item["date_created"].(float64))
			if second > last {
				t.Errorf("limit %d: a newer row follows an older one", limit)
			}
			last = second
			seen[item["id"].(string)] = true
		}
		if len(items) != len(made) || len(seen) != len(made) {
			t.Errorf("limit %d: %d rows, %d different, want %d", limit, len(items), len(seen), len(made))
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	var ids []string
	for range 3 {
		now.advance(time.Second)
		ids = append(ids, b.Create(t, ""))
	}
	first := b.Must(t, "slackLists.items.list", object{"list_id": b.ListID, "limit": 1})
	cursor := dig(t, first, "response_metadata", "next_cursor").(string)
	raw, err := base64.StdEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	var list, id, created int64
	if n, err := fmt.Sscanf(string(raw), "list_id:%d;id:%d;date_created:%d", &list, &id, &created); n != 3 || err != nil {
		t.Errorf("cursor %q", raw)
	}
	wantEqual(t, "date in the cursor", created, now.Now().Unix())

	// Keyset paging: what is deleted does not shift the walk, what is new is
	// before the cursor.
	now.advance(time.Second)
	b.Create(t, "")
	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{ids[2]}})
	rest := b.Must(t, "slackLists.items.list", object{"list_id": b.ListID, "cursor": cursor})
	wantEqual(t, "rows after the cursor", len(rest["items"].(array)), 2)
	wantEqual(t, "next", dig(t, rest, "items", 0, "id"), ids[1])
	wantEqual(t, "end", dig(t, rest, "response_metadata", "next_cursor"), "")

	other, _ := newList(t, b, `[`+primary+`]`, nil)
	for name, args := range map[string]object{
		"of another list": {"list_id": other, "cursor": cursor},
		"no base64":       {"list_id": b.ListID, "cursor": "%%%"},
		"cut":             {"list_id": b.ListID, "cursor": cursor[:len(cursor)/2]},
		"with more":       {"list_id": b.ListID, "cursor": base64.StdEncoding.EncodeToString(append(raw, ";x:1"...))},
		"empty":           {"list_id": b.ListID, "cursor": base64.StdEncoding.EncodeToString(nil) + "="},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, b.Call(t, "slackLists.items.list", args), "invalid_cursor") })
	}
}

func TestListDefaults(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for range 101 {
		b.Create(t, "")
	}
	answer := b.Must(t, "slackLists.items.list", object{"list_id": b.ListID})
	wantEqual(t, "rows a page", len(answer["items"].(array)), 100)
	if _, there := answer["list"]; there {
		t.Error("the list object came unasked")
	}
	answer = b.Must(t, "slackLists.items.list", object{"list_id": b.ListID, "include_list": true, "limit": 1})
	wantEqual(t, "title", dig(t, answer, "list", "title"), "OTM")
	wantEqual(t, "row count", dig(t, answer, "list", "list_limits", "row_count"), 101.0)
	b.Server.SetQuirks(boardtest.Quirks{IgnoreIncludeList: true})
	answer = b.Must(t, "slackLists.items.list", object{"list_id": b.ListID, "include_list": true, "limit": 1})
	if _, there := answer["list"]; there {
		t.Error("the list object came in spite of the quirk")
	}
}

func TestArchivedRows(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	kept, old := b.Create(t, ""), b.Create(t, "")
	b.Create(t, old)
	if err := b.Server.ArchiveRow("", b.ListID, old); err != nil {
		t.Fatal(err)
	}
	if rows := listAll(t, b, b.ListID, 10); len(rows) != 1 || rows[0]["id"] != kept {
		t.Errorf("listed: %v", rows)
	}
	wantEqual(t, "archived", info(t, b, b.ListID, old)["archived"], true)
	limits := dig(t, b.Must(t, "files.info", object{"file": b.ListID}), "file", "list_limits")
	wantEqual(t, "row_count", dig(t, limits, "row_count"), 1.0)
	if err := b.Server.UnarchiveRow("", b.ListID, old); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "after unarchiving", len(listAll(t, b, b.ListID, 10)), 3)
}

func TestRowLimit(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *boardtest.Options) { o.RowLimit = 3 })
	limits := func() string {
		l := dig(t, b.Must(t, "files.info", object{"file": b.ListID}), "file", "list_limits").(object)
		return fmt.Sprint(l["row_count"], " of ", l["row_count_limit"])
	}
	parent := b.Create(t, "")
	b.Create(t, parent)
	wantEqual(t, "limits", limits(), "2 of 3")
	last := b.Create(t, "")
	wantEqual(t, "limits", limits(), "3 of 3")
	for _, args := range []object{{"list_id": b.ListID}, {"list_id": b.ListID, "parent_item_id": parent}} {
		wantCode(t, b.Call(t, "slackLists.items.create", args), "over_row_maximum")
	}
	_, err := b.Server.AddRow("", b.ListID)
	wantEqual(t, "a person's row", codeOf(t, err), "over_row_maximum")

	// Archived rows make room, deleted ones too.
	if err := b.Server.ArchiveRow("", b.ListID, last); err != nil {
		t.Fatal(err)
	}
	b.Create(t, "")
	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{parent}})
	wantEqual(t, "limits", limits(), "1 of 3")
}

func TestNoRowLimit(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	b.Create(t, "")
	limits := dig(t, b.Must(t, "files.info", object{"file": b.ListID}), "file", "list_limits").(object)
	if limits["row_count_limit"].(float64) < 1000 {
		t.Errorf("limits %v", limits)
	}
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, reason := b.Column(t, "Title", "text"), b.Column(t, "Reason", "text")
	text := "\x1b[31mred\x00nul\u202eevil\u2066\U0001F600é <script>alert('x')</script> \"quo`te$(rm)\\ \u2028 \ufeff " + strings.Repeat("long ", 50)
	row := b.Create(t, "", boardtest.TextCell(title, text), boardtest.TextCell(reason, "</td><b>x"))
	f := fieldOf(info(t, b, b.ListID, row), title)
	wantEqual(t, "rich text", dig(t, f, "rich_text", 0, "elements", 0, "elements", 0, "text"), text)
	wantEqual(t, "listing", textOf(listAll(t, b, b.ListID, 10)[0], title), text)
}

// Invalid UTF-8 is replaced once, at the door.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	blocks := `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a` + "\xff" + `b"}]}]}]`
	fields := `[{"column_id":"` + title + `","rich_text":` + blocks + `}]`
	b.Must(t, "slackLists.items.create", object{"list_id": b.ListID, "initial_fields": fields})
	for _, item := range listAll(t, b, b.ListID, 10) {
		wantEqual(t, "text", textOf(item, title), "a\ufffdb")
	}
}
