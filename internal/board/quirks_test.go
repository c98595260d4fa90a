package board_test

import (
	"testing"
	"time"

	"otm/internal/board/boardtest"
)

func TestVisibleAfter(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := boardtest.Start(t, withClock(now), withQuirks(boardtest.Quirks{VisibleAfter: 12 * time.Second}))
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
	b := boardtest.Start(t, withQuirks(boardtest.Quirks{OmitParentOnCreate: true}))
	parent := b.Create(t, "")
	item := b.Must(t, "slackLists.items.create", object{"list_id": b.ListID, "parent_item_id": parent})["item"].(object)
	if _, there := item["parent_record_id"]; there {
		t.Errorf("answer has parent_record_id: %v", item)
	}
	wantEqual(t, "parent as read", info(t, b, b.ListID, item["id"].(string))["parent_record_id"], parent)
}

func TestMultiRowQuirk(t *testing.T) {
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

	b.Server.SetQuirks(boardtest.Quirks{RefuseMultiRow: true})
	wantCode(t, b.Call(t, "slackLists.items.update", tick(one, two)), "invalid_arguments")
	wantEqual(t, "one", ticked(one), false)
	wantCode(t, b.Call(t, "slackLists.items.update", tick(two)), "")
	wantEqual(t, "two", ticked(two), true)
}

func TestPartialUpdate(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withQuirks(boardtest.Quirks{PartialUpdateCells: 1}))
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	row := b.Create(t, "")
	with := func(c boardtest.Cell) boardtest.Cell { c["row_id"] = row; return c }
	answer := b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": array{
		with(boardtest.TextCell(title, "applied")), with(boardtest.SelectCell(status, "done")),
	}})
	wantCode(t, answer, "internal_error")
	item := info(t, b, b.ListID, row)
	wantEqual(t, "title", textOf(item, title), "applied")
	if f := fieldOf(item, status); f != nil {
		t.Errorf("the second cell was applied: %v", f)
	}
	wantCode(t, b.Call(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": array{with(boardtest.SelectCell(status, "done"))}}), "")
}
