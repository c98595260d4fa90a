package board_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

func TestCreateAnswer(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	item := b.Must(t, "slackLists.items.create", object{
		"list_id":        b.ListID,
		"initial_fields": array{boardtest.TextCell(title, "Build it"), boardtest.SelectCell(status, "in_progress")},
	})["item"].(object)

	if id := item["id"].(string); !hasPrefixAndUpper(id, "Rec") {
		t.Errorf("id %q, want Rec and upper-case letters and digits", id)
	}
	second := now.Now().Unix()
	wantEqual(t, "list_id", item["list_id"], b.ListID)
	wantEqual(t, "date_created", item["date_created"], float64(second))
	wantEqual(t, "updated_timestamp", item["updated_timestamp"], strconv.FormatInt(second, 10))
	wantEqual(t, "created_by", item["created_by"], board.BotUser)
	wantEqual(t, "updated_by", item["updated_by"], board.BotUser)
	if _, there := item["parent_record_id"]; there {
		t.Errorf("a top-level row has parent_record_id: %v", item)
	}
	wantEqual(t, "select field", fieldOf(item, status), decode(t, fmt.Sprintf(
		`{"key":"status","select":["in_progress"],"column_id":%q}`, status)))
	wantEqual(t, "todo checkbox", fieldOf(item, "Col00"), decode(t,
		`{"key":"todo_completed","checkbox":false,"column_id":"Col00"}`))
	wantEqual(t, "number of fields", len(item["fields"].(array)), 3)

	// What was answered is what is read.
	wantEqual(t, "items.info", info(t, b, b.ListID, item["id"].(string)), item)
	wantEqual(t, "items.list", listAll(t, b, b.ListID, 10), []object{item})
}

func TestCreateEmpty(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	id, _ := newList(t, b, `[{"key":"title","name":"Title","type":"text","is_primary_column":true}]`, nil)
	for _, args := range []object{
		{"list_id": id},
		{"list_id": id, "initial_fields": array{}},
		{"list_id": id, "intial_fields": array{object{"column_id": "nonsense"}}}, // the typo of Slack's own SDK
	} {
		item := b.Must(t, "slackLists.items.create", args)["item"].(object)
		wantEqual(t, "fields", item["fields"], array{})
	}
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	parent := b.Create(t, "", boardtest.TextCell(title, "parent"))
	step := b.Create(t, parent, boardtest.TextCell(title, "step"))
	archived := b.Create(t, "")
	if err := b.Server.ArchiveRow("", b.ListID, archived); err != nil {
		t.Fatal(err)
	}
	gone := b.Create(t, "")
	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{gone}})
	before := len(listAll(t, b, b.ListID, 1000))
	for name, c := range map[string]struct {
		args object
		code string
	}{
		"unknown list":        {object{"list_id": "F0NOTHING"}, "list_not_found"},
		"unknown parent":      {object{"parent_item_id": "Rec0NOTHING"}, "invalid_args"},
		"deleted parent":      {object{"parent_item_id": gone}, "invalid_args"},
		"archived parent":     {object{"parent_item_id": archived}, "invalid_args"},
		"grandchild":          {object{"parent_item_id": step}, "invalid_args"},
		"no column id":        {object{"initial_fields": array{object{"select": array{"new"}}}}, "invalid_column_id"},
		"column by name":      {object{"initial_fields": array{boardtest.TextCell("Title", "x")}}, "invalid_column_id"},
		"column by key":       {object{"initial_fields": array{boardtest.TextCell("title", "x")}}, "invalid_column_id"},
		"bad second cell":     {object{"initial_fields": array{boardtest.TextCell(title, "x"), boardtest.TextCell("Col0X", "y")}}, "invalid_column_id"},
		"fields as an object": {object{"initial_fields": object{"column_id": title}}, "invalid_arguments"},
		"field as a string":   {object{"initial_fields": array{"x"}}, "invalid_arguments"},
		"field null":          {object{"initial_fields": array{nil}}, "invalid_arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			args := object{"list_id": b.ListID}
			for k, v := range c.args {
				args[k] = v
			}
			wantCode(t, b.Call(t, "slackLists.items.create", args), c.code)
		})
	}
	wantEqual(t, "rows after refusals", len(listAll(t, b, b.ListID, 1000)), before)
}

