package board_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

const alice, bob = "U0ALICE", "W0BOB"

func TestPeopleEditRows(t *testing.T) {
	t.Parallel()
	var edits atomic.Int64
	now := newClock()
	b := boardtest.Start(t, withClock(now), func(o *boardtest.Options) { o.OnPeopleEdit = func() { edits.Add(1) } })
	s := b.Server
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	row, err := s.AddRow("", b.ListID, boardtest.TextCell(title, "by hand"), boardtest.SelectCell(status, "new"))
	if err != nil {
		t.Fatal(err)
	}
	step, err := s.AddStep(alice, b.ListID, row, boardtest.TextCell(title, "step by hand"))
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "created_by", info(t, b, b.ListID, row)["created_by"], board.HumanUser)
	wantEqual(t, "the step's created_by", info(t, b, b.ListID, step)["created_by"], alice)
	wantEqual(t, "the step's parent", info(t, b, b.ListID, step)["parent_record_id"], row)

	byBot := b.Create(t, "", boardtest.TextCell(title, "by the bot"))
	now.advance(time.Minute)
	if err := s.EditRow("", b.ListID, byBot, boardtest.SelectCell(status, "done"), boardtest.CheckboxCell("Col00", true)); err != nil {
		t.Fatal(err)
	}
	item := info(t, b, b.ListID, byBot)
	wantEqual(t, "created_by", item["created_by"], board.BotUser)
	wantEqual(t, "updated_by", item["updated_by"], board.HumanUser)
	wantEqual(t, "status", fieldOf(item, status)["select"], array{"done"})
	wantEqual(t, "tick", fieldOf(item, "Col00")["checkbox"], true)
	wantEqual(t, "updated", item["updated_timestamp"], strconv.FormatInt(now.Now().Unix(), 10))

	if err := s.DeleteRow(alice, b.ListID, row); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "rows", len(listAll(t, b, b.ListID, 10)), 1)
	wantCode(t, b.Call(t, "slackLists.items.info", object{"list_id": b.ListID, "id": step}), "record_not_found")
	wantEqual(t, "calls of OnPeopleEdit", edits.Load(), int64(4))
}

func TestPeopleEditRefusals(t *testing.T) {
	t.Parallel()
	var edits atomic.Int64
	b := boardtest.Start(t, func(o *boardtest.Options) { o.OnPeopleEdit = func() { edits.Add(1) } })
	s := b.Server
	title, status := b.Column(t, "Title", "text"), b.Column(t, "Status", "select")
	row := b.Create(t, "")
	step := b.Create(t, row)
	second := func(_ string, err error) error { return err }
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"bad option":       {s.EditRow("", b.ListID, row, boardtest.TextCell(title, "x"), boardtest.SelectCell(status, "Done")), "invalid_option_id"},
		"unknown row":      {s.EditRow("", b.ListID, "Rec0NOTHING", boardtest.TextCell(title, "x")), "row_not_found"},
		"unknown list":     {s.EditRow("", "F0NOTHING", row, boardtest.TextCell(title, "x")), "list_not_found"},
		"unknown column":   {s.EditRow("", b.ListID, row, boardtest.TextCell("Title", "x")), "invalid_column_id"},
		"no column":        {s.EditRow("", b.ListID, row, boardtest.Cell{"select": []string{"new"}}), "column_id_not_provided"},
		"two values":       {s.EditRow("", b.ListID, row, boardtest.Cell{"column_id": title, "select": []string{"new"}, "user": []string{"U0A"}}), "invalid_input_type"},
		"add two values":   {second(s.AddRow("", b.ListID, boardtest.Cell{"column_id": title, "select": []string{"new"}, "user": []string{"U0A"}})), "invalid_input_type"},
		"add bad":          {second(s.AddRow("", b.ListID, boardtest.SelectCell(status, "Done"))), "invalid_option_id"},
		"step of a step":   {second(s.AddStep("", b.ListID, step)), "invalid_args"},
		"delete nothing":   {s.DeleteRow("", b.ListID, "Rec0NOTHING"), "row_not_found"},
		"archive nothing":  {s.ArchiveRow("", b.ListID, "Rec0NOTHING"), "row_not_found"},
		"remove primary":   {s.RemoveColumn("", b.ListID, title), "invalid_primary_column"},
		"rename nothing":   {s.RenameColumn("", b.ListID, "Col0X", "x"), "column_not_found"},
		"option of text":   {s.AddOption("", b.ListID, title, "a", "A"), "invalid_column_type"},
		"option twice":     {s.AddOption("", b.ListID, status, "done", "Done"), "invalid_arguments"},
		"remove no option": {s.RemoveOption("", b.ListID, status, "nonsense"), "invalid_option_id"},
	} {
		wantEqual(t, name, codeOf(t, c.err), c.code)
	}
	wantEqual(t, "calls of OnPeopleEdit", edits.Load(), int64(0))
	if f := fieldOf(info(t, b, b.ListID, row), title); f != nil {
		t.Errorf("a refused edit was applied: %v", f)
	}
	wantEqual(t, "rows", len(listAll(t, b, b.ListID, 10)), 2)
	if _, err := s.Columns("F0NOTHING"); err == nil || err.Error() != "list_not_found" {
		t.Errorf("columns of no list: %v", err)
	}
}

