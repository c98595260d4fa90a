package slacklist

import (
	"errors"
	"slices"
	"testing"

	"github.com/slack-go/slack"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// TestSlackGoSpeaksToTheBoard makes every call that slack-go knows of lists,
// with its own types, against the embedded board: what it decodes is what Slack
// would have answered. (The package's client decodes rows by itself.)
func TestSlackGoSpeaksToTheBoard(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	api := slack.New(b.Token, slack.OptionAPIURL(b.URL))
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
	columns := map[string]string{}
	for _, c := range made.ListMetadata.Schema {
		columns[c.Key] = c.ID
	}
	if made.ListID == "" || columns["title"] == "" || columns["status"] == "" || columns["todo_completed"] == "" {
		t.Fatalf("slackLists.create: %+v", made)
	}
	ok("slackLists.update", api.UpdateListContext(ctx, made.ListID, slack.UpdateListOptionName("Renamed")))
	ok("slackLists.access.set", api.SetListAccessContext(ctx, made.ListID, slack.ListAccessLevel("write"), slack.SetListAccessOptionUserIDs([]string{"U0ALICE"})))
	ok("slackLists.access.delete", api.DeleteListAccessContext(ctx, made.ListID, slack.DeleteListAccessOptionUserIDs([]string{"U0ALICE"})))

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
	step, err := api.CreateListItemContext(ctx, made.ListID, slack.CreateListItemOptionParentItemID(rows[0]),
		slack.CreateListItemOptionInitialFields([]slack.ListItemField{{ColumnID: columns["title"], RichText: text("A step")}}))
	ok("slackLists.items.create of a step", err)
	ticked := true
	ok("slackLists.items.update", api.UpdateListItemsContext(ctx, made.ListID, []slack.ListItemCell{
		{RowID: rows[0], ListItemField: slack.ListItemField{ColumnID: columns["status"], Select: []string{"done"}}},
		{RowID: rows[0], ListItemField: slack.ListItemField{ColumnID: columns["todo_completed"], Checkbox: &ticked}},
	}))
	info, err := api.GetListItemInfoContext(ctx, made.ListID, rows[0])
	ok("slackLists.items.info", err)
	if info.Record.ID != rows[0] || len(info.Subtasks) != 1 || info.Subtasks[0].ID != step.Item.ID || info.List.Title != "Renamed" {
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
	ok("slackLists.items.delete", api.DeleteListItemContext(ctx, made.ListID, rows[1]))
	ok("slackLists.items.deleteMultiple", api.DeleteListItemsContext(ctx, made.ListID, []string{rows[2]}))
	if _, err := api.GetListItemInfoContext(ctx, made.ListID, rows[1]); err == nil || err.Error() != "record_deleted" {
		t.Errorf("info of a deleted row: %v", err)
	}
	job, err := api.StartListDownloadContext(ctx, made.ListID)
	ok("slackLists.download.start", err)
	if _, err := api.GetListDownloadContext(ctx, made.ListID, job.JobID); err != nil {
		t.Errorf("slackLists.download.get: %v", err)
	}
	file, _, _, err := api.GetFileInfoContext(ctx, made.ListID, 0, 0)
	ok("files.info", err)
	if file.ID != made.ListID || file.Title != "Renamed" {
		t.Errorf("files.info: %+v", file)
	}
	files, _, err := api.GetFilesContext(ctx, slack.GetFilesParameters{Types: "lists", Count: 100, Page: 1})
	ok("files.list", err)
	if !slices.ContainsFunc(files, func(f slack.File) bool { return f.ID == made.ListID }) {
		t.Errorf("files.list lacks the list: %+v", files)
	}
	channel, ts, err := api.PostMessageContext(ctx, "C0TEAM", slack.MsgOptionText("hello", false))
	ok("chat.postMessage", err)
	replies, _, _, err := api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{ChannelID: channel, Timestamp: ts})
	ok("conversations.replies", err)
	if len(replies) != 1 || replies[0].Text != "hello" {
		t.Errorf("conversations.replies: %+v", replies)
	}
}

// TestSlackGoUnderstandsRefusals has slack-go meet the board's refusals: it reads
// them as it reads Slack's.
func TestSlackGoUnderstandsRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *board.Options) { o.Limits, o.RowLimit = &board.Limits{}, 1 })
	api := slack.New(b.Token, slack.OptionAPIURL(b.URL))
	ctx := t.Context()
	title := b.Column(t, "Title", "text")
	number := slack.ListItemField{ColumnID: title, Number: []float64{3}}
	row := b.Create(t, "", board.TextCell(title, "the only one"))
	for want, call := range map[string]func() error{
		"invalid_auth": func() error {
			_, err := slack.New("xoxb-wrong", slack.OptionAPIURL(b.URL)).AuthTestContext(ctx)
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