func TestSubtasks(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	parent := b.Create(t, "", boardtest.TextCell(title, "parent"))
	answer := b.Must(t, "slackLists.items.create", object{
		"list_id": b.ListID, "parent_item_id": parent, "initial_fields": array{boardtest.TextCell(title, "one")},
	})
	one := dig(t, answer, "item", "id").(string)
	wantEqual(t, "parent_record_id in the answer", dig(t, answer, "item", "parent_record_id"), parent)
	two := b.Create(t, parent, boardtest.TextCell(title, "two"))

	parents := make(map[any]int)
	for _, item := range listAll(t, b, b.ListID, 100) {
		parents[item["parent_record_id"]]++
	}
	wantEqual(t, "parents in the listing", parents, map[any]int{nil: 1, parent: 2})

	wantEqual(t, "parent of the first step", info(t, b, b.ListID, one)["parent_record_id"], parent)

	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{parent}})
	wantEqual(t, "rows after the parent's deletion", len(listAll(t, b, b.ListID, 100)), 0)
	wantCode(t, b.Call(t, "slackLists.items.info", object{"list_id": b.ListID, "id": two}), "record_not_found")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), withIdentities(board.Identity{Token: "xoxp-human", UserID: board.HumanUser}))
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	one, two := b.Create(t, "", boardtest.TextCell(title, "one")), b.Create(t, "", boardtest.TextCell(title, "two"))
	now.advance(time.Minute)
	answer := b.CallAs(t, "xoxp-human", "slackLists.items.update", object{"list_id": b.ListID, "cells": array{
		object{"row_id": one, "column_id": status, "select": array{"assigned"}},
		object{"row_id": two, "column_id": "Col00", "checkbox": true},
		object{"row_id": one, "column_id": status, "select": array{"in_progress"}}, // the last one wins
	}})
	wantEqual(t, "answer", answer, object{"ok": true})
	for _, id := range []string{one, two} {
		item := info(t, b, b.ListID, id)
		wantEqual(t, "created_by", item["created_by"], board.BotUser)
		wantEqual(t, "updated_by", item["updated_by"], board.HumanUser)
		wantEqual(t, "updated_timestamp", item["updated_timestamp"], strconv.FormatInt(now.Now().Unix(), 10))
		wantEqual(t, "date_created", item["date_created"], float64(now.Now().Add(-time.Minute).Unix()))
	}
	wantEqual(t, "status", fieldOf(info(t, b, b.ListID, one), status)["select"], array{"in_progress"})
	wantEqual(t, "tick", fieldOf(info(t, b, b.ListID, two), "Col00")["checkbox"], true)
	wantEqual(t, "untouched title", textOf(info(t, b, b.ListID, one), title), "one")
}

func TestUpdateRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	row := b.Create(t, "", boardtest.TextCell(title, "as it was"))
	gone := b.Create(t, "")
	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{gone}})
	good := object{"row_id": row, "column_id": title, "rich_text": boardtest.TextCell(title, "changed")["rich_text"]}
	with := func(changes object) object {
		c := object{}
		for k, v := range good {
			c[k] = v
		}
		for k, v := range changes {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		return c
	}
	many := make(array, 101)
	for i := range many {
		many[i] = good
	}
	for name, c := range map[string]struct {
		cells any
		code  string
	}{
		"no cells":         {array{}, "invalid_arguments"},
		"101 cells":        {many, "invalid_arguments"},
		"no array":         {good, "invalid_arguments"},
		"no row":           {array{with(object{"row_id": nil})}, "row_id_not_provided"},
		"empty row":        {array{with(object{"row_id": ""})}, "row_id_not_provided"},
		"no column":        {array{with(object{"column_id": nil})}, "column_id_not_provided"},
		"malformed row":    {array{with(object{"row_id": "row 1"})}, "invalid_row_id"},
		"row no string":    {array{with(object{"row_id": 1})}, "invalid_row_id"},
		"unknown row":      {array{with(object{"row_id": "Rec0NOTHING"})}, "row_not_found"},
		"deleted row":      {array{with(object{"row_id": gone})}, "row_not_found"},
		"unknown column":   {array{with(object{"column_id": "Col0NOTHING"})}, "invalid_column_id"},
		"column by name":   {array{with(object{"column_id": "Title"})}, "invalid_column_id"},
		"no value":         {array{with(object{"rich_text": nil})}, "invalid_input_type"},
		"two values":       {array{with(object{"select": array{"new"}})}, "invalid_input_type"},
		"text beside":      {array{with(object{"text": "x"})}, "invalid_input_type"},
		"row to create":    {array{with(object{"row_id_to_create": true})}, "invalid_arguments"},
		"column to create": {array{with(object{"column_id_to_create": true})}, "invalid_arguments"},
		"good, then bad":   {array{good, with(object{"row_id": "Rec0NOTHING"})}, "row_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": c.cells}), c.code)
			wantEqual(t, "the title", textOf(info(t, b, b.ListID, row), title), "as it was")
		})
	}
	hundred := b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": many[:100]})
	wantCode(t, hundred, "")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	one, two, three := b.Create(t, ""), b.Create(t, ""), b.Create(t, "")
	args := func(name, id string) object { return object{"list_id": b.ListID, name: id} }
	wantCode(t, b.Call(t, "slackLists.items.deleteMultiple", args("id", one)), "invalid_arguments") // the argument is ids
	wantEqual(t, "answer", b.Call(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{one}}), object{"ok": true})
	wantCode(t, b.Call(t, "slackLists.items.info", args("id", one)), "record_not_found")
	wantCode(t, b.Call(t, "slackLists.items.info", args("id", "Rec0NOTHING")), "record_not_found")

	wantCode(t, b.Call(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{}}), "invalid_arguments")
	wantCode(t, b.Call(t, "slackLists.items.deleteMultiple", object{"list_id": "F0NOTHING", "ids": array{two}}), "list_not_found")
	many := b.Call(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{two, "Rec0NOTHING", one, three, three}})
	wantEqual(t, "answer", many, object{"ok": true})
	wantEqual(t, "rows", len(listAll(t, b, b.ListID, 10)), 0)
}

func TestInfoArguments(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	row := b.Create(t, "")
	if err := b.Server.ArchiveRow("", b.ListID, row); err != nil {
		t.Fatal(err)
	}
	answer := b.Must(t, "slackLists.items.info", object{"list_id": b.ListID, "id": row})
	wantEqual(t, "archived", dig(t, answer, "record", "archived"), true)
	wantCode(t, b.Call(t, "slackLists.items.info", object{"list_id": "F0NOTHING", "id": row}), "list_not_found")
}
