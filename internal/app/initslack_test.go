package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/safe"
)

// slackInit runs otm init --slack against a board that stands in for Slack.
func slackInit(t *testing.T, b *boardtest.Board, dir, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	return slackInitWith(t, b, dir, "", stdin, args...)
}

// slackInitWith is slackInit with a token in the environment.
func slackInitWith(t *testing.T, b *boardtest.Board, dir, token, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr, Getenv: func(name string) string {
		return map[string]string{"SLACK_API_URL": b.URL, "HOME": t.TempDir(), "SLACK_BOT_TOKEN": token}[name]
	}}
	args = append([]string{"--dir", dir, "init", "--slack"}, args...)
	code = cli.Run(t.Context(), commandNamed("otm", s, args), args, s, Explain)
	return code, stdout.String(), stderr.String()
}

// Slack in one sitting: a token, a list that is made, shared and complete; run
// again, nothing is changed.
func TestInitSlackMakesAList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := filepath.Join(t.TempDir(), "otm")
	code, out, errs := slackInit(t, b, dir, b.Token+"\n", "--token-stdin", "--create-list", "Agent tasks", "--share-with", "U0ALICE", "--share-with", "C0TEAM", "--json")
	if code != cli.OK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var r slackReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.ListID == b.ListID || r.Title != "Agent tasks" || len(r.Missing) != 0 || len(r.Advised) != 0 {
		t.Errorf("report %+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, slackTokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info, err)
	}
	if n := b.Faults.Count("slackLists.access.set"); n != 2 {
		t.Errorf("%d calls to share, want one an id", n)
	}
	before := snapshotOf(t, dir)
	for _, args := range [][]string{nil, {"--list", r.ListID}, {"--list", "https://example.slack.com/lists/T0TEAM/" + r.ListID + "?x=y"}} {
		if code, out, errs := slackInit(t, b, dir, "", args...); code != cli.OK || strings.Contains(out, "written") {
			t.Errorf("again with %v: exit %d: %s%s", args, code, out, errs)
		}
	}
	if after := snapshotOf(t, dir); after != before {
		t.Errorf("run again, it changed\n%s\ninto\n%s", before, after)
	}
	if strings.Contains(out+errs+snapshotOf(t, dir), b.Token) {
		t.Error("the token is told")
	}
}

// snapshotOf is what otm init writes, without the token.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "otm.toml"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, slackTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + info.ModTime().String()
}

