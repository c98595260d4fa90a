package board_test

import (
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

func TestVisibleAfter(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), withQuirks(board.Quirks{VisibleAfter: 12 * time.Second}))
	row := b.Create(t, "")
	wantEqual(t, "rows at once", len(listAll(t, b, b.ListID, 10)), 0)
	info(t, b, b.ListID, row) // is there all the same
	now.advance(12*time.Second - time.Nanosecond)
	wantEqual(t, "rows just before", len(listAll(t, b, b.ListID, 10)), 0)
	now.advance(time.Nanosecond)
	wantEqual(t, "rows after", len(listAll(t, b, b.ListID, 10)), 1)
}

func TestOmitParentOnCreate(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withQuirks(board.Quirks{OmitParentOnCreate: true}))
	parent := b.Create(t, "")
	item := b.Must(t, "slackLists.items.create", object{"list_id": b.ListID, "parent_item_id": parent})["item"].(object)
	if _, there := item["parent_record_id"]; there {
		t.Errorf("answer has parent_record_id: %v", item)
	}
	wantEqual(t, "parent as read", info(t, b, b.ListID, item["id"].(string))["parent_record_id"], parent)
}

func TestMultiRowQuirks(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	one, two := b.Create(t, ""), b.Create(t, "")
	tick := func(ids ...string) object {
		var cells array
		for _, id := range ids {
			cells = append(cells, object{"row_id": id, "column_id": "Col00", "checkbox": true})
		}
		return object{"list_id": b.ListID, "cells": cells}
	}
	ticked := func(id string) any { return fieldOf(info(t, b, b.ListID, id), "Col00")["checkbox"] }

	b.Server.SetQuirks(board.Quirks{RefuseMultiRow: true})
	wantCode(t, b.Call(t, "slackLists.items.update", tick(one, two)), "invalid_arguments")
	wantEqual(t, "one", ticked(one), false)
	b.Server.SetQuirks(board.Quirks{FirstRowOnly: true})
	wantCode(t, b.Call(t, "slackLists.items.update", tick(one, two)), "")
	wantEqual(t, "one", ticked(one), true)
	wantEqual(t, "two", ticked(two), false)
	b.Server.SetQuirks(board.Quirks{RefuseMultiRow: true})
	wantCode(t, b.Call(t, "slackLists.items.update", tick(two)), "")
	wantEqual(t, "two", ticked(two), true)
}

func TestPartialUpdate(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withQuirks(board.Quirks{PartialUpdateCells: 1}))
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	row := b.Create(t, "")
	with := func(c board.Cell) board.Cell { c["row_id"] = row; return c }
	answer := b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": array{
		with(board.TextCell(title, "applied")), with(board.SelectCell(status, "done")),
	}})
	wantCode(t, answer, "internal_error")
	item := info(t, b, b.ListID, row)
	wantEqual(t, "title", fieldOf(item, title)["text"], "applied")
	if f := fieldOf(item, status); f != nil {
		t.Errorf("the second cell was applied: %v", f)
	}
	wantCode(t, b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": array{with(board.SelectCell(status, "done"))}}), "")
}

func TestStrictSubtaskSchema(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, status, reason := b.Column(t, "Title", "text"), b.Column(t, "Status", "select"), b.Column(t, "Reason", "text")
	cells := []board.Cell{board.TextCell(title, "t"), board.SelectCell(status, "new"), board.TextCell(reason, "r"), board.CheckboxCell("Col00", true)}
	parent := b.Create(t, "", cells...)
	for _, strict := range []bool{false, true} {
		b.Server.SetQuirks(board.Quirks{StrictSubtaskSchema: strict})
		item := info(t, b, b.ListID, b.Create(t, parent, cells...))
		wantEqual(t, "reason stored", fieldOf(item, reason) != nil, !strict)
		wantEqual(t, "title", fieldOf(item, title)["text"], "t")
		wantEqual(t, "status", fieldOf(item, status)["value"], "new")
		wantEqual(t, "tick", fieldOf(item, "Col00")["checkbox"], true)
	}
	wantEqual(t, "the parent's reason", fieldOf(info(t, b, b.ListID, parent), reason)["text"], "r")
}

func TestQuietCheckbox(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now))
	row := b.Create(t, "")
	updated := func() int64 {
		file := b.Must(t, "files.info", object{"file": b.ListID})["file"]
		return int64(max(dig(t, file, "updated").(float64), dig(t, file, "edit_timestamp").(float64)))
	}
	tick := object{"list_id": b.ListID, "cells": array{object{"row_id": row, "column_id": "Col00", "checkbox": true}}}
	for _, quiet := range []bool{false, true} {
		before := updated()
		now.advance(time.Minute)
		b.Server.SetQuirks(board.Quirks{QuietCheckbox: quiet})
		b.Must(t, "slackLists.items.update", tick)
		wantEqual(t, "the list's time moved", updated() != before, !quiet)
	}
	now.advance(time.Minute)
	b.Must(t, "slackLists.items.delete", object{"list_id": b.ListID, "id": row})
	wantEqual(t, "the list's time", updated(), now.Now().Unix())
}
