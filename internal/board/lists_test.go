package board_test

import (
	"fmt"
	"strings"
	"testing"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

const primary = `{"key":"title","name":"Title","type":"text","is_primary_column":true}`

func TestCreateListEcho(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	answer := b.Must(t, "slackLists.create", object{"name": "Sprint", "schema": decode(t, `[`+primary+`,
		{"key":"status","name":"Status","type":"select","options":{"choices":[{"value":"not_started","label":"Not Started","color":"red"}]}},
		{"name":"Due By!","type":"date","options":{"date_format":"DD/MM/YYYY"}},
		{"key":"owner","name":"Owner","type":"user"},
		{"key":"tags","name":"Tags","type":"multi_select"}]`)})
	if id, _ := answer["list_id"].(string); !hasPrefixAndUpper(id, "F") {
		t.Errorf("list_id %q", id)
	}
	schema := dig(t, answer, "list_metadata", "schema").(array)
	for _, c := range schema {
		if id, _ := c.(object)["id"].(string); !hasPrefixAndUpper(id, "Col") {
			t.Errorf("column id %q", id)
		}
		delete(c.(object), "id")
	}
	wantEqual(t, "schema", schema, decode(t, `[
		{"key":"title","name":"Title","type":"text","is_primary_column":true},
		{"key":"status","name":"Status","type":"select","is_primary_column":false,
		 "options":{"choices":[{"value":"not_started","label":"Not Started","color":"red"}],"format":"single_select","show_member_name":true}},
		{"key":"due_by","name":"Due By!","type":"date","is_primary_column":false,"options":{"date_format":"DD/MM/YYYY","show_member_name":true}},
		{"key":"owner","name":"Owner","type":"user","is_primary_column":false,"options":{"format":"single_entity","show_member_name":true}},
		{"key":"tags","name":"Tags","type":"multi_select","is_primary_column":false,
		 "options":{"choices":[],"format":"multi_select","show_member_name":true}}]`))
	sub := dig(t, answer, "list_metadata", "subtask_schema").(array)
	wantEqual(t, "columns of subtasks", len(sub), 1)
	wantEqual(t, "column of subtasks", dig(t, sub, 0, "key"), "title")
}

// Columns that are given no key get one of their name, which is nobody else's.
func TestKeysOfColumns(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	_, columns := newList(t, b, `[{"name":"A B","type":"text","is_primary_column":true},{"name":"a-b","type":"text"},
		{"name":"A_B","type":"text"},{"name":"!","type":"text"},{"name":"?","type":"text"}]`, nil)
	for _, key := range []string{"a_b", "a_b_2", "a_b_3", "column", "column_2"} {
		if columns[key] == "" {
			t.Errorf("no key %q in %v", key, columns)
		}
	}
}

func TestCreateListForms(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	bare := b.Must(t, "slackLists.create", object{"name": "Bare"})
	if _, there := bare["list_metadata"]; there {
		t.Errorf("a create without schema has list_metadata: %v", bare)
	}
	columns, err := b.Server.Columns(bare["list_id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) != 1 || columns[0].Name != "Name" || columns[0].Key != "name" || columns[0].Type != "text" || !columns[0].Primary {
		t.Errorf("default columns %v", columns)
	}

	todo := b.Must(t, "slackLists.create", object{"name": "Todo", "todo_mode": true})
	for _, part := range []string{"schema", "subtask_schema"} {
		got := dig(t, todo, "list_metadata", part).(array)
		wantEqual(t, part+" length", len(got), 4)
		for i, want := range []string{"Col00 todo_completed", "Col01 todo_assignee", "Col02 todo_due_date"} {
			c := got[i+1].(object)
			wantEqual(t, part, fmt.Sprint(c["id"], " ", c["type"]), want)
		}
		wantEqual(t, "options", dig(t, got, 2, "options"), decode(t, `{"format":"multi_entity","default_value":null,"show_member_name":true}`))
	}

	// slackLists.create has columns under schema; anything else is ignored.
	wrong := b.Must(t, "slackLists.create", object{"name": "Wrong", "columns": decode(t, `[`+primary+`]`)})
	if columns, err = b.Server.Columns(wrong["list_id"].(string)); err != nil || columns[0].Name != "Name" {
		t.Errorf("columns %v, %v", columns, err)
	}

	b.Server.SetQuirks(board.Quirks{OmitListMetadata: true})
	quiet := b.Must(t, "slackLists.create", object{"name": "Quiet", "schema": decode(t, `[`+primary+`]`)})
	wantEqual(t, "members", len(quiet), 2)
}

func TestCreateListRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	with := func(column string) string { return `[` + primary + `,` + column + `]` }
	choices := func(list string) string {
		return with(`{"key":"s","name":"S","type":"select","options":{"choices":[` + list + `]}}`)
	}
	var many, options []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`{"key":"k%d","name":"N","type":"text"}`, i))
	}
	for i := range 101 {
		options = append(options, fmt.Sprintf(`{"value":"v%d","label":"L","color":"red"}`, i))
	}
	for name, c := range map[string]struct {
		args object
		code string
	}{
		"no name":                {object{"schema": `[` + primary + `]`}, "invalid_arguments"},
		"long name":              {object{"name": strings.Repeat("é", 256)}, "over_title_length_maximum"},
		"schema no array":        {object{"schema": `{}`}, "invalid_schema"},
		"column no object":       {object{"schema": `["x"]`}, "invalid_schema"},
		"column without name":    {object{"schema": with(`{"key":"a","type":"text"}`)}, "invalid_schema"},
		"key twice":              {object{"schema": with(`{"key":"title","name":"X","type":"text"}`)}, "invalid_schema"},
		"no columns":             {object{"schema": `[]`}, "invalid_primary_column"},
		"no primary":             {object{"schema": `[{"key":"a","name":"A","type":"text"}]`}, "invalid_primary_column"},
		"two primaries":          {object{"schema": with(`{"key":"b","name":"B","type":"text","is_primary_column":true}`)}, "invalid_primary_column"},
		"primary no text":        {object{"schema": `[{"key":"a","name":"A","type":"number","is_primary_column":true}]`}, "invalid_primary_column"},
		"unknown type":           {object{"schema": with(`{"key":"a","name":"A","type":"blob"}`)}, "invalid_column_type"},
		"no type":                {object{"schema": with(`{"key":"a","name":"A"}`)}, "invalid_column_type"},
		"timestamp":              {object{"schema": with(`{"key":"a","name":"A","type":"timestamp"}`)}, "invalid_column_type"},
		"todo type":              {object{"schema": with(`{"key":"a","name":"A","type":"todo_completed"}`)}, "invalid_column_type"},
		"31 columns":             {object{"schema": with(strings.Join(many, ","))}, "over_column_maximum"},
		"30 columns and todo":    {object{"schema": with(strings.Join(many[1:], ",")), "todo_mode": true}, "over_column_maximum"},
		"choice without value":   {object{"schema": choices(`{"label":"A","color":"red"}`)}, "invalid_schema"},
		"choice without label":   {object{"schema": choices(`{"value":"a","color":"red"}`)}, "invalid_schema"},
		"choice with bad colour": {object{"schema": choices(`{"value":"a","label":"A","color":"mauve"}`)}, "invalid_schema"},
		"choice with no colour":  {object{"schema": choices(`{"value":"a","label":"A","color":""}`)}, "invalid_schema"},
		"choice twice":           {object{"schema": choices(options[0] + "," + options[0])}, "invalid_schema"},
		"101 choices":            {object{"schema": choices(strings.Join(options, ","))}, "invalid_schema"},
		"format misfit":          {object{"schema": with(`{"key":"a","name":"A","type":"user","options":{"format":"single_select"}}`)}, "invalid_schema"},
		"date format":            {object{"schema": with(`{"key":"a","name":"A","type":"date","options":{"date_format":"YY"}}`)}, "invalid_schema"},
		"options no object":      {object{"schema": with(`{"key":"a","name":"A","type":"rating","options":"many"}`)}, "invalid_schema"},
		"rating up to 11":        {object{"schema": with(`{"key":"a","name":"A","type":"rating","options":{"max":11}}`)}, "invalid_schema"},
		"rating up to 0":         {object{"schema": with(`{"key":"a","name":"A","type":"rating","options":{"max":0}}`)}, "invalid_schema"},
		"schema and copy":        {object{"schema": `[` + primary + `]`, "copy_from_list_id": b.ListID}, "invalid_copy_and_schema_args"},
		"records without copy":   {object{"include_copied_list_records": true}, "missing_arg_copy_from_list_id"},
		"copy of nothing":        {object{"copy_from_list_id": "F0NOTHING"}, "permission_denied"},
		"bad description":        {object{"description_blocks": `[{"type":"section"}]`}, "invalid_arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			args := object{"name": "X"}
			for k, v := range c.args {
				args[k] = v
			}
			if name == "no name" {
				delete(args, "name")
			}
			wantCode(t, b.Call(t, "slackLists.create", args), c.code)
		})
	}
	wantEqual(t, "lists", len(b.Must(t, "files.list", nil)["files"].(array)), 1)
	wantCode(t, b.Call(t, "slackLists.create", object{"name": "30", "schema": with(strings.Join(many[1:], ","))}), "")
	wide, _ := newList(t, b, with(strings.Join(many[1:], ",")), nil)
	wantCode(t, b.Call(t, "slackLists.update", object{"id": wide, "todo_mode": true}), "list_edits_update_error")
	wantCode(t, b.Call(t, "slackLists.create", object{"name": "Copy", "copy_from_list_id": wide, "todo_mode": true}), "over_column_maximum")
	wantEqual(t, "columns", len(dig(t, b.Must(t, "files.info", object{"file": wide}), "file", "list_metadata", "schema").(array)), 30)
	noColour := choices(`{"value":"a","label":"A"}`)
	wantCode(t, b.Call(t, "slackLists.create", object{"name": "no colour member", "schema": noColour}), "")
}

