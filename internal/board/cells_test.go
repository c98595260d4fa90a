package board_test

import (
	"fmt"
	"strings"
	"testing"

	"otm/internal/board/boardtest"
)

// everyColumn has a column of each type that can be made, by its key.
const everyColumn = `[
	{"key":"title","name":"Title","type":"text","is_primary_column":true},
	{"key":"notes","name":"Notes","type":"rich_text"},
	{"key":"one","name":"One","type":"select","options":{"format":"single_select","choices":[{"value":"a","label":"A","color":"red"},{"value":"b","label":"B","color":"blue"}]}},
	{"key":"many","name":"Many","type":"multi_select","options":{"format":"multi_select","choices":[{"value":"a","label":"A","color":"red"},{"value":"b","label":"B","color":"blue"}]}},
	{"key":"user","name":"User","type":"user"},
	{"key":"users","name":"Users","type":"user","options":{"format":"multi_entity"}},
	{"key":"date","name":"Date","type":"date"},
	{"key":"check","name":"Check","type":"checkbox"},
	{"key":"number","name":"Number","type":"number"},
	{"key":"assignee","name":"Assignee","type":"assignee"},
	{"key":"due","name":"Due","type":"due_date"},
	{"key":"edited","name":"Edited","type":"last_edited_time"}
]`

const (
	primary = `{"key":"title","name":"Title","type":"text","is_primary_column":true}`
	section = `{"type":"rich_text_section","elements":[{"type":"text","text":"hi"}]}`
)

func TestCellsAreReadDifferently(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, col := newList(t, b, everyColumn, object{"todo_mode": true})
	for _, c := range []struct{ column, write, read string }{
		{"one", `"select":["a"]`, `"select":["a"]`},
		{"many", `"select":["b","a"]`, `"select":["b","a"]`},
		{"user", `"user":["U0ALICE"]`, `"user":["U0ALICE"]`},
		{"users", `"user":["W0BOB","U0ALICE"]`, `"user":["W0BOB","U0ALICE"]`},
		{"date", `"date":["2026-09-30"]`, `"date":["2026-09-30"]`},
		{"check", `"checkbox":true`, `"checkbox":true`},
		{"number", `"number":[3.5]`, `"number":[3.5]`},
		{"number", `"number":[3.0]`, `"number":[3]`},
		{"number", `"number":[0]`, `"number":[0]`},
		{"assignee", `"user":["U0ALICE"]`, `"user":["U0ALICE"]`},
		{"due", `"date":["2026-02-28"]`, `"date":["2026-02-28"]`},
		{"todo_completed", `"checkbox":true`, `"checkbox":true`},
		{"todo_assignee", `"user":["U0ALICE","U0BOB"]`, `"user":["U0ALICE","U0BOB"]`},
		{"todo_due_date", `"date":["2026-09-30"]`, `"date":["2026-09-30"]`},
	} {
		t.Run(c.column+" "+c.write, func(t *testing.T) {
			want := decode(t, fmt.Sprintf(`{"key":%q,%s,"column_id":%q}`, c.column, c.read, col[c.column]))
			created := b.Must(t, "slackLists.items.create", object{
				"list_id": list, "initial_fields": array{cell(t, col[c.column], c.write)},
			})["item"].(object)
			wantEqual(t, "created", fieldOf(created, col[c.column]), want)

			row := created["id"].(string)
			clear := cell(t, col[c.column], `"row_id":"`+row+`"`)
			for key := range cell(t, "", c.write) {
				if clear[key] = (array{}); key == "checkbox" {
					clear[key] = false
				}
			}
			b.Must(t, "slackLists.items.update", object{"list_id": list, "cells": array{clear}})
			cleared := fieldOf(info(t, b, list, row), col[c.column])
			if c.column == "todo_completed" {
				wantEqual(t, "cleared", cleared["checkbox"], false)
			} else if cleared != nil {
				t.Errorf("cleared cell is shown: %v", cleared)
			}

			again := cell(t, col[c.column], c.write)
			again["row_id"] = row
			b.Must(t, "slackLists.items.update", object{"list_id": list, "cells": array{again}})
			wantEqual(t, "updated", fieldOf(info(t, b, list, row), col[c.column]), want)
		})
	}
}

func TestCellRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, col := newList(t, b, everyColumn, nil)
	row := b.Must(t, "slackLists.items.create", object{"list_id": list})["item"].(object)["id"].(string)
	block := `"rich_text":[{"type":"rich_text","elements":[%s]}]`
	for _, c := range []struct{ column, write, code string }{
		{"title", `"text":"hi"`, "invalid_input_type"},
		{"title", `"select":["a"]`, "invalid_input_type"},
		{"title", `"rich_text":"hi"`, "invalid_input_type"},
		{"title", `"rich_text":["hi"]`, "invalid_blocks"},
		{"title", `"rich_text":[{"type":"section","text":"hi"}]`, "invalid_blocks"},
		{"title", `"rich_text":[{"type":"rich_text"}]`, "invalid_blocks"},
		{"title", fmt.Sprintf(block, `{"type":"text","text":"hi"}`), "invalid_blocks"},
		{"title", fmt.Sprintf(block, `{"type":"rich_text_section","elements":"hi"}`), "invalid_blocks"},
		{"title", fmt.Sprintf(block, `{"type":"rich_text_section","elements":[{"type":"text","text":1}]}`), "invalid_blocks"},
		{"one", `"select":["A"]`, "invalid_option_id"}, // the label
		{"one", `"select":["c"]`, "invalid_option_id"},
		{"one", `"select":[""]`, "invalid_option_id"},
		{"one", `"select":"a"`, "invalid_input_type"},
		{"one", `"select":[1]`, "invalid_input_type"},
		{"one", `"select":[null]`, "invalid_input_type"},
		{"one", `"multi_select":["a"]`, "invalid_input_type"},
		{"many", `"select":["a","c"]`, "invalid_option_id"},
		{"many", `"select":["a"` + strings.Repeat(`,"a"`, 50) + `]`, "over_cell_fields_limit"},
		{"user", `"user":["alice"]`, "user_not_found"},
		{"date", `"date":["30.09.2026"]`, "invalid_date"},
		{"date", `"date":["2026-02-30"]`, "invalid_date"},
		{"date", `"date":["2026-9-3"]`, "invalid_date"},
		{"date", `"date":["2026-09-30T10:00:00Z"]`, "invalid_date"},
		{"date", `"timestamp":[1767225600]`, "invalid_input_type"},
		{"check", `"checkbox":[true]`, "invalid_input_type"},
		{"check", `"checkbox":"true"`, "invalid_input_type"},
		{"check", `"checkbox":null`, "invalid_input_type"},
		{"number", `"number":3`, "invalid_input_type"},
		{"number", `"number":["3"]`, "invalid_input_type"},
		{"number", `"number":[null]`, "invalid_input_type"},
		{"", `"column_id":7,"number":[1]`, "invalid_column_id"},
		{"edited", `"timestamp":[1767225600]`, "uneditable_column"},
	} {
		t.Run(c.column+" "+c.write, func(t *testing.T) {
			in := cell(t, col[c.column], c.write)
			in["row_id"] = row
			wantCode(t, b.Call(t, "slackLists.items.update", object{"list_id": list, "cells": array{in}}), c.code)
			delete(in, "row_id")
			wantCode(t, b.Call(t, "slackLists.items.create", object{"list_id": list, "initial_fields": array{in}}), c.code)
		})
	}
	// What Go itself would not send.
	huge := fmt.Sprintf(`[{"row_id":%q,"column_id":%q,"number":[1e999]}]`, row, col["number"])
	wantCode(t, b.Call(t, "slackLists.items.update", object{"list_id": list, "cells": huge}), "invalid_input_type")
	wantEqual(t, "rows", len(listAll(t, b, list, 100)), 1)
	wantEqual(t, "fields", info(t, b, list, row)["fields"], array{})
}

