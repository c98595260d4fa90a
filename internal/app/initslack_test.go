package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/safe"
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

// Slack in one sitting: a token, a list that is made, shared and complete; run
// again, nothing is changed.
func TestInitSlackMakesAList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := filepath.Join(t.TempDir(), "otm")
	code, out, errs := initSlack(t, b, dir, b.Token+"\n", "--token-stdin", "--create-list", "Agent tasks", "--share-with", "U0ALICE", "--share-with", "C0TEAM", "--json")
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
	for _, want := range []string{`missing   column "Project 2" is missing`, `missing   option "agent_done" of column "Status"`, `optional  column "Result" is missing`, "name the one that is meant in [slack.columns]"} {
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
	if code != cli.Partial || !strings.Contains(out, `option "devdas" of column "Assignee"`) {
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

// A token file of one's own is used, and stays as it is: its name in otm.toml,
// and what is in it.
func TestInitSlackOwnTokenFile(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	own := filepath.Join(t.TempDir(), "token")
	put(t, own, b.Token+"\n")
	dir := slackDir(t, fmt.Sprintf("[slack]\ntoken_file = %q # mine\n", own), "")
	want := content(t, filepath.Join(dir, "otm.toml"))
	before := modTime(t, own)
	for _, args := range [][]string{{"--list", b.ListID}, {"--token-stdin"}, nil} {
		code, out, errs := initSlack(t, b, dir, b.Token, args...)
		if got := content(t, filepath.Join(dir, "otm.toml")); code != cli.OK || got != want {
			t.Errorf("with %v: exit %d: %s%s%s", args, code, out, errs, got)
		}
		if named := strings.Contains(out, "[slack]\nlist_id    = \""+b.ListID+"\"\n\n"); named != (len(args) == 2) {
			t.Errorf("with %v: the line of the list alone is told: %v: %s", args, named, out)
		}
		want = fmt.Sprintf("[slack]\nlist_id = %q\ntoken_file = %q # mine\n", b.ListID, own)
		put(t, filepath.Join(dir, "otm.toml"), want)
	}
	if !modTime(t, own).Equal(before) {
		t.Error("the file was written")
	}
	put(t, own, "xoxb-another")
	code, _, errs := initSlack(t, b, dir, b.Token, "--token-stdin")
	if code != cli.Usage || !strings.Contains(errs, "a file of your own") || content(t, own) != "xoxb-another" || content(t, filepath.Join(dir, "otm.toml")) != want {
		t.Errorf("a new token: exit %d: %s", code, errs)
	}
	put(t, own, "")
	if code, _, errs := initSlack(t, b, dir, ""); code != cli.Credentials || !strings.Contains(errs, own) {
		t.Errorf("an empty file: exit %d: %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, slackTokenFile)); !os.IsNotExist(err) {
		t.Errorf("a second token file: %v", err)
	}
	if code, _, errs := initSlack(t, b, dir, b.Token, "--token-stdin"); code != cli.OK || content(t, own) != b.Token+"\n" {
		t.Errorf("a token for the empty file: exit %d: %s", code, errs)
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
	if code != cli.Credentials || !strings.Contains(errs, "is no regular file") || !strings.Contains(errs, "otm: hint: mend "+safe.Quote(path)+", or put the token in again: otm init --slack --token-stdin --list "+b.ListID) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID); code != cli.OK || !strings.Contains(out, ", 0 rows of 10\n") {
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

func modTime(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// An otm.toml that is a link belongs to the person: it is not replaced, also if
// nothing is there yet.
func TestInitSlackLinkedConfig(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for _, there := range []bool{true, false} {
		dir := slackDir(t, "", "")
		link, target := filepath.Join(dir, "otm.toml"), filepath.Join(filepath.Dir(dir), "mine.toml")
		if err := errors.Join(os.Remove(link), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		if there {
			put(t, target, string(configTemplate))
		}
		code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
		if to, err := os.Readlink(link); code != cli.OK || err != nil || to != target || exists(target) != there || !strings.Contains(out, "\nlist_id    = ") {
			t.Errorf("there %v: exit %d: it leads to %q, %v: %s%s", there, code, to, err, out, errs)
		}
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

// TestC21ListThatNobodySees: a list that the app made is seen by nobody else. So
// that is said, with the command that shares it.
func TestC21ListThatNobodySees(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const says = "otm: note: nobody but the app can see the list yet; share it with yourself"
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{[]string{"--token-stdin", "--create-list", "Agent tasks"}, true},
		{[]string{"--token-stdin", "--create-list", "Agent tasks", "--share-with", "U0ALICE"}, false},
		{[]string{"--token-stdin", "--list", b.ListID}, false},
	} {
		dir := slackDir(t, "", "")
		code, out, errs := initSlack(t, b, dir, b.Token, tt.args...)
		if code != cli.OK || strings.Contains(errs, says) != tt.want || strings.Contains(errs, "--share-with U0123456789\n") != tt.want {
			t.Errorf("%q: exit %d: %s%s", tt.args, code, out, errs)
		}
	}
}

// TestC21StillUnseen: a list that a former run made and shared with nobody is still
// seen by nobody when the command runs again, also after a crash. Only sharing it
// ends that.
func TestC21StillUnseen(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const says = "otm: note: nobody but the app can see the list yet; share it with yourself"
	agent := fmt.Sprintf("[agents.devdas]\nworkspace = %q\n", t.TempDir())
	dir := slackDir(t, agent, "")
	run := func(unseen bool, args ...string) {
		t.Helper()
		code, out, errs := initSlack(t, b, dir, b.Token, args...)
		if code != cli.OK || strings.Contains(errs, says) != unseen || unseen && strings.Contains(errs, "all is set") {
			t.Errorf("%q: exit %d: %s%s", args, code, out, errs)
		}
	}
	run(true, "--token-stdin", "--create-list", "Agent tasks")
	run(true, "--token-stdin", "--create-list", "Agent tasks")
	var made madeList
	if err := json.Unmarshal([]byte(content(t, filepath.Join(dir, "board", "made-list"))), &made); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "otm.toml"), fmt.Sprintf("[slack]\nlist_id = %q\ntoken_file = \"secrets/slack\"\n%s", made.ListID, agent))
	run(true)
	run(false, "--share-with", "U0ALICE")
	run(false)
	if n := b.Faults.Count("slackLists.create"); n != 1 {
		t.Errorf("%d lists were made", n)
	}
}

// TestInitSlackForgetsAMadeList: the list that a former run made is deleted, or was
// made by another token. Then the command makes another one.
func TestInitSlackForgetsAMadeList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for name, tt := range map[string]struct{ kept, says string }{
		"deleted":          {`{"listId":"F0NOTHERE12"}`, "otm: note: the list F0NOTHERE12, which "},
		"by a former otm":  {"F0NOTHERE12\n", "board/made-list names, is not there any more; another one is made"},
		"of another token": {fmt.Sprintf(`{"listId":%q,"team":"other","user":"U0OTHER"}`, b.ListID), ""},
		"not readable":     {"{", ""},
	} {
		dir := slackDir(t, "", "")
		put(t, filepath.Join(dir, "board", "made-list"), tt.kept)
		before := b.Faults.Count("slackLists.create")
		code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--create-list", "Agent tasks")
		if code != cli.OK || !strings.Contains(errs, tt.says) || b.Faults.Count("slackLists.create") != before+1 {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
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

// A run that cannot look at the list that it made, or that a former run made, leaves
// it to the next run.
func TestInitSlackLookFails(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	args := []string{"--token-stdin", "--create-list", "Agent tasks"}
	for _, tt := range []struct { // as it is made, and as it is found again
		fault string
		code  int
		hint  string
	}{{"file_not_found", cli.BadConfig, "check the list's id"}, {"missing_scope", cli.Credentials, "otm init --slack --token-stdin"}} {
		b.Faults.Next("files.info", boardtest.ErrorCode(tt.fault))
		if code, _, errs := initSlack(t, b, dir, b.Token, args...); code != tt.code || !strings.Contains(errs, "otm: hint: "+tt.hint) {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, args...); code != cli.OK {
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
	code, _, errs := initSlack(t, b, dir, b.Token, args...)
	if code != cli.Failed || !strings.Contains(errs, "share the list with U0ALICE") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, args...); code != cli.OK {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
	if n := b.Faults.Count("slackLists.create"); n != 1 {
		t.Errorf("%d lists were made", n)
	}
	args[2] = "Another one"
	if code, _, errs := initSlack(t, b, dir, b.Token, args...); code != cli.Usage || !strings.Contains(errs, `"Agent tasks" is configured already`) {
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
					code, out, errs := initSlack(t, b, dir, "", "--token-file", token, "--create-list", "Agent tasks", "--share-with", "U0ALICE")
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
				made, written := b.Faults.Count("slackLists.create"), exists(filepath.Join(dir, "board", "made-list"))
				if code, said := run(); code != cli.OK {
					t.Errorf("after %s failed, again: exit %d: %s", failed, code, said)
				}
				if again := b.Faults.Count("slackLists.create") - made; (again == 0) != written || made+again > 2 {
					t.Errorf("after %s failed, which told %q, %d lists were asked for once more", failed, said, again)
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

// Where the answer is lost, it is said that nobody knows.
func TestInitSlackMadeOrNot(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	args := []string{"--token-stdin", "--create-list", "x"}
	b.Faults.Next("slackLists.create", boardtest.ApplyThenReset())
	if code, _, errs := initSlack(t, b, dir, b.Token, args...); code != cli.TryLater || !strings.Contains(errs, "whether it was made is not known") || !strings.Contains(errs, "otm: hint: run this again") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, args...); code != cli.OK {
		t.Errorf("again: exit %d: %s%s", code, out, errs)
	}
}

// A list that was made is used by the next run, also if otm.toml was broken
// meanwhile and names no list.
func TestInitSlackMadeAndConfigBroken(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	dir := slackDir(t, "", "")
	const broken = "[slack\n"
	args := []string{"--token-stdin", "--create-list", "x", "--share-with", "U0ALICE"}
	b.Faults.Next("slackLists.create", meanwhile(func() { put(t, filepath.Join(dir, "otm.toml"), broken) }))
	code, _, errs := initSlack(t, b, dir, b.Token, args...)
	if code != cli.BadConfig || content(t, filepath.Join(dir, "otm.toml")) != broken {
		t.Fatalf("exit %d: %s", code, errs)
	}
	put(t, filepath.Join(dir, "otm.toml"), "[agents.a]\nkind = \"human\"\n")
	if code, _, errs := initSlack(t, b, dir, b.Token, "--token-stdin"); code != cli.Usage || !regexp.MustCompile("hint: otm init --slack --token-stdin --list F[A-Z0-9]+\n").MatchString(errs) {
		t.Errorf("without a list: exit %d: %s", code, errs)
	}
	if code, out, errs := initSlack(t, b, dir, b.Token, args...); code != cli.Partial || !strings.Contains(out, "[slack]\nlist_id    = ") {
		t.Errorf("going on: exit %d: %s%s", code, out, errs)
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
