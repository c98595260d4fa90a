package board_test

import (
	"testing"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

const alice, bob = "U0ALICE", "W0BOB"

func people() boardtest.Option {
	return withIdentities(
		board.Identity{Token: "xoxp-alice", UserID: alice},
		board.Identity{Token: "xoxp-bob", UserID: bob, Channels: []string{"C0TEAM"}},
	)
}

// A list is its maker's until shared; access decides what each call says.
func TestAccess(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, people())
	list, _ := newList(t, b, `[`+primary+`]`, nil)
	row := b.Must(t, "slackLists.items.create", object{"list_id": list})["item"].(object)["id"].(string)
	calls := []struct {
		method      string
		args        object
		none, reads string
	}{
		{"slackLists.items.list", object{"list_id": list}, "list_not_found", ""},
		{"slackLists.items.info", object{"list_id": list, "id": row}, "list_not_found", ""},
		{"slackLists.download.start", object{"list_id": list}, "list_not_found", ""},
		{"files.info", object{"file": list}, "file_not_found", ""},
		{"files.delete", object{"file": list}, "file_not_found", "cant_delete_file"},
		{"slackLists.items.create", object{"list_id": list}, "list_not_found", "list_not_found"},
		{"slackLists.items.update", object{"list_id": list, "cells": array{object{"row_id": row, "column_id": "Col0", "checkbox": true}}}, "list_not_found", "list_not_found"},
		{"slackLists.items.delete", object{"list_id": list, "id": row}, "list_not_found", "list_not_found"},
		{"slackLists.items.deleteMultiple", object{"list_id": list, "ids": array{row}}, "list_not_found", "list_not_found"},
		{"slackLists.update", object{"id": list, "name": "X"}, "list_not_found", "list_not_found"},
		{"slackLists.access.set", object{"list_id": list, "access_level": "read", "user_ids": array{bob}}, "list_not_found", "restricted_action"},
		{"slackLists.access.delete", object{"list_id": list, "user_ids": array{bob}}, "list_not_found", "restricted_action"},
		{"slackLists.create", object{"name": "Copy", "copy_from_list_id": list}, "permission_denied", ""},
	}
	for _, c := range calls {
		wantCode(t, b.CallAs(t, "xoxp-alice", c.method, c.args), c.none)
	}
	wantEqual(t, "lists alice sees", len(b.CallAs(t, "xoxp-alice", "files.list", nil)["files"].(array)), 0)
	b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "read", "user_ids": array{alice}})
	for _, c := range calls {
		wantCode(t, b.CallAs(t, "xoxp-alice", c.method, c.args), c.reads)
	}
	b.Server.SetQuirks(board.Quirks{PermissionDenied: true})
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.items.create", object{"list_id": list}), "permission_denied")
	b.Server.SetQuirks(board.Quirks{})

	b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "write", "user_ids": array{alice}})
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.items.create", object{"list_id": list}), "")
	wantEqual(t, "access", dig(t, b.CallAs(t, "xoxp-alice", "files.info", object{"file": list}), "file", "access"), "write")
	b.Must(t, "slackLists.access.delete", object{"list_id": list, "user_ids": array{alice}})
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.items.list", object{"list_id": list}), "list_not_found")

	// By a channel.
	wantCode(t, b.CallAs(t, "xoxp-bob", "slackLists.items.list", object{"list_id": list}), "list_not_found")
	b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "write", "channel_ids": array{"C0TEAM"}})
	wantCode(t, b.CallAs(t, "xoxp-bob", "slackLists.items.create", object{"list_id": list}), "")
	b.Must(t, "slackLists.access.delete", object{"list_id": list, "channel_ids": array{"C0TEAM"}})
	wantCode(t, b.CallAs(t, "xoxp-bob", "slackLists.items.list", object{"list_id": list}), "list_not_found")
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, people())
	list, _ := newList(t, b, `[`+primary+`]`, nil)
	give := func(to string) object {
		return object{"list_id": list, "access_level": "owner", "user_ids": array{to}}
	}
	b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "write", "user_ids": array{alice}})
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.access.set", give(alice)), "restricted_action")
	wantCode(t, b.Call(t, "slackLists.access.set", give(alice)), "")
	wantCode(t, b.Call(t, "slackLists.access.set", give(board.BotUser)), "restricted_action") // no longer the owner's
	wantCode(t, b.Call(t, "slackLists.items.create", object{"list_id": list}), "")            // but still a writer
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.access.delete", object{"list_id": list, "user_ids": array{alice}}), "restricted_action")
	wantEqual(t, "owner", dig(t, b.CallAs(t, "xoxp-alice", "files.info", object{"file": list}), "file", "user"), alice)
	wantCode(t, b.CallAs(t, "xoxp-alice", "files.delete", object{"file": list}), "")
	wantCode(t, b.Call(t, "slackLists.items.list", object{"list_id": list}), "list_not_found")
}

func TestAccessArguments(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, people())
	list, _ := newList(t, b, `[`+primary+`]`, nil)
	for name, c := range map[string]struct {
		args object
		code string
	}{
		"no level":              {object{"user_ids": array{alice}}, "invalid_arguments"},
		"unknown level":         {object{"access_level": "admin", "user_ids": array{alice}}, "invalid_arguments"},
		"neither":               {object{"access_level": "read"}, "invalid_parameters"},
		"both":                  {object{"access_level": "read", "user_ids": array{alice}, "channel_ids": array{"C0TEAM"}}, "invalid_parameters"},
		"empty":                 {object{"access_level": "read", "user_ids": array{}}, "invalid_parameters"},
		"owner for a channel":   {object{"access_level": "owner", "channel_ids": array{"C0TEAM"}}, "invalid_parameters"},
		"owner for two":         {object{"access_level": "owner", "user_ids": array{alice, bob}}, "invalid_parameters"},
		"no user":               {object{"access_level": "read", "user_ids": array{"alice"}}, "user_not_found"},
		"no channel":            {object{"access_level": "read", "channel_ids": array{"#general"}}, "channel_not_found"},
		"ids as a plain string": {object{"access_level": "read", "user_ids": alice}, "invalid_arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			c.args["list_id"] = list
			wantCode(t, b.Call(t, "slackLists.access.set", c.args), c.code)
		})
	}

	// One bad id among several: ok, and nobody gets access.
	answer := b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "read", "user_ids": array{alice, "nobody"}})
	wantEqual(t, "failed", answer["failed_to_update_user_ids"], array{"nobody"})
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.items.list", object{"list_id": list}), "list_not_found")
	answer = b.Must(t, "slackLists.access.set", object{"list_id": list, "access_level": "read", "user_ids": array{alice, bob}})
	wantEqual(t, "answer", answer, object{"ok": true})
	wantCode(t, b.CallAs(t, "xoxp-bob", "slackLists.items.list", object{"list_id": list}), "")
}

// The person at the page works on the default list; others are not on it.
func TestDefaultListAccess(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, withIdentities(
		board.Identity{Token: "xoxp-human", UserID: board.HumanUser}, board.Identity{Token: "xoxp-alice", UserID: alice}))
	wantCode(t, b.CallAs(t, "xoxp-human", "slackLists.items.create", object{"list_id": b.ListID}), "")
	wantCode(t, b.CallAs(t, "xoxp-alice", "slackLists.items.create", object{"list_id": b.ListID}), "list_not_found")
	wantCode(t, b.Call(t, "files.delete", object{"file": b.ListID}), "cant_delete_file")
}