func TestRichText(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, col := newList(t, b, everyColumn, nil)
	for name, elements := range map[string]string{
		"plain":        section,
		"bold":         `{"type":"rich_text_section","elements":[{"type":"text","text":"a "},{"type":"text","text":"b","style":{"bold":true}}]}`,
		"link":         `{"type":"rich_text_section","elements":[{"type":"link","url":"https://a.example"}]}`,
		"two sections": section + `,` + section,
	} {
		t.Run(name, func(t *testing.T) {
			in := cell(t, col["notes"], `"rich_text":[{"type":"rich_text","elements":[`+elements+`]}]`)
			item := b.Must(t, "slackLists.items.create", object{"list_id": list, "initial_fields": array{in}})["item"].(object)
			f := fieldOf(item, col["notes"])
			if id, _ := dig(t, f, "rich_text", 0, "block_id").(string); id == "" {
				t.Errorf("no block_id: %v", f)
			}
			wantEqual(t, "elements", dig(t, f, "rich_text", 0, "elements"), dig(t, in, "rich_text", 0, "elements"))
		})
	}
}

// Blocks without any text are an empty cell, as is an empty array.
func TestEmptyText(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	for name, blocks := range map[string]string{
		"no blocks":     `[]`,
		"empty section": `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[]}]}]`,
		"empty text":    `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":""}]}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			row := b.Create(t, "", boardtest.TextCell(title, "x"))
			in := cell(t, title, `"rich_text":`+blocks)
			in["row_id"] = row
			b.Must(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": array{in}})
			if f := fieldOf(info(t, b, b.ListID, row), title); f != nil {
				t.Errorf("cell is not empty: %v", f)
			}
		})
	}
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	assignee, status := b.Column(t, "Assignee", "select"), b.Column(t, "Status", "select")
	long := strings.Repeat("é", 64)
	for _, c := range []struct{ name, code string }{
		{"devdas", ""},
		{"Agent 7", ""},
		{"Зоя-2.x_y", ""},
		{"7up", ""},
		{long, ""},
		{"devdas", ""}, // again
		{long + "é", "invalid_option_id"},
		{"../x", "invalid_option_id"},
		{" devdas", "invalid_option_id"},
		{"dev/das", "invalid_option_id"},
		{"dev\ndas", "invalid_option_id"},
		{"", "invalid_option_id"},
	} {
		cells := array{boardtest.SelectCell(assignee, c.name)}
		wantCode(t, b.Call(t, "slackLists.items.create", object{"list_id": b.ListID, "initial_fields": cells}), c.code)
	}
	options := func() []string {
		columns, err := b.Server.Columns(b.ListID)
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, o := range columns[3].Options {
			if o.Value != o.Label {
				t.Errorf("option %v: the label differs", o)
			}
			values = append(values, o.Value)
		}
		return values
	}
	want := []string{"devdas", "Agent 7", "Зоя-2.x_y", "7up", long}
	wantEqual(t, "options", options(), want)

	// A call that is refused adds no option; other columns take no new ones.
	bad := array{boardtest.SelectCell(assignee, "ghost"), boardtest.SelectCell(status, "nonsense")}
	wantCode(t, b.Call(t, "slackLists.items.create", object{"list_id": b.ListID, "initial_fields": bad}), "invalid_option_id")
	wantEqual(t, "options", options(), want)

	fixed := boardtest.Start(t, func(o *boardtest.Options) { o.FixedAssignees = true })
	if err := fixed.Server.AddOption("", fixed.ListID, fixed.Column(t, "Assignee", "select"), "devdas", "devdas"); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{"devdas": "", "newcomer": "invalid_option_id"} {
		cells := array{boardtest.SelectCell(fixed.Column(t, "Assignee", "select"), name)}
		wantCode(t, fixed.Call(t, "slackLists.items.create", object{"list_id": fixed.ListID, "initial_fields": cells}), code)
	}
}