func TestCopyList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	parent := b.Create(t, "", board.TextCell(title, "parent"))
	b.Create(t, parent, board.TextCell(title, "step"))
	archived := b.Create(t, "", board.TextCell(title, "old"))
	if err := b.Server.ArchiveRow("", b.ListID, archived); err != nil {
		t.Fatal(err)
	}
	empty := b.Must(t, "slackLists.create", object{"name": "Copy", "copy_from_list_id": b.ListID})["list_id"].(string)
	wantEqual(t, "rows", len(listAll(t, b, empty, 10)), 0)
	file := b.Must(t, "files.info", object{"file": empty})["file"]
	wantEqual(t, "source", dig(t, file, "list_metadata", "creation_source"),
		object{"type": "copy_from_list", "reference_id": b.ListID})
	wantEqual(t, "columns", dig(t, file, "list_limits", "column_count"), 16.0)

	plain, _ := newList(t, b, `[`+primary+`]`, nil)
	todo := b.Must(t, "slackLists.create", object{"name": "Copy", "copy_from_list_id": plain, "todo_mode": true})
	wantEqual(t, "columns with the todo mode", len(dig(t, todo, "list_metadata", "schema").(array)), 4)

	full := b.Must(t, "slackLists.create", object{
		"name": "Copy", "copy_from_list_id": b.ListID, "include_copied_list_records": true,
	})["list_id"].(string)
	var copied string
	texts := make(map[any]any)
	for _, item := range listAll(t, b, full, 10) {
		texts[fieldOf(item, title)["text"]] = item["parent_record_id"]
		if item["parent_record_id"] == nil {
			copied = item["id"].(string)
		}
	}
	if copied == parent {
		t.Error("the copied row has the original's id")
	}
	wantEqual(t, "rows", texts, map[any]any{"parent": nil, "step": copied})
}

