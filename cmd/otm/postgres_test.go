package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"otm/core/store"
	"otm/core/store/pgtest"
	"otm/internal/crash/crashtest"
)

// ownDatabase are the scripts that are about otm.db or a disk, that run without otm.toml, or
// that begin a second data directory: two do not share a store.
var ownDatabase = []string{"disk_full", "doctor", "modes", "own_files_odd", "skill_commands", "store_lost", "usage"}

// TestScriptsOnPostgres runs user stories with the store in PostgreSQL: a third of them,
// others each day, and those of testdata/postgres, which can say
//
//	server away|back|restarts
func TestScriptsOnPostgres(t *testing.T) {
	own, err := filepath.Glob("testdata/postgres/*.txtar")
	if err != nil || len(own) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return !bytes.Contains(text, []byte("expand otm.toml $DATA/otm.toml")) || slices.Contains(ownDatabase, nameOf(file))
	})
	files := append(own, crashtest.Some(t, all, len(all)/3)...)
	schemas := map[string]*pgtest.Schema{} // by the base name of the script's directory
	for _, file := range files {
		schemas["script-"+nameOf(file)] = pgtest.New(t)
	}
	of := func(dir string) *pgtest.Schema { return schemas[filepath.Base(dir)] }
	commands := maps.Clone(helpers)
	commands["server"] = func(ts *testscript.TestScript, neg bool, args []string) {
		s := of(ts.Getenv("WORK"))
		do := map[string]func() error{"away": s.Away, "back": s.Back, "restarts": s.End}[strings.Join(args, " ")]
		if neg || do == nil {
			ts.Fatalf("usage: server away|back|restarts")
		}
		ts.Check(do())
	}
	testscript.Run(t, testscript.Params{
		Files:               mostWithin(t, files),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv(storeEnv, of(env.WorkDir).URL)
			if err := setup(env); err != nil {
				return err
			}
			env.Defer(func() {
				if _, err := os.Stat(filepath.Join(env.Getenv("DATA"), store.FileName)); err == nil {
					env.T().Fatal(fmt.Sprintf("there is %s", store.FileName))
				}
			})
			return nil
		},
		Cmds:      commands,
		Condition: condition,
		Deadline:  deadline(t),
	})
}

// nameOf is the name of a script's file.
func nameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }
