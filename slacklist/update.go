package slacklist

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"otm/internal/crash"
	"otm/pipeline"
)

// Bounds of one call. Slack publishes none for deletions.
const (
	maxCells   = 100
	maxDeleted = 50
)

// A writer writes to the board and patches the snapshot with its writes.
type writer struct {
	*batch
	schemas *schemas
}

// do makes one write as soon as it may be made.
func (w *writer) do(ctx context.Context, method string, call func() error) error {
	err := w.gate.do(ctx, method, func() error {
		if err := w.aheadOfSnapshot(); err != nil {
			return err
		}
		return call()
	})
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && slices.Contains(noWriteCodes, e.Code) && w.snap.WalkStarted != 0 {
		e.ReadAt = w.snap.WalkStarted.Time() // the walk proves that the list exists
	}
	return err
}

// Create makes a row below parent, or at the top if parent is "", and returns
// its id. If the error says MaybeApplied, the row may exist. Several goroutines may call
// it at a time.
func (w *writer) Create(ctx context.Context, parent string, cells ...pipeline.Cell) (id string, err error) {
	w.creating.Lock()
	defer w.creating.Unlock()
	err = w.schemas.retry(ctx, cells, func() (err error) {
		id, err = w.create(ctx, parent, cells)
		return err
	})
	return id, err
}

func (w *writer) create(ctx context.Context, parent string, cells []pipeline.Cell) (string, error) {
	fields, err := w.schemas.encoder().encode(cells)
	if err != nil {
		return "", err
	}
	fields = slices.DeleteFunc(fields, func(f slack.ListItemField) bool { // a new row has nothing to clear
		return f.Select != nil && len(f.Select) == 0 || f.User != nil && len(f.User) == 0
	})
	form := url.Values{"list_id": {w.api.list}, "initial_fields": {asJSON(fields)}}
	if parent != "" {
		form.Set("parent_item_id", parent)
	}
	var asked time.Time
	var r *answer
	err = w.do(ctx, createMethod, func() (err error) {
		asked = w.opts.Now()
		crash.Point("create.before")
		func() {
			w.creating.Unlock()
			defer w.creating.Lock()
			r, err = w.api.call(ctx, createMethod, form)
		}()
		crash.Point("create.after")
		return err
	})
	if err != nil {
		return "", err
	}
	d := newDecoder(&w.snap.Schema)
	made, ok := d.row(&r.Item)
	if !ok {
		return "", unsure(createMethod, "the answer has no row id", nil)
	}
	made.Parent = parent // the answer may lack it
	d.patch(&made, fields)
	if made.UpdatedBy != "" {
		w.snap.Self = made.UpdatedBy
	}
	w.snap.add(row{Row: made, Known: stampOf(asked), Wrote: stampOf(w.opts.Now())})
	return made.ID, nil
}

// Delete deletes rows, with their steps. Rows that do not exist are no error, so
// after a lost answer it is called again. Only a walk tells that they are gone
// (facts 1.10: no result a row).
func (w *writer) Delete(ctx context.Context, ids ...string) error {
	for some := range slices.Chunk(ids, maxDeleted) {
		err := w.do(ctx, deleteMethod, func() error {
			crash.Point("delete.before")
			defer crash.Point("delete.after")
			_, err := w.api.call(ctx, deleteMethod, url.Values{"list_id": {w.api.list}, "ids": {asJSON(some)}})
			return err
		})
		if err != nil {
			return err
		}
		w.snap.remove(some)
	}
	return nil
}

// Update writes cells to rows, in as few calls as possible. If the board refuses
// several rows together, it writes them one by one in the given order, because
// the board does not say which one it means.
//
// If the error says MaybeApplied, any part may have been written. Rows that
// were written are patched in the snapshot even if a later one failed.
func (w *writer) Update(ctx context.Context, changes ...pipeline.Change) error {
	err := w.write(ctx, changes)
	if len(changes) == 1 || !pipeline.IsRefused(err) || isGone(err) {
		return err
	}
	for i := range changes {
		if err := w.write(ctx, changes[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// write sends the changes of a group, in calls of at most maxCells cells.
func (w *writer) write(ctx context.Context, group []pipeline.Change) error {
	all := slices.Concat(pipeline.Map(group, func(c pipeline.Change) []pipeline.Cell { return c.Cells })...)
	return w.schemas.retry(ctx, all, func() error {
		var cells []slack.ListItemCell
		first := 0
		for i, change := range group {
			fields, err := w.schemas.encoder().encode(change.Cells)
			if err != nil {
				return err
			}
			if len(cells)+len(fields) > maxCells {
				if err := w.call(ctx, cells, group[first:i]); err != nil {
					return err
				}
				cells, first = nil, i
			}
			for _, f := range fields {
				cells = append(cells, slack.ListItemCell{ListItemField: f, RowID: change.Row})
			}
		}
		return w.call(ctx, cells, group[first:])
	})
}

// call writes cells in one call. They are those of the given changes.
func (w *writer) call(ctx context.Context, cells []slack.ListItemCell, changes []pipeline.Change) error {
	if len(cells) == 0 {
		return nil
	}
	return w.do(ctx, updateMethod, func() error {
		asked := w.opts.Now()
		crash.Point("update.before")
		_, err := w.api.call(ctx, updateMethod, url.Values{"list_id": {w.api.list}, "cells": {asJSON(cells)}})
		crash.Point("update.after")
		for _, change := range changes {
			r := w.snap.row(change.Row)
			switch {
			case r == nil:
			case err == nil:
				w.patched(r, change.Cells, asked)
			case pipeline.MaybeApplied(err):
				r.Known = 0 // only a walk can tell what it shows now
			}
		}
		return err
	})
}

// patched patches a row of the snapshot after a write.
func (w *writer) patched(r *row, cells []pipeline.Cell, asked time.Time) {
	if r.Wrote == 0 {
		r.Was, r.WasBy = nil, nil
	}
	r.Was, r.WasBy = append(r.Was, r.Status), append(r.WasBy, r.UpdatedBy)
	task := r.TaskID
	fields, _ := w.schemas.encoder().encode(cells) // they were encoded before
	newDecoder(&w.snap.Schema).patch(&r.Row, fields)
	if r.TaskID != task {
		w.snap.index = nil
	}
	r.UpdatedBy = w.snap.Self
	r.Wrote = stampOf(w.opts.Now())
	if slices.ContainsFunc(cells, func(c pipeline.Cell) bool { return c.Field == pipeline.FieldStatus }) {
		r.Known = stampOf(asked)
	}
}
