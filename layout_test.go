// Package otm_test holds the rules of the layout: who may import whom, and
// which package owns which dependency. DESIGN says why; each rule has its
// reason beside it.
package otm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pkg is a package as go list tells it.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// owners name the package, or the trees of packages, that may import a dependency.
var owners = map[string]string{
	"github.com/fsnotify/fsnotify":    "otm/pipeline/inbox/watch",              // overflow, lost watches and limits are handled once
	"github.com/slack-go/slack":       "otm/slacklist",                         // its decode traps stay behind one door
	"github.com/coder/websocket":      "otm/dispatch/gateway",                  // the read limit and the reader belong together
	"github.com/pelletier/go-toml/v2": "otm/internal/config",                   // strict decoding in one place
	"golang.org/x/text/unicode/norm":  "otm/pipeline",                          // one rule for when two names are the same
	"golang.org/x/sys/unix":           "otm/internal/durable otm/internal/app", // rename without overwriting; is this a terminal?
	"github.com/rogpeppe/go-internal": "otm/cmd/otm",                           // user stories, in tests only
	"go.uber.org/goleak":              "otm/internal/leak",                     // in tests only
	"github.com/spf13/cobra":          "otm/internal otm/scripts/man",          // commands: cli, submit, install and app
	"github.com/spf13/cobra/doc":      "otm/scripts/man",                       // manual pages: its Markdown library stays out of the binaries
	"github.com/google/uuid":          "otm/pipeline",                          // ids of drops
	"github.com/chromedp/chromedp":    "otm/internal/app",                      // the page in a real browser, in tests only
	"github.com/chromedp/cdproto":     "otm/internal/app",                      // comes with chromedp
	"github.com/spf13/pflag":          "otm/internal",                          // comes with cobra
	"github.com/ncruces/go-sqlite3":   "otm/internal/sqlite",                   // durable settings and locks in one place
	"github.com/pressly/goose/v3":     "otm/core/store",                        // numbered migrations
	"github.com/jackc/pgx/v5":         "otm/core/store",                        // PostgreSQL
	"github.com/danielgtaylor/huma":   "otm/internal/api",                      // forms, and the document that comes from them
	"github.com/prometheus":           "otm/internal/api",                      // metrics
}

func TestOwners(t *testing.T) {
	for _, p := range list(t) {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for dep, owner := range owners {
				if under(imported, dep) && !slices.ContainsFunc(strings.Fields(owner), func(o string) bool { return under(p.ImportPath, o) }) {
					t.Errorf("%s imports %s, which %s owns", p.ImportPath, imported, owner)
				}
			}
		}
	}
}

