package slacklist

import (
	"errors"
	"net/http"
	"testing"

	"github.com/slack-go/slack"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// slackGo is slack-go with its own client and types; only the token travels in
// the header, as ours does.
func slackGo(b *boardtest.Board, token string) *slack.Client {
	return slack.New(token, slack.OptionAPIURL(b.URL), slack.OptionHTTPClient(bearing(token)))
}

type bearing string

func (token bearing) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultClient.Do(r)
}

// TestSlackGoSpeaksToTheBoard makes the calls of our client with slack-go's own
// types: the board's answers decode as Slack's do. (The package's client
// decodes rows by itself.)
func TestSlackGoSpeaksToTheBoard(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	api := slackGo(b, b.Token)
	ctx := t.Context()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	self, err := api.AuthTestContext(ctx)
	ok("auth.test", err)
	if self.UserID == "" || self.Team == "" {
		t.Errorf("auth.test: %+v", self)
	}
	primary := true
	made, err := api.CreateListContext(ctx, "Conformance", slack.CreateListOptionTodoMode(true), slack.CreateListOptionSchema([]slack.ListColumn{
		{Key: "title", Name: "Title", Type: slack.ListColumnText, IsPrimaryColumn: &primary},
		{Key: "status", Name: "Status", Type: slack.ListColumnSelect, Options: &slack.ListColumnOptions{
			Format: slack.ListColumnFormatSingleSelect, Choices: []slack.ListColumnChoice{{Value: "new", Label: "New", Color: "blue"}, {Value: "done", Label: "Done", Color: "green"}}}},
		{Key: "n", Name: "Count", Type: slack.ListColumnNumber},
	}))
	ok("slackLists.create", err)
	file, _, _, err := api.GetFileInfoContext(ctx, made.ListID, 0, 0)
	ok("files.info", err)
	if file.ID != made.ListID || file.Title != "Conformance" {
		t.Errorf("files.info: %+v", file)
	}
	columns := map[string]string{}
	for _, c := range file.ListMetadata.Schema {
		columns[c.Key] = c.ID
	}
	if made.ListID == "" || columns["title"] == "" || columns["status"] == "" || columns["todo_completed"] == "" {
		t.Fatalf("slackLists.create: %+v", made)
	}
	ok("slackLists.access.set", api.SetListAccessContext(ctx, made.ListID, slack.ListAccessLevel("write"), slack.SetListAccessOptionUserIDs([]string{"U0ALICE"})))

	text := func(s string) []slack.RichTextBlock {
		return []slack.RichTextBlock{*slack.NewRichTextBlock("", slack.NewRichTextSection(slack.NewRichTextSectionTextElement(s, nil)))}
	}
	var rows []string
	for range 3 {
		item, err := api.CreateListItemContext(ctx, made.ListID, slack.CreateListItemOptionInitialFields([]slack.ListItemField{
			{ColumnID: columns["title"], RichText: text("A row")}, {ColumnID: columns["status"], Select: []string{"new"}}, {ColumnID: columns["n"], Number: []float64{3}},
		}))
		ok("slackLists.items.create", err)
		rows = append(rows, item.Item.ID)
	}
	_, err = api.CreateListItemContext(ctx, made.ListID, slack.CreateListItemOptionParentItemID(rows[0]),
		slack.CreateListItemOptionInitialFields([]slack.ListItemField{{ColumnID: columns["title"], RichText: text("A step")}}))
	ok("slackLists.items.create of a step", err)
	ticked := true
	ok("slackLists.items.update", api.UpdateListItemsContext(ctx, made.ListID, []slack.ListItemCell{
		{RowID: rows[0], ListItemField: slack.ListItemField{ColumnID: columns["status"], Select: []string{"done"}}},
		{RowID: rows[0], ListItemField: slack.ListItemField{ColumnID: columns["todo_completed"], Checkbox: &ticked}},
	}))
	info, err := api.GetListItemInfoContext(ctx, made.ListID, rows[0])
	ok("slackLists.items.info", err)
	if info.Record.ID != rows[0] {
		t.Errorf("slackLists.items.info: %+v", info)
	}
	seen := map[string]bool{}
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		page, err := api.GetListItemsContext(ctx, made.ListID, slack.GetListItemsOptionLimit(2), slack.GetListItemsOptionCursor(cursor), slack.GetListItemsOptionIncludeList(true))
		ok("slackLists.items.list", err)
		if page.List == nil || len(page.Items) > 2 || pages > 5 {
			t.Fatalf("page %d: %+v", pages, page)
		}
		for _, item := range page.Items {
			seen[item.ID] = true
		}
		cursor = page.ResponseMetadata.Cursor
	}
	if len(seen) != 4 {
		t.Errorf("%d rows in all pages, want 4", len(seen))
	}
	ok("slackLists.items.deleteMultiple", api.DeleteListItemsContext(ctx, made.ListID, rows[1:]))
	if _, err := api.GetListItemInfoContext(ctx, made.ListID, rows[1]); err == nil || err.Error() != "record_not_found" {
		t.Errorf("info of a deleted row: %v", err)
	}
}

// TestSlackGoUnderstandsRefusals has slack-go meet the board's refusals: it reads
// them as it reads Slack's.
func TestSlackGoUnderstandsRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *boardtest.Options) { o.Limits, o.RowLimit = &board.Limits{}, 1 })
	api := slackGo(b, b.Token)
	ctx := t.Context()
	title := b.Column(t, "Title", "text")
	number := slack.ListItemField{ColumnID: title, Number: []float64{3}}
	row := b.Create(t, "", boardtest.TextCell(title, "the only one"))
	for want, call := range map[string]func() error{
		"invalid_auth": func() error {
			_, err := slackGo(b, "xoxb-wrong").AuthTestContext(ctx)
			return err
		},
		"list_not_found":   func() error { _, err := api.GetListItemsContext(ctx, "F0NOTHING0"); return err },
		"file_not_found":   func() error { _, _, _, err := api.GetFileInfoContext(ctx, "F0NOTHING0", 0, 0); return err },
		"record_not_found": func() error { _, err := api.GetListItemInfoContext(ctx, b.ListID, "Rec0NOTHING"); return err },
		"over_row_maximum": func() error { _, err := api.CreateListItemContext(ctx, b.ListID); return err },
		"invalid_input_type": func() error {
			return api.UpdateListItemsContext(ctx, b.ListID, []slack.ListItemCell{{RowID: row, ListItemField: number}})
		},
	} {
		if err := call(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for range 100 {
		_, err := api.GetListItemsContext(ctx, b.ListID)
		if limited := (*slack.RateLimitedError)(nil); errors.As(err, &limited) {
			if limited.RetryAfter <= 0 {
				t.Errorf("retry after %v", limited.RetryAfter)
			}
			return
		}
	}
	t.Error("a hundred walks in a row are not limited")
}