// An existing list is looked through: what it lacks is said, each with what to
// do, and the counter goes above its ids.
func TestInitSlackLooksThroughAList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	title, id := b.Column(t, "Title", "text"), b.Column(t, "Task ID", "text")
	b.Create(t, "", boardtest.TextCell(title, "old"), boardtest.TextCell(id, "T-00041"))
	dir := filepath.Join(t.TempDir(), "otm")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	mine := "# mine\n[agents.devdas]\nworkspace = \"/tmp\" # stays\n[slack] # here\nbudget = 0.5\n[board]\nlisten = \"127.0.0.1:0\"\n"
	if err := os.WriteFile(filepath.Join(dir, "otm.toml"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Server.RenameColumn("", b.ListID, b.Column(t, "Project 2", "text"), "Project"); err != nil {
		t.Fatal(err)
	}
	if err := b.Server.RemoveColumn("", b.ListID, b.Column(t, "Result", "text")); err != nil {
		t.Fatal(err)
	}
	if err := b.Server.RemoveOption("", b.ListID, b.Column(t, "Status", "select"), "agent_done"); err != nil {
		t.Fatal(err)
	}
	code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
	if code != cli.Partial {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, want := range []string{`missing   column "Project 2" is missing`, `missing   option "agent_done" of column "Status"`, `optional  column "Result" is missing`, "name the one that is meant in [slack.columns]"} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q:\n%s", want, out)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "otm.toml"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# mine\n[agents.devdas]\nworkspace = \"/tmp\" # stays\n[slack] # here\nlist_id = \"" + b.ListID + "\"\ntoken_file = \"secrets/slack\"\nbudget = 0.5\n[board]\nlisten = \"127.0.0.1:0\"\n"
	if string(data) != want {
		t.Errorf("otm.toml is\n%s\nwant\n%s", data, want)
	}
	// mended
	if err := b.Server.RenameColumn("", b.ListID, b.Column(t, "Project", "text"), "Project 2"); err != nil {
		t.Fatal(err)
	}
	if err := b.Server.AddOption("", b.ListID, b.Column(t, "Status", "select"), "agent_done", "Agent Done"); err != nil {
		t.Fatal(err)
	}
	code, out, errs = slackInit(t, b, dir, "")
	if code != cli.Partial || !strings.Contains(out, `option "devdas" of column "Assignee"`) {
		t.Errorf("an agent without an option: exit %d: %s%s", code, out, errs)
	}
	if err := b.Server.AddOption("", b.ListID, b.Column(t, "Assignee", "select"), "", "devdas"); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := slackInit(t, b, dir, ""); code != cli.OK {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	counter, err := os.ReadFile(filepath.Join(dir, "next-task-id.json"))
	if err != nil || !strings.Contains(string(counter), "42") {
		t.Errorf("counter %s, %v", counter, err)
	}
}

// What is wrong is said with the next step, and nothing is written.
func TestInitSlackRefusals(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *boardtest.Options) {
		o.Identities = append(o.Identities, board.Identity{Token: "xoxb-few", UserID: "U0FEW"})
		o.Scopes = map[string][]string{"xoxb-few": {"lists:read"}}
	})
	other, good := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "go od")
	put(t, other, "hello\n")
	put(t, good, b.Token+"\n")
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        string
	}{
		{"no token", "", []string{"--list", b.ListID}, cli.Credentials, "--token-stdin"},
		{"not a token", "hello\n", []string{"--token-stdin", "--list", b.ListID}, cli.Usage, "xoxb-"},
		{"wrong token", "xoxb-wrong", []string{"--token-stdin", "--list", b.ListID}, cli.Credentials, "refuses the token"},
		{"few scopes", "xoxb-few", []string{"--token-stdin", "--list", b.ListID}, cli.Credentials, "lists:write, files:read"},
		{"no list", b.Token, []string{"--token-stdin"}, cli.Usage, "--create-list"},
		{"no such list", b.Token, []string{"--token-stdin", "--list", "F0NOTHERE12"}, cli.BadConfig, "shared with the app"},
		{"not an id", b.Token, []string{"--token-stdin", "--list", "tasks"}, cli.Usage, "begins with F"},
		{"two lists", b.Token, []string{"--token-stdin", "--list", b.ListID, "--create-list", "x"}, cli.Usage, "either"},
		{"nobody to share with", b.Token, []string{"--token-stdin", "--create-list", "x", "--share-with", "nobody"}, cli.Usage, "a person's id begins with U"},
		{"two tokens", b.Token, []string{"--token-stdin", "--token-file", "x", "--list", b.ListID}, cli.Usage, "either --token-stdin or --token-file"},
		{"token file is missing", "", []string{"--token-file", filepath.Join(t.TempDir(), "none"), "--create-list", "Agent tasks", "--share-with", "U0A"}, cli.Credentials,
			"\notm: hint: otm init --slack --token-stdin --create-list 'Agent tasks' --share-with U0A   #"},
		{"token file of something else", "", []string{"--token-file", other, "--list", b.ListID}, cli.Usage, "xoxb-"},
		{"no list for a token file", "", []string{"--token-file", good}, cli.Usage, "otm: hint: otm init --slack --token-file " + safe.Quote(good) + " --list F0123456789\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "otm")
			code, out, errs := slackInit(t, b, dir, c.stdin, c.args...)
			if code != c.code || !strings.Contains(errs, c.says) || !strings.Contains(errs, "otm: hint:") {
				t.Errorf("exit %d, want %d and %q: %s%s", code, c.code, c.says, out, errs)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "otm.toml")); err == nil && strings.Contains(string(data), "\nlist_id") {
				t.Errorf("otm.toml was changed:\n%s", data)
			}
		})
	}
}

