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

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
)

// slackInit runs otm init --slack against a board that stands in for Slack.
func slackInit(t *testing.T, b *boardtest.Board, dir, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr, Getenv: func(name string) string {
		return map[string]string{"SLACK_API_URL": b.URL, "HOME": t.TempDir()}[name]
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
	b.Create(t, "", board.TextCell(title, "old"), board.TextCell(id, "T-00041"))
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
	b := boardtest.Start(t, func(o *board.Options) {
		o.Identities = append(o.Identities, board.Identity{Token: "xoxb-few", UserID: "U0FEW", Scopes: []string{board.ScopeListsRead}})
	})
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

// A token file of one's own is used, and stays where it is.
func TestInitSlackOwnTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	own := filepath.Join(t.TempDir(), "token")
	put(t, own, b.Token+"\n")
	toml := fmt.Sprintf("[slack]\ntoken_file = %q # mine\n", own)
	dir := slackDir(t, toml, "")
	code, out, errs := slackInit(t, b, dir, "", "--list", b.ListID)
	if want := fmt.Sprintf("[slack]\nlist_id = %q\ntoken_file = %q # mine\n", b.ListID, own); code != cli.OK || content(t, filepath.Join(dir, "otm.toml")) != want {
		t.Errorf("exit %d: %s%s%s", code, out, errs, content(t, filepath.Join(dir, "otm.toml")))
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("a second token file: %v", err)
	}
	put(t, own, "xoxb-old")
	if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin"); code != cli.OK || strings.TrimSpace(content(t, own)) != b.Token {
		t.Errorf("a new token: exit %d: %s%s", code, out, errs)
	}
}

// An otm.toml that is a link, as of a folder of dot files, stays one.
func TestInitSlackLinkedConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	mine := filepath.Join(t.TempDir(), "mine.toml")
	put(t, mine, "# mine\n")
	if err := errors.Join(os.Remove(filepath.Join(dir, "otm.toml")), os.Symlink(mine, filepath.Join(dir, "otm.toml"))); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID); code != cli.OK {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if info, err := os.Lstat(filepath.Join(dir, "otm.toml")); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(content(t, mine), b.ListID) {
		t.Errorf("link %v, %v; %s", info, err, content(t, mine))
	}
}

// A token that does not fit the list replaces none that does.
func TestInitSlackKeepsAGoodToken(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t, func(o *board.Options) {
		o.Identities = append(o.Identities, board.Identity{Token: "xoxb-few", UserID: "U0FEW", Scopes: []string{board.ScopeListsRead}})
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

// An otm.toml that is not understood is left as it is, before anything is made;
// with the lines that are said, it goes on.
func TestInitSlackUnusualConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const toml = "slack = { budget = 0.5 }\n"
	dir := slackDir(t, toml, "")
	for hint, args := range map[string][]string{
		"below a line [slack]": {"--token-stdin", "--create-list", "x"}, `set token_file = "secrets/slack" of slack in otm.toml by hand`: {"--token-stdin", "--list", b.ListID},
	} {
		code, out, errs := slackInit(t, b, dir, b.Token, args...)
		if code != cli.BadConfig || !strings.Contains(errs, hint) || content(t, filepath.Join(dir, "otm.toml")) != toml {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	}
	if n := b.Faults.Count("slackLists.create"); n != 0 {
		t.Errorf("%d lists were made", n)
	}
	put(t, filepath.Join(dir, "otm.toml"), fmt.Sprintf("slack = { budget = 0.5, list_id = %q, token_file = \"secrets/slack\" }\n", b.ListID))
	if code, out, errs := slackInit(t, b, dir, b.Token, "--token-stdin"); code != cli.OK {
		t.Errorf("by hand: exit %d: %s%s", code, out, errs)
	}
}
