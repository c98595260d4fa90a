package slacklist

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
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
	listUpdate   = "slackLists.update"
)

// pageSize is how many rows a page holds, the most that Slack allows.
const pageSize = 1000

// listPage reads one page of the list: the first one if cursor is "".
func (a *api) listPage(ctx context.Context, cursor string) (*answer, error) {
	form := url.Values{"list_id": {a.list}, "limit": {strconv.Itoa(pageSize)}, "include_list": {"true"}}
	if cursor != "" {
		form.Set("cursor", cursor)
	}
	return a.call(ctx, listMethod, form)
}

// fileInfo reads the list object without a row.
func (a *api) fileInfo(ctx context.Context) (*wireList, error) {
	r, err := a.call(ctx, filesMethod, url.Values{"file": {a.list}})
	if err != nil {
		return nil, err
	}
	return r.File, nil
}

// asJSON encodes an argument of a form. Cells and ids always encode.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("internal error: %T does not encode: %v", v, err))
	}
	return string(raw)
}