// slackDir is a data directory with an otm.toml and maybe a kept token.
func slackDir(t *testing.T, toml, token string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "otm")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "otm.toml"), toml)
	if token != "" {
		if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, slackTokenFile), token)
	}
	return dir
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A token file of one's own is used, and stays as it is: its name in otm.toml,
// and what is in it.
func TestInitSlackOwnTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	own := filepath.Join(t.TempDir(), "token")
	put(t, own, b.Token+"\n")
	dir := slackDir(t, fmt.Sprintf("[slack]\ntoken_file = %q # mine\n", own), "")
	want := fmt.Sprintf("[slack]\nlist_id = %q\ntoken_file = %q # mine\n", b.ListID, own)
	before := modTime(t, own)
	for _, args := range [][]string{{"--list", b.ListID}, {"--token-stdin"}, nil} {
		code, out, errs := slackInit(t, b, dir, b.Token, args...)
		if got := content(t, filepath.Join(dir, "otm.toml")); code != cli.OK || got != want {
			t.Errorf("with %v: exit %d: %s%s%s", args, code, out, errs, got)
		}
	}
	if !modTime(t, own).Equal(before) {
		t.Error("the file was written")
	}
	put(t, own, "xoxb-another")
	code, _, errs := slackInit(t, b, dir, b.Token, "--token-stdin")
	if code != cli.Usage || !strings.Contains(errs, "a file of your own") || content(t, own) != "xoxb-another" || content(t, filepath.Join(dir, "otm.toml")) != want {
		t.Errorf("a new token: exit %d: %s", code, errs)
	}
	put(t, own, "")
	if code, _, errs := slackInit(t, b, dir, ""); code != cli.Credentials || !strings.Contains(errs, own) {
		t.Errorf("an empty file: exit %d: %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("a second token file: %v", err)
	}
	if code, _, errs := slackInit(t, b, dir, b.Token, "--token-stdin"); code != cli.OK || content(t, own) != b.Token+"\n" {
		t.Errorf("a token for the empty file: exit %d: %s", code, errs)
	}
}

// No other token is taken where the file of one's own holds none.
func TestInitSlackEmptyTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "[slack]\ntoken_file = \"mine\"\n", b.Token)
	put(t, filepath.Join(dir, "mine"), "\n")
	if code, _, errs := slackInit(t, b, dir, "", "--list", b.ListID); code != cli.Credentials || content(t, filepath.Join(dir, "mine")) != "\n" {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// What stands in the place of the token and is none is told, with what puts one there.
func TestInitSlackTokenUnreadable(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *boardtest.Options) { o.RowLimit = 10 })
	dir := slackDir(t, "", "")
	path := filepath.Join(dir, slackTokenFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	code, _, errs := slackInit(t, b, dir, "", "--list", b.ListID)
	if code != cli.Credentials || !strings.Contains(errs, "is no regular file") || !strings.Contains(errs, "otm: hint: mend "+safe.Quote(path)+", or put the token in again: otm init --slack --token-stdin --list "+b.ListID) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID); code != cli.OK || !strings.Contains(out, ", 0 rows of 10\n") {
		t.Errorf("mended: exit %d: %s%s", code, out, errs)
	}
}

// A token of the environment stays there alone.
func TestInitSlackTokenOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	for range 2 {
		code, out, errs := slackInitWith(t, b, dir, b.Token, "", "--list", b.ListID)
		if got := content(t, filepath.Join(dir, "otm.toml")); code != cli.OK || got != fmt.Sprintf("[slack]\nlist_id = %q\n", b.ListID) {
			t.Errorf("exit %d: %s%s%s", code, out, errs, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("the token was written: %v", err)
	}
}

func modTime(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// An otm.toml that is a link, as of a folder of dot files, stays one, also where
// nothing is there yet.
func TestInitSlackLinkedConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for name, link := range map[string]string{
		"absolute": "/mine.toml", "relative": "../dots/mine.toml", "of a link": "../dots/other",
		"to nothing yet": "/later.toml", "to nothing yet, relative": "../dots/later.toml", "to nothing yet, of a link": "../dots/other",
		"to nothing yet, past a linked folder": "hop/../later.toml",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := slackDir(t, "", "")
			config := filepath.Join(dir, "otm.toml")
			dots := filepath.Join(filepath.Dir(dir), "dots")
			if strings.HasPrefix(link, "/") {
				link = dots + link
			}
			if err := errors.Join(os.MkdirAll(filepath.Join(dots, "deep"), 0o700), os.Symlink(filepath.Join(dots, "deep"), filepath.Join(dir, "hop")), os.Remove(config), os.Symlink(link, config), os.Symlink("third.toml", filepath.Join(dots, "other"))); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(name, "to nothing") {
				put(t, config, "# mine\n")
			}
			if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID); code != cli.OK {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
			if to, err := os.Readlink(config); err != nil || to != link || !strings.Contains(content(t, config), b.ListID) {
				t.Errorf("leads to %q, %v", to, err)
			}
			if to, err := os.Readlink(filepath.Join(dots, "other")); err != nil || to != "third.toml" {
				t.Errorf("the second link leads to %q, %v", to, err)
			}
		})
	}
}

