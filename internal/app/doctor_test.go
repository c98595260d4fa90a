package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// patient is a directory on a list that stands in for Slack's, in which all is
// well.
type patient struct {
	*testing.T
	h *Home
	b *boardtest.Board
}

// poorToken may read and write the list, and not its files.
const poorToken = "xoxb-poor"

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{T: t}
	p.b = boardtest.Start(t, func(o *board.Options) {
		o.RowLimit = 10
		o.Identities = append(o.Identities, board.Identity{Token: poorToken, UserID: "U0POOR", Scopes: []string{board.ScopeListsRead, board.ScopeListsWrite}})
	})
	dir, ws := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.b.Server.AddOption("", p.b.ListID, p.b.Column(t, "Assignee", "select"), "devdas", "devdas"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "secrets", "slack"), p.b.Token)
	p.h = reopenHome(t, dir, fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\n[agents.devdas]\nworkspace = %q\ntrigger = \"none\"\n", p.b.ListID, p.b.URL, ws))
	p.beat(time.Now(), heartbeat.Components...)
	return p
}

func (p *patient) beat(at time.Time, ids ...string) {
	p.Helper()
	for _, id := range ids {
		w := heartbeat.NewWriter(p.h.Dir, id, "test", func() time.Time { return at })
		if err := w.Beat(heartbeat.Success, "fine"); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *patient) chmod(mode os.FileMode, name string) {
	p.Helper()
	if err := os.Chmod(filepath.Join(p.h.Dir, name), mode); err != nil {
		p.Fatal(err)
	}
}

func (p *patient) findings() []finding {
	d := &doctor{home: p.h}
	d.examine(p.Context())
	return d.findings
}

// Each thing that is wrong is told, by the check that looks for it and with what
// to do; where all is well, each check says so.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, f := range newPatient(t).findings() {
		if f.Level != fine {
			t.Errorf("all is well, and it says %+v", f)
		}
	}
	tests := []struct {
		name              string
		spoil             func(*patient)
		check, text, hint string
	}{
		{"open directory", func(p *patient) { p.chmod(0o755, "") }, "directory", "has mode 0755", "chmod 700"},
		{"open inbox", func(p *patient) { p.chmod(0o777, "new-tasks") }, "directory", "new-tasks has mode 0777", "chmod 700"},
		{"open token", func(p *patient) { p.chmod(0o644, "secrets/slack") }, "secrets", "others can read", "chmod 600"},
		{"wrong token", func(p *patient) { put(p, filepath.Join(p.h.Dir, "secrets", "slack"), "xoxb-wrong") }, "board", "refuses the token", "otm init --slack --token-stdin"},
		{"token without scopes", func(p *patient) { put(p, filepath.Join(p.h.Dir, "secrets", "slack"), poorToken) }, "board", "lacks the scopes files:read", "add them to the Slack app"},
		{"board that does not answer", func(p *patient) { p.h.Config.Slack.URL = "http://127.0.0.1:1/" }, "board", "does not answer", "curl"},
		{"no such list", func(p *patient) { p.h.Config.Slack.ListID = "F0NOTHING0" }, "board", "file_not_found", "check the list's id"},
		{"option of a status", func(p *patient) {
			if err := p.b.Server.RemoveOption("", p.b.ListID, p.b.Column(p, "Status", "select"), "blocked"); err != nil {
				p.Fatal(err)
			}
		}, "list", `option "blocked" of column "Status"`, "add the option blocked"},
		{"option of an agent", func(p *patient) {
			if err := p.b.Server.RemoveOption("", p.b.ListID, p.b.Column(p, "Assignee", "select"), "devdas"); err != nil {
				p.Fatal(err)
			}
		}, "list", `option "devdas" of column "Assignee"`, "add the option devdas"},
		{"column", func(p *patient) {
			if err := p.b.Server.RemoveColumn("", p.b.ListID, p.b.Column(p, "Status", "select")); err != nil {
				p.Fatal(err)
			}
		}, "list", `column "Status" is missing`, "of the type select"},
		{"another directory on the list", func(p *patient) {
			p.b.Create(p, "", board.TextCell(p.b.Column(p, "Title", "text"), "x"), board.TextCell(p.b.Column(p, "Task ID", "text"), "T-00077"))
			b, err := p.h.board(slog.New(slog.DiscardHandler)).Begin(p.Context())
			if err == nil {
				_, err = b.Create(p.Context(), "", pipeline.Cell{Field: pipeline.FieldTitle, Text: "ours"}) // by which it knows who we are
			}
			if err == nil {
				err = errors.Join(b.Refresh(p.Context(), 0), b.End())
			}
			if err != nil {
				p.Fatal(err)
			}
		}, "list", "1 task on the list was made with this token, and not from this directory", "stop the other one"},
		{"list that is nearly full", func(p *patient) {
			for range 10 {
				p.b.Create(p, "", board.TextCell(p.b.Column(p, "Title", "text"), "x"))
			}
		}, "room", "10 rows of 10", "otm archive"},
		{"no workspace", func(p *patient) { os.Remove(p.h.Config.Agents[0].Workspace) }, "agents", "its workspace is missing", "mkdir -p"},
		{"component that never ran", func(p *patient) { os.Remove(heartbeat.Path(p.h.Dir, heartbeat.Injector)) }, "component", "otm-injector has never run", "otm up"},
		{"component that stopped", func(p *patient) { p.beat(time.Now().Add(-time.Hour), heartbeat.Detector) }, "component", "otm-completion-detector has not run for", "otm up"},
		{"clock that was set back", func(p *patient) { p.beat(time.Now().Add(time.Hour), heartbeat.Detector) }, "clock", "ahead of this machine's clock", "timedatectl"},
		{"drop that waits", func(p *patient) {
			path := filepath.Join(p.h.Box.Dir(inbox.NewTasks), "x.json")
			put(p, path, "{}")
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(path, old, old); err != nil {
				p.Fatal(err)
			}
		}, "backlog", "1 drop waits, the oldest for 1h", "otm status"},
		{"drop that failed", func(p *patient) { put(p, filepath.Join(p.h.Dir, inbox.FailedDir, "x.json"), "{}") }, "failed", "1 drop failed", "otm retry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			tt.spoil(p)
			all := p.findings()
			if !slices.ContainsFunc(all, func(f finding) bool {
				return f.Check == tt.check && f.Level != fine && strings.Contains(f.Text, tt.text) && strings.Contains(f.Hint, tt.hint)
			}) {
				t.Errorf("no %s with %q and the hint %q in\n%+v", tt.check, tt.text, tt.hint, all)
			}
		})
	}
}