func TestUpdateList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, _ := newList(t, b, `[`+primary+`]`, nil)
	for name, c := range map[string]struct {
		args object
		code string
	}{
		"list_id":         {object{"list_id": list, "name": "X"}, "invalid_arguments"}, // the argument is id
		"nothing":         {object{"id": list}, "missing_arguments"},
		"long name":       {object{"id": list, "name": strings.Repeat("a", 256)}, "over_title_length_maximum"},
		"unknown list":    {object{"id": "F0NOTHING", "name": "X"}, "list_not_found"},
		"bad description": {object{"id": list, "description_blocks": array{object{"type": "x"}}}, "invalid_arguments"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, b.Call(t, "slackLists.update", c.args), c.code) })
	}
	blocks := decode(t, `[{"type":"rich_text","elements":[`+section+`]}]`)
	wantEqual(t, "answer", b.Call(t, "slackLists.update", object{"id": list, "name": "New", "description_blocks": blocks}), object{"ok": true})
	file := b.Must(t, "files.info", object{"file": list})["file"]
	wantEqual(t, "title", dig(t, file, "title"), "New")
	wantEqual(t, "description", dig(t, file, "list_metadata", "description"), "hi")
}

// Switching the todo mode off hides the columns; on again shows what they held.
func TestTodoMode(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, _ := newList(t, b, `[`+primary+`]`, nil)
	tick := func(row string) object {
		return object{"list_id": list, "cells": array{object{"row_id": row, "column_id": "Col00", "checkbox": true}}}
	}
	row := b.Must(t, "slackLists.items.create", object{"list_id": list})["item"].(object)["id"].(string)
	wantCode(t, b.Call(t, "slackLists.items.update", tick(row)), "invalid_column_id")
	b.Must(t, "slackLists.update", object{"id": list, "todo_mode": true})
	wantEqual(t, "no tick", fieldOf(info(t, b, list, row), "Col00")["checkbox"], false)
	wantEqual(t, "no tick in the listing", fieldOf(listAll(t, b, list, 10)[0], "Col00")["checkbox"], false)
	b.Must(t, "slackLists.items.update", tick(row))
	b.Must(t, "slackLists.update", object{"id": list, "todo_mode": false})
	wantEqual(t, "fields", listAll(t, b, list, 10)[0]["fields"], array{})
	wantCode(t, b.Call(t, "slackLists.items.update", tick(row)), "invalid_column_id")
	b.Must(t, "slackLists.update", object{"id": list, "todo_mode": true})
	wantEqual(t, "tick", fieldOf(listAll(t, b, list, 10)[0], "Col00")["checkbox"], true)
}

