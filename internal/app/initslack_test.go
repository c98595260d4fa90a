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
	"otm/internal/config"
)

// initSlack runs otm init --slack against a board that stands in for Slack.
func initSlack(t *testing.T, b *boardtest.Board, dir, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	return initSlackWith(t, b, dir, "", stdin, args...)
}

// initSlackWith is initSlack with a token in the environment.
func initSlackWith(t *testing.T, b *boardtest.Board, dir, token, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr, Getenv: func(name string) string {
		return map[string]string{"SLACK_API_URL": b.URL, "HOME": t.TempDir(), "SLACK_BOT_TOKEN": token}[name]
	}}
	args = append([]string{"--dir", dir, "init", "--slack"}, args...)
	code = cli.Run(t.Context(), commandNamed("otm", s, args), args, s, Explain)
	return code, stdout.String(), stderr.String()
}

// Slack in one sitting: a token and a list. Run again, also with the list's link,
// it changes nothing.
func TestInitSlackAgain(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := filepath.Join(t.TempDir(), "otm")
	code, out, errs := initSlack(t, b, dir, b.Token+"\n", "--token-stdin", "--list", b.ListID, "--json")
	if code != cli.OK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var r slackReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.ListID != b.ListID || len(r.Changed) != 2 || len(r.Missing) != 0 || len(r.Advised) != 0 {
		t.Errorf("report %+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, slackTokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info, err)
	}
	before := snapshotOf(t, dir)
	for _, args := range [][]string{nil, {"--list", r.ListID}, {"--list", "https://example.slack.com/lists/T0TEAM/" + r.ListID + "?x=y"}} {
		if code, out, errs := initSlack(t, b, dir, "", args...); code != cli.OK || strings.Contains(out, "written") {
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
	code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
	if code != cli.Partial {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, want := range []string{`missing   column "Project 2" is missing`, `missing   options of the column "Status": agent_done`, `optional  column "Result" is missing`, "name the one that is meant in [slack.columns]"} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q:\n%s", want, out)
		}
	}
	if got := content(t, filepath.Join(dir, "otm.toml")); got != mine {
		t.Errorf("otm.toml was edited by hand, and is now\n%s", got)
	}
	lines := "list_id    = \"" + b.ListID + "\"\ntoken_file = \"secrets/slack\"\n"
	if !strings.Contains(out, "\n[slack]\n"+lines) || !strings.Contains(errs, "stays as it is; put these lines into it") {
		t.Errorf("the lines to put in are not told: %s%s", out, errs)
	}
	put(t, filepath.Join(dir, "otm.toml"), strings.Replace(mine, "budget", lines+"budget", 1))
	// mended
	if err := b.Server.RenameColumn("", b.ListID, b.Column(t, "Project", "text"), "Project 2"); err != nil {
		t.Fatal(err)
	}
	if err := b.Server.AddOption("", b.ListID, b.Column(t, "Status", "select"), "agent_done", "Agent Done"); err != nil {
		t.Fatal(err)
	}
	code, out, errs = initSlack(t, b, dir, "")
	if code != cli.Partial || !strings.Contains(out, `missing   options of the column "Assignee": devdas`) {
		t.Errorf("an agent without an option: exit %d: %s%s", code, out, errs)
	}
	if err := b.Server.AddOption("", b.ListID, b.Column(t, "Assignee", "select"), "", "devdas"); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := initSlack(t, b, dir, ""); code != cli.OK {
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
		{"no list", b.Token, []string{"--token-stdin"}, cli.Usage, "no list is named"},
		{"no such list", b.Token, []string{"--token-stdin", "--list", "F0NOTHERE12"}, cli.BadConfig, "shared with the app"},
		{"not an id", b.Token, []string{"--token-stdin", "--list", "tasks"}, cli.Usage, "begins with F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "otm")
			code, out, errs := initSlack(t, b, dir, c.stdin, c.args...)
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

// A token file of one's own is used, and otm init never writes to it.
func TestInitSlackOwnTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	own := filepath.Join(t.TempDir(), "token")
	put(t, own, b.Token+"\n")
	dir := slackDir(t, fmt.Sprintf("[slack]\ntoken_file = %q # mine\n", own), "")
	toml := content(t, filepath.Join(dir, "otm.toml"))
	code, out, errs := initSlack(t, b, dir, "", "--list", b.ListID)
	if code != cli.OK || !strings.Contains(out, "[slack]\nlist_id    = \""+b.ListID+"\"\n\n") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, _, errs = initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
	if code != cli.Usage || !strings.Contains(errs, "a file of your own") {
		t.Errorf("a token is handed in: exit %d: %s", code, errs)
	}
	if content(t, own) != b.Token+"\n" || content(t, filepath.Join(dir, "otm.toml")) != toml || exists(filepath.Join(dir, slackTokenFile)) {
		t.Error("a file was written")
	}
}

// No other token is taken where the file of one's own holds none.
func TestInitSlackEmptyTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "[slack]\ntoken_file = \"mine\"\n", b.Token)
	put(t, filepath.Join(dir, "mine"), "\n")
	if code, _, errs := initSlack(t, b, dir, "", "--list", b.ListID); code != cli.Credentials || content(t, filepath.Join(dir, "mine")) != "\n" {
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
	code, _, errs := initSlack(t, b, dir, "", "--list", b.ListID)
	if code != cli.Credentials || !strings.Contains(errs, "is no regular file") || !strings.Contains(errs, "otm: hint: otm init --slack --token-stdin   # paste the token") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID); code != cli.OK || !strings.Contains(out, ", 0 rows\n") {
		t.Errorf("mended: exit %d: %s%s", code, out, errs)
	}
}

// A token of the environment stays there alone.
func TestInitSlackTokenOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	for range 2 {
		code, out, errs := initSlackWith(t, b, dir, b.Token, "", "--list", b.ListID)
		if got := content(t, filepath.Join(dir, "otm.toml")); code != cli.OK || got != slackConfig(b.ListID, false) {
			t.Errorf("exit %d: %s%s%s", code, out, errs, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("the token was written: %v", err)
	}
}

// TestInitSlackWritesItsOwnFile: an otm.toml that nobody has edited is written
// whole, and read back it names list and token.
func TestInitSlackWritesItsOwnFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for _, before := range []string{string(configTemplate), "", slackConfig("F0123456789", true), slackConfig("F0123456789", false)} {
		dir := slackDir(t, before, "")
		code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
		c, err := config.Load(dir, func(string) string { return "" })
		if code != cli.OK || err != nil || c.Slack.ListID != b.ListID || c.Slack.TokenFile != filepath.Join(dir, slackTokenFile) || strings.Contains(errs, "put these lines") {
			t.Errorf("exit %d: %s%s: %v, %+v", code, out, errs, err, c)
		}
		if got := content(t, filepath.Join(dir, "otm.toml")); strings.Count(got, "\n") != strings.Count(string(configTemplate), "\n") {
			t.Errorf("it wrote\n%s", got)
		}
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
			if code, out, errs := initSlack(t, b, dir, token, args...); code == cli.OK {
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
		if code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin"); code != cli.OK || content(t, filepath.Join(dir, slackTokenFile)) != b.Token+"\n" {
			t.Errorf("linked %t: exit %d: %s%s", linked, code, out, errs)
		}
	}
}

// Whichever call to the board fails, that is told, and run again all is done.
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
				if err := b.Server.AddOption("", b.ListID, b.Column(t, "Assignee", "select"), "", "devdas"); err != nil {
					t.Fatal(err)
				}
				dir := slackDir(t, before, "")
				run := func() (code int, said string) {
					code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
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
				if code, said := run(); code != cli.OK {
					t.Errorf("after %s failed, again: exit %d: %s", failed, code, said)
				}
				if got := content(t, filepath.Join(dir, slackTokenFile)); got != b.Token+"\n" || content(t, filepath.Join(dir, "otm.toml")) != before {
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
		"a token file of one's own": {"[slack]\ntoken_file = \"mine\"\n", "[slack]\ntoken_file = \"mine\"\n", cli.OK},
		"half an edit":              {"[slack\n", "[slack\n", cli.BadConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardtest.Start(t)
			dir := slackDir(t, "", "")
			b.Faults.Next("files.info", meanwhile(func() { put(t, filepath.Join(dir, "otm.toml"), c.edited) }))
			code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
			if got := content(t, filepath.Join(dir, "otm.toml")); code != c.code || got != strings.ReplaceAll(c.after, "LIST", b.ListID) {
				t.Errorf("exit %d: %s%s%s", code, out, errs, got)
			}
		})
	}
}

// otm init --slack that is run again before its lines stand in otm.toml says that, and
// how to see them again.
func TestInitSlackBeforeItsLinesArePasted(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "[agents.devdas]\nworkspace = \"/tmp\"\n", "")
	code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
	if !strings.Contains(out, "list_id    = ") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = initSlack(t, b, dir, "")
	if code != cli.Usage || !strings.Contains(errs, "otm.toml names no list yet: put the lines into it") || !strings.Contains(errs, "--list F") {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
	if _, out, errs = initSlack(t, b, dir, "", "--list", b.ListID); !strings.Contains(out, "list_id    = ") {
		t.Errorf("with the list: %s%s", out, errs)
	}
}
