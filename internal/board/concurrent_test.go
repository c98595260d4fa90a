package board_test

import (
	"fmt"
	"sync"
	"testing"

	"otm/internal/board/boardtest"
)

// Writers, readers and people at once: nothing is lost, nothing is half.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, reason := b.Column(t, "Title", "text"), b.Column(t, "Reason", "text")
	shared := b.Create(t, "", boardtest.TextCell(title, "start"), boardtest.TextCell(reason, "start"))
	const writers, each = 6, 15
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				text := fmt.Sprint(w, "-", i)
				row := b.Create(t, "", boardtest.TextCell(title, text))
				b.Create(t, row, boardtest.TextCell(title, "step of "+text))
				both := array{}
				for _, c := range []boardtest.Cell{boardtest.TextCell(title, text), boardtest.TextCell(reason, text)} {
					c["row_id"] = shared
					both = append(both, c)
				}
				b.Must(t, "slackLists.items.update", object{"list_id": b.ListID, "cells": both})
				if i%3 == 0 {
					b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{row}})
				}
				if err := b.Server.EditRow("", b.ListID, shared, boardtest.CheckboxCell("Col00", i%2 == 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			for range each {
				parents := make(map[any]bool)
				items := b.Must(t, "slackLists.items.list", object{"list_id": b.ListID, "limit": 1000})["items"].(array)
				for _, item := range items {
					parents[item.(object)["id"]] = true
				}
				for _, item := range items {
					if p := item.(object)["parent_record_id"]; p != nil && !parents[p] {
						t.Errorf("a step without its parent: %v", item)
					}
				}
				item := info(t, b, b.ListID, shared)
				wantEqual(t, "two cells of one call", textOf(item, title), textOf(item, reason))
			}
		})
	}
	wg.Wait()
	want := 1 + 2*writers*each*2/3
	wantEqual(t, "rows", len(listAll(t, b, b.ListID, 7)), want)
	limits := dig(t, b.Must(t, "files.info", object{"file": b.ListID}), "file", "list_limits")
	wantEqual(t, "row_count", dig(t, limits, "row_count"), float64(want))
}