func TestDefaultList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	file := b.Must(t, "files.info", object{"file": b.ListID})["file"].(object)
	wantEqual(t, "title", file["title"], "OTM")
	wantEqual(t, "filetype", file["filetype"], "list")
	wantEqual(t, "todo_mode", dig(t, file, "list_metadata", "todo_mode"), true)
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
	var sub []any
	for _, c := range dig(t, file, "list_metadata", "subtask_schema").(array) {
		sub = append(sub, c.(object)["key"])
	}
	wantEqual(t, "columns of subtasks", sub, []any{"title", "status", "todo_completed", "todo_assignee", "todo_due_date"})
	var statuses []string
	for _, c := range dig(t, file, "list_metadata", "schema", 6, "options", "choices").(array) {
		statuses = append(statuses, fmt.Sprint(c.(object)["value"], "=", c.(object)["label"]))
	}
	wantEqual(t, "statuses", statuses, []string{
		"new=New", "assigned=Assigned", "pending=Pending", "in_progress=In Progress", "blocked=Blocked", "agent_done=Agent Done",
		"done=Done", "rejected=Rejected", "failed=Failed", "cancelled=Cancelled", "archived=Archived",
	})
	wantEqual(t, "assignees", dig(t, file, "list_metadata", "schema", 3, "options", "choices"), array{})
}