func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// mayImport lists, for our packages, which of ours they may import besides
// themselves. A package that is not here may import none.
var mayImport = map[string][]string{
	"otm/internal/crash":               {},
	"otm/internal/crash/crashtest":     {"otm/internal/crash"}, // in tests only
	"otm/internal/safe":                {},
	"otm/internal/logx":                {"otm/internal/durable"},
	"otm/internal/daemon":              {},
	"otm/internal/durable":             {"otm/internal/crash"},
	"otm/internal/lock":                {"otm/internal/durable"},
	"otm/internal/patience":            {},
	"otm/internal/datadir":             {"otm/internal/durable"},
	"otm/internal/loopback":            {},
	"otm/internal/sqlite":              {"otm/internal/crash", "otm/internal/durable"},
	"otm/internal/cli":                 {"otm/internal/safe", "otm/pipeline"},
	"otm/internal/config":              {"otm/internal/durable", "otm/internal/json5", "otm/pipeline"},
	"otm/internal/json5":               {},
	"otm/internal/hook":                {},
	"otm/internal/notify":              {"otm/core", "otm/internal/durable", "otm/internal/explain", "otm/internal/hook", "otm/internal/incident", "otm/internal/safe", "otm/pipeline", "otm/slacklist"},
	"otm/internal/incident":            {"otm/core", "otm/internal/explain"},
	"otm/internal/notify/notifytest":   {}, // in tests only
	"otm/internal/tokens":              {"otm/internal/durable", "otm/internal/lock", "otm/pipeline"},
	"otm/internal/install":             {"otm/heartbeat", "otm/internal/cli", "otm/internal/config", "otm/internal/durable", "otm/internal/lock", "otm/internal/patience", "otm/internal/safe", "otm/pipeline"},
	"otm/skills":                       {}, // a text
	"otm/internal/fsck":                {"otm/core", "otm/core/outbox", "otm/dispatch", "otm/internal/durable", "otm/internal/explain", "otm/internal/patience", "otm/internal/safe", "otm/internal/view", "otm/pipeline", "otm/pipeline/counter", "otm/pipeline/drop", "otm/pipeline/inbox"},
	"otm/internal/board":               {"otm/internal/crash", "otm/internal/durable", "otm/internal/lock", "otm/internal/loopback", "otm/internal/sqlite"}, // it is the double of Slack: no client of ours
	"otm/internal/board/boardtest":     {"otm/internal/board", "otm/pipeline"},                                                                              // in tests only
	"otm/internal/page":                {"otm/internal/durable", "otm/internal/loopback", "otm/internal/view", "otm/pipeline"},                              // it sends what view sums up; all else comes from a Source
	"otm/pipeline":                     {},
	"otm/core":                         {"otm/pipeline"}, // it decides, and is pure
	"otm/core/store":                   {"otm/core", "otm/internal/crash", "otm/internal/durable", "otm/internal/datadir", "otm/internal/lock", "otm/internal/sqlite", "otm/pipeline"},
	"otm/core/store/storetest":         {"otm/core/store"},           // in tests only
	"otm/core/store/pgtest":            {},                           // in tests only
	"otm/internal/ordered":             {},                           // one JSON object for all who keep what others wrote
	"otm/core/coretest":                {"otm/core", "otm/pipeline"}, // in tests only
	"otm/slacklist/differ":             {"otm/core", "otm/internal/crash", "otm/internal/explain", "otm/pipeline"},
	"otm/slacklist/boardsink":          {"otm/core", "otm/core/outbox", "otm/internal/crash", "otm/pipeline", "otm/slacklist/differ"},
	"otm/core/outbox":                  {"otm/core", "otm/internal/crash", "otm/internal/durable", "otm/internal/explain", "otm/pipeline", "otm/pipeline/rendering"},
	"otm/pipeline/rendering":           {"otm/internal/durable", "otm/pipeline"},
	"otm/internal/engine":              {"otm/core", "otm/core/outbox", "otm/internal/explain", "otm/pipeline", "otm/slacklist/boardsink", "otm/slacklist/differ"},
	"otm/internal/before":              {"otm/core", "otm/internal/crash", "otm/internal/durable", "otm/pipeline"},
	"otm/pipeline/drop":                {"otm/internal/ordered", "otm/pipeline"},
	"otm/pipeline/inbox":               {"otm/internal/crash", "otm/internal/durable", "otm/internal/safe", "otm/pipeline", "otm/pipeline/drop"},
	"otm/pipeline/inbox/watch":         {"otm/internal/durable"},
	"otm/pipeline/counter":             {"otm/internal/crash", "otm/internal/durable", "otm/internal/lock", "otm/internal/ordered", "otm/pipeline", "otm/pipeline/drop", "otm/pipeline/inbox"},
	"otm/pipeline/inject":              {"otm/core", "otm/core/outbox", "otm/heartbeat", "otm/internal/crash", "otm/internal/explain", "otm/pipeline", "otm/pipeline/counter", "otm/pipeline/drop", "otm/pipeline/inbox"},
	"otm/pipeline/complete":            {"otm/core", "otm/core/outbox", "otm/heartbeat", "otm/internal/explain", "otm/pipeline"},
	"otm/slacklist":                    {"otm/internal/crash", "otm/internal/durable", "otm/internal/lock", "otm/pipeline"},
	"otm/dispatch":                     {"otm/core", "otm/core/outbox", "otm/heartbeat", "otm/internal/crash", "otm/internal/durable", "otm/internal/explain", "otm/internal/hook", "otm/internal/lock", "otm/internal/ordered", "otm/internal/patience", "otm/internal/safe", "otm/pipeline"},
	"otm/dispatch/gateway":             {},
	"otm/dispatch/gateway/gatewaytest": {},
	"otm/heartbeat":                    {"otm/internal/durable", "otm/internal/explain", "otm/internal/safe", "otm/pipeline"},
	"otm/internal/explain":             {"otm/internal/safe", "otm/pipeline"}, // data and texts: it reads nothing
	"otm/internal/view":                {"otm/core", "otm/core/outbox", "otm/dispatch", "otm/heartbeat", "otm/internal/durable", "otm/internal/explain", "otm/internal/incident", "otm/internal/lock", "otm/internal/patience", "otm/pipeline", "otm/pipeline/drop", "otm/pipeline/inbox", "otm/slacklist"},
	"otm/internal/why":                 {"otm/core", "otm/core/outbox", "otm/dispatch", "otm/heartbeat", "otm/internal/explain", "otm/internal/patience", "otm/internal/safe", "otm/internal/view", "otm/pipeline", "otm/pipeline/counter", "otm/pipeline/inbox"},
	"otm/internal/submit":              {"otm/internal/cli", "otm/internal/config", "otm/internal/durable", "otm/internal/datadir", "otm/internal/lock", "otm/internal/safe", "otm/pipeline", "otm/pipeline/counter", "otm/pipeline/drop", "otm/pipeline/inbox", "otm/pipeline/rendering"},
	"otm/internal/app":                 {"otm"},                                                                                                                                                                                                                    // the one place that knows them all
	"otm/internal/api":                 {"otm/core", "otm/dispatch", "otm/internal/app", "otm/internal/cli", "otm/internal/explain", "otm/internal/loopback", "otm/internal/tokens", "otm/internal/view", "otm/internal/why", "otm/pipeline", "otm/pipeline/drop"}, // forms and HTTP: app does the work
	"otm/cmd":                          {"otm/internal/api", "otm/internal/app", "otm/internal/cli", "otm/internal/submit"},
	"otm/scripts":                      {},
	"otm/scripts/bench":                {"otm/core", "otm/core/store", "otm/dispatch/gateway/gatewaytest", "otm/pipeline", "otm/pipeline/rendering"}, // it looks on while programs work
	"otm/scripts/man":                  {"otm/internal/app"},                                                                                         // manual pages of the commands
	"otm/internal/leak":                {},                                                                                                           // for tests
}

