package slacklist

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/slack-go/slack"
)

// The methods that we call.
const (
	listMethod   = "slackLists.items.list"
	createMethod = "slackLists.items.create"
	updateMethod = "slackLists.items.update"
	infoMethod   = "slackLists.items.info"
	deleteMethod = "slackLists.items.deleteMultiple"
	filesMethod  = "files.info"
	authMethod   = "auth.test"
)

// pageSize is how many rows a page holds, the most that Slack allows.
const pageSize = 1000

// A page is one page of the list, cut but not decoded.
type page struct {
	items  []byte // a JSON array
	list   []byte // the list object; nil if the board ignored that we asked for it
	cursor string // of the next page; "" after the last
}

// listPage reads one page of the list.
func (a *api) listPage(ctx context.Context, cursor string) (*page, error) {
	form := url.Values{"list_id": {a.list}, "limit": {strconv.Itoa(pageSize)}, "include_list": {"true"}}
	if cursor != "" {
		form.Set("cursor", cursor)
	}
	r, err := a.call(ctx, listMethod, form)
	if err != nil {
		return nil, err
	}
	var p page
	eachMember(r.body, func(key, value []byte) {
		switch string(key) {
		case "items":
			p.items = value
		case "list":
			if value[0] == '{' {
				p.list = value
			}
		case "response_metadata":
			p.cursor = looseString(member(value, "next_cursor"))
		}
	})
	return &p, nil
}

// fileInfo reads the list object without a row.
func (a *api) fileInfo(ctx context.Context) ([]byte, error) {
	r, err := a.call(ctx, filesMethod, url.Values{"file": {a.list}})
	if err != nil {
		return nil, err
	}
	return member(r.body, "file"), nil
}

// self asks as whom the token writes.
func (a *api) self(ctx context.Context) (string, error) {
	r, err := a.call(ctx, authMethod, nil)
	if err != nil {
		return "", err
	}
	return looseString(member(r.body, "user_id")), nil
}

// rowInfo asks for one row, and reports whether it is archived: people see it as
// little as one that is deleted.
func (a *api) rowInfo(ctx context.Context, id string) (archived bool, err error) {
	r, err := a.call(ctx, infoMethod, url.Values{"list_id": {a.list}, "id": {id}})
	if err != nil {
		return false, err
	}
	return string(member(member(r.body, "record"), "archived")) == "true", nil
}

// createItem makes a row and returns the item as the board answered it.
func (a *api) createItem(ctx context.Context, parent string, fields []slack.ListItemField) ([]byte, error) {
	form := url.Values{"list_id": {a.list}, "initial_fields": {asJSON(fields)}}
	if parent != "" {
		form.Set("parent_item_id", parent)
	}
	r, err := a.call(ctx, createMethod, form)
	if err != nil {
		return nil, err
	}
	return member(r.body, "item"), nil
}

// updateCells writes cells, at most 100 of them.
func (a *api) updateCells(ctx context.Context, cells []slack.ListItemCell) error {
	_, err := a.call(ctx, updateMethod, url.Values{"list_id": {a.list}, "cells": {asJSON(cells)}})
	return err
}

// deleteItems deletes rows, with their steps.
func (a *api) deleteItems(ctx context.Context, ids []string) error {
	_, err := a.call(ctx, deleteMethod, url.Values{"list_id": {a.list}, "ids": {asJSON(ids)}})
	return err
}

// asJSON encodes an argument of a form. Cells and ids always encode.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("internal error: %T does not encode: %v", v, err))
	}
	return string(raw)
}