// A link into a folder that is not there is said before a list is made.
func TestInitSlackLinkIntoNowhere(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	config := filepath.Join(dir, "otm.toml")
	if err := errors.Join(os.Remove(config), os.Symlink("no such/otm.toml", config)); err != nil {
		t.Fatal(err)
	}
	code, _, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--create-list", "x")
	if n := b.Faults.Count("slackLists.create"); code != cli.BadConfig || !strings.Contains(errs, "otm: hint: mkdir -p ") || n != 0 {
		t.Errorf("exit %d, %d lists: %s", code, n, errs)
	}
}

// A token that does not fit the list replaces none that does.
func TestInitSlackKeepsAGoodToken(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *boardtest.Options) {
		o.Identities = append(o.Identities, board.Identity{Token: "xoxb-few", UserID: "U0FEW"})
		o.Scopes = map[string][]string{"xoxb-few": {"lists:read"}}
	})
	dir := slackDir(t, "[slack]\nlist_id = \"F0NOTHERE12\"\ntoken_file = \"secrets/slack\"\n", "xoxb-good")
	for _, args := range [][]string{{"--token-stdin"}, {"--token-stdin", "--list", "F0NOTHERE34"}} {
		for _, token := range []string{b.Token, "xoxb-wrong", "xoxb-few"} {
			if code, out, errs := slackInit(t, b, dir, token, args...); code == cli.OK {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		}
	}
	if got := content(t, filepath.Join(dir, slackTokenFile)); got != "xoxb-good" {
		t.Errorf("the token is %q now", got)
	}
}

// A new token takes the place of the one that we keep, also where secrets/ is a
// link to another place.
func TestInitSlackNewToken(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for _, linked := range []bool{false, true} {
		dir := slackDir(t, fmt.Sprintf("[slack]\nlist_id = %q\ntoken_file = \"secrets/slack\"\n", b.ListID), "xoxb-old")
		if linked {
			other := filepath.Join(filepath.Dir(dir), "vault")
			if err := errors.Join(os.Rename(filepath.Join(dir, "secrets"), other), os.Symlink(other, filepath.Join(dir, "secrets"))); err != nil {
				t.Fatal(err)
			}
		}
		if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin"); code != cli.OK || content(t, filepath.Join(dir, slackTokenFile)) != b.Token+"\n" {
			t.Errorf("linked %t: exit %d: %s%s", linked, code, out, errs)
		}
	}
}