func TestImportDirection(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath == "otm" {
			continue
		}
		allowed, known := mayImport[p.ImportPath]
		for root, of := range mayImport {
			if !known && (root == "otm/cmd" || root == "otm/scripts") && under(p.ImportPath, root) {
				allowed, known = of, true
			}
		}
		if !known {
			t.Errorf("package %s has no rule: say in mayImport what it may import", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if under(imported, "otm") && !slices.ContainsFunc(allowed, func(a string) bool { return imported == a || a == "otm" }) {
				t.Errorf("%s must not import %s", p.ImportPath, imported)
			}
		}
	}
}

// TestCoreIsPure: what decides reads no file and asks nobody: no
// network, no program, no database, and so no language model.
func TestCoreIsPure(t *testing.T) {
	found := false
	for _, p := range list(t) {
		if p.ImportPath != "otm/core" {
			continue
		}
		found = true
		for _, banned := range []string{"os", "io/fs", "net"} {
			if slices.Contains(p.Imports, banned) {
				t.Errorf("%s imports %s", p.ImportPath, banned)
			}
		}
		for _, banned := range []string{"net/http", "crypto/tls", "os/exec", "database/sql"} {
			if slices.Contains(p.Deps, banned) {
				t.Errorf("%s links %s", p.ImportPath, banned)
			}
		}
	}
	if !found {
		t.Error("there is no package otm/core")
	}
}