func TestPeopleEditColumns(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	s := b.Server
	status, reason := b.Column(t, "Status", "select"), b.Column(t, "Reason", "text")
	row := b.Create(t, "", boardtest.SelectCell(status, "blocked"), boardtest.TextCell(reason, "why"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.RenameColumn("", b.ListID, status, "State"))
	b.Column(t, "State", "select")
	wantEqual(t, "key", fieldOf(info(t, b, b.ListID, row), status)["key"], "status")

	must(s.AddOption("", b.ListID, status, "", "Waiting"))
	columns, err := s.Columns(b.ListID)
	must(err)
	made := columns[6].Options[len(columns[6].Options)-1].Value
	if !hasPrefixAndUpper(made, "Opt") {
		t.Errorf("option value %q, want Opt…", made)
	}
	must(s.EditRow("", b.ListID, row, boardtest.SelectCell(status, made)))

	// A cell keeps the option that is gone; nobody can write it again.
	must(s.RemoveOption("", b.ListID, status, made))
	wantEqual(t, "status", fieldOf(info(t, b, b.ListID, row), status)["select"], array{made})
	wantEqual(t, "again", codeOf(t, s.EditRow("", b.ListID, row, boardtest.SelectCell(status, made))), "invalid_option_id")

	// The listing was rendered before: removal must reach it.
	wantEqual(t, "reason", textOf(listAll(t, b, b.ListID, 10)[0], reason), "why")
	must(s.RemoveColumn("", b.ListID, reason))
	if f := fieldOf(listAll(t, b, b.ListID, 10)[0], reason); f != nil {
		t.Errorf("the removed column is listed: %v", f)
	}
	wantEqual(t, "updated_by", listAll(t, b, b.ListID, 10)[0]["updated_by"], board.HumanUser)
	wantEqual(t, "write to it", codeOf(t, s.EditRow("", b.ListID, row, boardtest.TextCell(reason, "x"))), "invalid_column_id")
}

// Each constructor of a cell writes what the API takes; without values it
// clears.
func TestCellConstructors(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, status, number := b.Column(t, "Title", "text"), b.Column(t, "Status", "select"), b.Column(t, "Completion", "number")
	row := b.Create(t, "")
	for _, c := range []struct {
		set, clear boardtest.Cell
		read       string
	}{
		{boardtest.TextCell(title, "x"), boardtest.TextCell(title, ""), `"x"`},
		{boardtest.SelectCell(status, "done"), boardtest.SelectCell(status), `["done"]`},
		{boardtest.NumberCell(number, 12.5), boardtest.NumberCell(number), `[12.5]`},
		{boardtest.UserCell("Col01", alice, bob), boardtest.UserCell("Col01"), `["U0ALICE","W0BOB"]`},
		{boardtest.DateCell("Col02", "2026-09-30"), boardtest.DateCell("Col02"), `["2026-09-30"]`},
	} {
		column := c.set["column_id"].(string)
		if err := b.Server.EditRow("", b.ListID, row, c.set); err != nil {
			t.Fatal(err)
		}
		f := fieldOf(info(t, b, b.ListID, row), column)
		got := textOf(info(t, b, b.ListID, row), column)
		for _, key := range []string{"select", "number", "user", "date"} {
			if v, ok := f[key]; ok {
				got = v
			}
		}
		wantEqual(t, "set", got, decode(t, c.read))
		if err := b.Server.EditRow("", b.ListID, row, c.clear); err != nil {
			t.Fatal(err)
		}
		if f := fieldOf(info(t, b, b.ListID, row), column); f != nil {
			t.Errorf("cleared: %v", f)
		}
	}
	err := b.Server.EditRow("", b.ListID, row, boardtest.SelectCell(status, "nonsense"))
	if err == nil || err.Error() != `invalid_option_id: [ERROR] column `+status+` has no option "nonsense"` {
		t.Errorf("error %v", err)
	}
}

func TestRestoreRow(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title := b.Column(t, "Title", "text")
	row := b.Create(t, "", boardtest.TextCell(title, "task"))
	step := b.Create(t, row, boardtest.TextCell(title, "step"))
	restore := func(id string) string { return codeOf(t, b.Server.RestoreRow("", b.ListID, id)) }
	wantEqual(t, "restore what is there", restore(row), "record_not_found")
	wantEqual(t, "restore what never was", restore("Rec0NOTHING"), "record_not_found")
	b.Must(t, "slackLists.items.deleteMultiple", object{"list_id": b.ListID, "ids": array{row}})
	wantEqual(t, "restore", restore(row), "")
	restored := info(t, b, b.ListID, row)
	wantEqual(t, "title", textOf(restored, title), "task")
	wantEqual(t, "updated_by", restored["updated_by"], board.HumanUser)
	wantEqual(t, "created_by", restored["created_by"], board.BotUser)
	wantEqual(t, "step", info(t, b, b.ListID, step)["parent_record_id"], row)
	wantEqual(t, "rows", len(listAll(t, b, b.ListID, 1)), 2)
}

// A list made by hand: keys are ids, options are opaque.
func TestHandMadeList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	list, err := b.Server.AddList(alice, "By hand", boardtest.Column{Name: "Aufgabe", Type: "text"},
		boardtest.Column{Name: "Status", Type: "select", Options: []boardtest.Choice{{Label: "In Progress"}, {Label: "Done"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := b.Must(t, "files.info", object{"file": list})["file"]
	status := dig(t, file, "list_metadata", "schema", 1).(object)
	wantEqual(t, "key", status["key"], status["id"])
	done := dig(t, status, "options", "choices", 1).(object)
	if value := done["value"].(string); done["label"] != "Done" || !hasPrefixAndUpper(value, "Opt") || len(value) != 11 {
		t.Errorf("option %v", done)
	}
	create := func(value any) object {
		return b.Call(t, "slackLists.items.create", object{"list_id": list, "initial_fields": array{
			object{"column_id": status["id"], "select": array{value}},
		}})
	}
	wantCode(t, create("Done"), "invalid_option_id")
	wantCode(t, create(done["value"]), "")
	for name, columns := range map[string][]boardtest.Column{
		"no columns":    nil,
		"no text first": {{Name: "N", Type: "number"}},
	} {
		if _, err := b.Server.AddList("", "X", columns...); codeOf(t, err) == "" {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	changes := b.Server.Changes()
	for range 3 {
		b.Create(t, "")
		b.Create(t, "") // a reader that does not look holds nobody up
		<-changes
	}
	if _, err := b.Server.AddRow("", b.ListID); err != nil {
		t.Fatal(err)
	}
	<-changes
	wantCode(t, b.Call(t, "slackLists.items.create", object{"list_id": b.ListID, "parent_item_id": "Rec0NOTHING"}), "invalid_args")
	select {
	case <-changes:
		t.Error("a refused call was notified")
	default:
	}
}

func TestClosedBoard(t *testing.T) {
	t.Parallel()
	s, err := boardtest.Open(boardtest.Options{Options: board.Options{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := s.AddRow("", s.ListID()); !errors.Is(err, board.ErrClosed) {
		t.Errorf("add after close: %v", err)
	}
}