// A list that was made is gone on with where looking at it failed.
func TestInitSlackLookFails(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	args := []string{"--token-stdin", "--create-list", "Agent tasks"}
	for range 2 { // as it is made, and as it is found again
		b.Faults.Next("files.info", boardtest.ErrorCode("file_not_found"))
		if code, _, errs := slackInit(t, b, dir, b.Token, args...); code != cli.BadConfig || !strings.Contains(errs, "otm: hint: check the list's id") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if code, out, errs := slackInit(t, b, dir, b.Token, args...); code != cli.OK {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
	if n := b.Faults.Count("slackLists.create"); n != 1 {
		t.Errorf("%d lists were made", n)
	}
}

// A list that was made is gone on with where sharing it failed.
func TestInitSlackShareFails(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	args := []string{"--token-stdin", "--create-list", "Agent tasks", "--share-with", "U0ALICE"}
	b.Faults.Next("slackLists.access.set", boardtest.ErrorCode("user_not_found"))
	code, _, errs := slackInit(t, b, dir, b.Token, args...)
	if code != cli.Failed || !strings.Contains(errs, "share the list with U0ALICE") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, errs := slackInit(t, b, dir, b.Token, args...); code != cli.OK {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
	if n := b.Faults.Count("slackLists.create"); n != 1 {
		t.Errorf("%d lists were made", n)
	}
	args[2] = "Another one"
	if code, _, errs := slackInit(t, b, dir, b.Token, args...); code != cli.Usage || !strings.Contains(errs, `"Agent tasks" is configured already`) {
		t.Errorf("another list: exit %d: %s", code, errs)
	}
}

// Whichever call to the board fails, that is told, and run again all is done, with the list that was
// made, if it was.
func TestInitSlackWhereTheBoardFails(t *testing.T) {
	t.Parallel()
	const before = "[agents.devdas]\nworkspace = \"/tmp\"\n"
	for name, fault := range map[string]boardtest.Fault{
		"not applied": boardtest.Reset(), "refused": boardtest.ErrorCode("internal_error"), "applied": boardtest.ApplyThenReset(), "a page instead": boardtest.HTML(), "no paid plan": boardtest.ErrorCode("paid_teams_only"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				b := boardtest.Start(t)
				token := filepath.Join(t.TempDir(), "to ken")
				put(t, token, b.Token)
				dir := slackDir(t, before, "")
				run := func() (code int, said string) {
					code, out, errs := slackInit(t, b, dir, "", "--token-file", token, "--create-list", "Agent tasks", "--share-with", "U0ALICE")
					return code, out + errs
				}
				for range n - 1 {
					b.Faults.Next("", boardtest.Pass())
				}
				b.Faults.Next("", fault)
				code, said := run()
				b.Faults.Forget()
				failed := ""
				if calls := b.Faults.Calls(); len(calls) >= n {
					failed = calls[n-1].Method
				}
				if told := code != cli.OK && strings.Contains(said, "otm: error: ") && strings.Contains(said, "otm: hint: "); told != (failed != "") || strings.Contains(said, b.Token) {
					t.Errorf("%s failed: exit %d: %s", failed, code, said)
				}
				made, written := b.Faults.Count("slackLists.create"), content(t, filepath.Join(dir, "otm.toml")) != before
				if code, said := run(); code != cli.OK {
					t.Errorf("after %s failed, again: exit %d: %s", failed, code, said)
				}
				if again := b.Faults.Count("slackLists.create") - made; (again == 0) != written || made+again > 2 {
					t.Errorf("after %s failed, which told %q, %d lists were asked for once more", failed, said, again)
				}
				if got := content(t, filepath.Join(dir, slackTokenFile)); got != b.Token+"\n" || !strings.Contains(content(t, filepath.Join(dir, "otm.toml")), "token_file") {
					t.Errorf("after %s failed: the token is not kept", failed)
				}
				if code, said := run(); code != cli.OK || strings.Contains(said, "written") || strings.Contains(said, "missing") {
					t.Errorf("after %s failed, in the end: exit %d: %s", failed, code, said)
				}
				if failed == "" {
					break
				}
			}
		})
	}
}

// Where the answer is lost, it is said that nobody knows.
func TestInitSlackMadeOrNot(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	args := []string{"--token-stdin", "--create-list", "x"}
	b.Faults.Next("slackLists.create", boardtest.ApplyThenReset())
	if code, _, errs := slackInit(t, b, dir, b.Token, args...); code != cli.TryLater || !strings.Contains(errs, "whether it was made is not known") || !strings.Contains(errs, "otm: hint: run this again") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, errs := slackInit(t, b, dir, b.Token, args...); code != cli.OK {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
}

// A list that was made but could not be written down is named, with the line
// that goes on with it.
func TestInitSlackMadeButNotWritten(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	const broken = "[slack\n"
	b.Faults.Next("slackLists.create", meanwhile(func() { put(t, filepath.Join(dir, "otm.toml"), broken) }))
	code, _, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--create-list", "x", "--share-with", "U0ALICE")
	_, line, _ := strings.Cut(errs, "otm: hint: otm init --slack ")
	line, _, _ = strings.Cut(line, "   #")
	if code != cli.Failed || !strings.Contains(line, "--share-with U0ALICE") || content(t, filepath.Join(dir, "otm.toml")) != broken {
		t.Fatalf("exit %d: %s", code, errs)
	}
	put(t, filepath.Join(dir, "otm.toml"), "")
	if code, out, errs := slackInit(t, b, dir, b.Token, strings.Fields(line)...); code != cli.OK {
		t.Errorf("going on with %q: exit %d: %s%s", line, code, out, errs)
	}
	if n := b.Faults.Count("slackLists.create"); n != 1 {
		t.Errorf("%d lists were made", n)
	}
}

// meanwhile is a call that is answered as ever, while something else happens.
func meanwhile(do func()) boardtest.Fault {
	return boardtest.Pick(func(string) boardtest.Fault {
		do()
		return boardtest.Pass()
	})
}

// What a person writes into otm.toml while we look at the list stays.
func TestInitSlackEditedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edited, after string
		code          int
	}{
		"a token file of one's own": {"[slack]\ntoken_file = \"mine\"\n", "[slack]\nlist_id = \"LIST\"\ntoken_file = \"mine\"\n", cli.OK},
		"half an edit":              {"[slack\n", "[slack\n", cli.BadConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardtest.Start(t)
			dir := slackDir(t, "", "")
			b.Faults.Next("files.info", meanwhile(func() { put(t, filepath.Join(dir, "otm.toml"), c.edited) }))
			code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
			if got := content(t, filepath.Join(dir, "otm.toml")); code != c.code || got != strings.ReplaceAll(c.after, "LIST", b.ListID) {
				t.Errorf("exit %d: %s%s%s", code, out, errs, got)
			}
		})
	}
}