// TestSmallCommands keeps otm-create and otm-update small: agents call them
// hundreds of times, and hold no credentials that a network could take. (net and
// database/sql/driver come with uuid and cobra, and do nothing by themselves.)
func TestSmallCommands(t *testing.T) {
	banned := map[string]string{
		"net/http":                     "no network: drops are files",
		"crypto/tls":                   "no network",
		"github.com/coder/websocket":   "no network",
		"github.com/gorilla/websocket": "no network",
		"github.com/slack-go/slack":    "no board",
		"database/sql":                 "no database",
		"otm/internal/sqlite":          "no database",
		"github.com/fsnotify/fsnotify": "no watcher: --wait looks by itself",
		"otm/internal/app":             "the components",
		"otm/internal/board":           "the components",
	}
	for _, p := range list(t) {
		if p.ImportPath != "otm/cmd/otm-create" && p.ImportPath != "otm/cmd/otm-update" {
			continue
		}
		for dep, why := range banned {
			if slices.Contains(p.Deps, dep) {
				t.Errorf("%s links %s: %s", p.ImportPath, dep, why)
			}
		}
	}
	for _, p := range list(t) {
		if under(p.ImportPath, "otm/cmd") && p.ImportPath != "otm/cmd/otm" && slices.Contains(p.Deps, "otm/internal/api") {
			t.Errorf("%s links otm/internal/api: only otm serves the HTTP API", p.ImportPath)
		}
	}
	exists := slices.ContainsFunc(list(t), func(p pkg) bool { return slices.Contains(p.Deps, "net/http") })
	if !exists {
		t.Error("no package links net/http any more: the list above is out of date")
	}
}

// Migrations are numbered without gaps, each number once: two that were made side by side have
// to be put in order.
func TestMigrationsAreNumbered(t *testing.T) {
	names, err := filepath.Glob("core/store/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(filepath.Base(name), want) {
			t.Errorf("%s: want the number %s", name, want)
		}
	}
}

// namesOfDatabases are the files that may name a database, to give the name to
// internal/sqlite. A package that opens a database itself can make others lose
// commits.
var namesOfDatabases = []string{"core/store/dialect.go", "core/store/store.go", "internal/board/dir.go", "internal/config/dir.go"}

func TestDatabasesAreOpenedInOnePlace(t *testing.T) {
	name := regexp.MustCompile(`\.db"|-wal"|-shm"`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/sqlite/") {
			return err
		}
		text, err := os.ReadFile(path)
		if name.Match(text) && !slices.Contains(namesOfDatabases, filepath.ToSlash(path)) {
			t.Errorf("%s names the file of a database: only internal/sqlite opens one", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoTestCode keeps what only tests need out of the binaries.
func TestNoTestCode(t *testing.T) {
	for _, p := range list(t) {
		if !under(p.ImportPath, "otm/cmd") {
			continue
		}
		for _, d := range p.Deps {
			if d == "testing" || strings.HasSuffix(d, "test") && under(d, "otm") {
				t.Errorf("%s links %s", p.ImportPath, d)
			}
		}
	}
}

// TestC27TestsCleanUp: tests that make directories or start processes run in
// leak.Main, which removes and ends these if the tests are killed (C27: tests that
// ran into their timeout left four boards and five directories).
func TestC27TestsCleanUp(t *testing.T) {
	makes := regexp.MustCompile(`\.TempDir\(|os\.MkdirTemp\(|exec\.Command`)
	made, held := map[string]string{}, map[string]bool{} // by directory
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		dir := filepath.Dir(name)
		if makes.Match(text) {
			made[dir] = name
		}
		held[dir] = held[dir] || bytes.Contains(text, []byte("leak.Main(")) || bytes.Contains(text, []byte("leak.Run("))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, name := range made {
		if !held[dir] && dir != "internal/leak" {
			t.Errorf("%s makes a directory or starts a process: add to its package\n\tfunc TestMain(m *testing.M) { os.Exit(leak.Main(m)) }", name)
		}
	}
}