// Each way to write otm.toml is edited as it is written, and works.
func TestInitSlackFormsOfConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for before, after := range map[string]string{
		"[board]\n[slack]": "[board]\n[slack]\nlist_id = \"LIST\"\ntoken_file = \"secrets/slack\"\n",
		"[\"slack\"] # mine\r\n\"list_id\" = 'F0' # old\r\n":                "[\"slack\"] # mine\r\ntoken_file = \"secrets/slack\"\r\n\"list_id\" = \"LIST\" # old\r\n",
		"\xef\xbb\xbf[slack]\r\n":                                           "\xef\xbb\xbf[slack]\r\nlist_id = \"LIST\"\r\ntoken_file = \"secrets/slack\"\r\n",
		"slack = { budget = 0.5 }\n":                                        "slack = { list_id = \"LIST\", token_file = \"secrets/slack\", budget = 0.5 }\n",
		"slack.list_id = \"F0\"\n":                                          "slack.token_file = \"secrets/slack\"\nslack.list_id = \"LIST\"\n",
		"[agents.a]\nkind = \"human\"\nlabel = \"\"\"\n[slack]\\\n\"\"\"\n": "[agents.a]\nkind = \"human\"\nlabel = \"\"\"\n[slack]\\\n\"\"\"\n\n[slack]\nlist_id = \"LIST\"\ntoken_file = \"secrets/slack\"\n",
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			dir := slackDir(t, before, "")
			want := strings.ReplaceAll(after, "LIST", b.ListID)
			for range 2 {
				code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
				if got := content(t, filepath.Join(dir, "otm.toml")); code != cli.OK && code != cli.Partial || got != want {
					t.Errorf("exit %d: %s%s%s", code, out, errs, got)
				}
			}
		})
	}
}

// An otm.toml that cannot be edited is left as it is, before anything is made;
// with the lines that are said, it goes on.
func TestInitSlackUnusualConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const toml = "slack.budget = 0.5\n[Slack]\nlist_id = \"F0NOTHERE12\"\n" // which would win
	dir := slackDir(t, toml, "")
	code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
	if code != cli.BadConfig || content(t, filepath.Join(dir, "otm.toml")) != toml {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, key := range []string{"list_id = \"" + b.ListID, `token_file = "secrets/slack`} {
		if !strings.Contains(errs, "otm: hint: set "+key+"\" in the table slack of otm.toml by hand") {
			t.Errorf("no hint about %s: %s", key, errs)
		}
	}
	const noToken = "slack.budget = 0.5\n[Slack]\ntoken_file = \"\"\n" // which would win
	put(t, filepath.Join(dir, "otm.toml"), noToken)
	code, _, errs = slackInit(t, b, dir, b.Token, "--token-stdin", "--create-list", "x")
	if code != cli.BadConfig || !strings.Contains(errs, "below a line [slack]") || content(t, filepath.Join(dir, "otm.toml")) != noToken {
		t.Errorf("exit %d: %s", code, errs)
	}
	if n := b.Faults.Count("slackLists.create"); n != 0 {
		t.Errorf("%d lists were made", n)
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("the token was written: %v", err)
	}
	put(t, filepath.Join(dir, "otm.toml"), fmt.Sprintf("slack.budget = 0.5\n[Slack]\nlist_id = %q\ntoken_file = \"secrets/slack\"\n", b.ListID))
	if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin"); code != cli.OK {
		t.Errorf("by hand: exit %d: %s%s", code, out, errs)
	}
}
