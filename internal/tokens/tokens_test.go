package tokens

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 14, 8, 0, 0, 0, time.UTC)

func newFile(t *testing.T) File {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"secrets", "locks"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Open(dir)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	made, err := f.EnsureOwner(t.Context(), "ada", now)
	if !made || err != nil {
		t.Fatal(made, err)
	}
	if made, err = f.EnsureOwner(t.Context(), "ada", now); made || err != nil {
		t.Errorf("made again: %v, %v", made, err)
	}
	owner, err := Read(f.OwnerPath())
	if err != nil {
		t.Fatal(err)
	}
	token, err := f.Create(t.Context(), "ci", Operator, "", now)
	if err != nil || token == owner || !strings.HasPrefix(token, "otm_") || len(token) < 40 {
		t.Fatalf("%q, %v", token, err)
	}
	if _, err := f.Create(t.Context(), "CI", Viewer, "", now); !errors.Is(err, ErrTaken) {
		t.Errorf("a name twice: %v", err)
	}
	for _, tt := range []struct {
		token, name string
		role        Role
	}{{owner, "ada", Owner}, {token, "ci", Operator}} {
		got, err := f.Find(tt.token)
		if err != nil || got == nil || got.Name != tt.name || got.Role != tt.role {
			t.Errorf("found %+v, %v, want %s", got, err, tt.name)
		}
	}
	devdas, err := f.Create(t.Context(), "devdas", Bot, "devdas", now)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Find(devdas); err != nil || got == nil || got.Agent != "devdas" {
		t.Errorf("the token of an agent is %+v, %v", got, err)
	}
	for _, wrong := range []string{"", token + "x", token[:20]} {
		if got, err := f.Find(wrong); got != nil || err != nil {
			t.Errorf("%q is %+v, %v", wrong, got, err)
		}
	}
	data, err := os.ReadFile(f.path())
	if err != nil || strings.Contains(string(data), token) || strings.Contains(string(data), owner) {
		t.Errorf("the file holds a token: %s, %v", data, err)
	}
	if err := f.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Find(token); got != nil || err != nil {
		t.Errorf("a revoked token is %+v, %v", got, err)
	}
	if err := f.Revoke(t.Context(), "ci"); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoked twice: %v", err)
	}
	if err := f.Revoke(t.Context(), "ada"); !errors.Is(err, ErrLastOwner) {
		t.Errorf("the last owner: %v", err)
	}
}

// A lost file of the owner is made anew, and the lost token is worthless.
func TestOwnerLost(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	if _, err := f.EnsureOwner(t.Context(), "ada", now); err != nil {
		t.Fatal(err)
	}
	former, err := Read(f.OwnerPath())
	if err == nil {
		err = os.Remove(f.OwnerPath())
	}
	if err != nil {
		t.Fatal(err)
	}
	if made, err := f.EnsureOwner(t.Context(), "ada", now); !made || err != nil {
		t.Fatal(made, err)
	}
	if got, err := f.Find(former); got != nil || err != nil {
		t.Errorf("the lost token is %+v, %v", got, err)
	}
	if all, err := f.List(); len(all) != 1 || err != nil {
		t.Errorf("there are %+v, %v", all, err)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, r := range Roles {
		if want := r == Owner || r == Operator; r.Steers() != want {
			t.Errorf("%s steers: %v", r, r.Steers())
		}
	}
}

func TestBrokenFile(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	if err := os.WriteFile(f.path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Find("otm_x"); err == nil || !strings.Contains(err.Error(), "tokens.json") {
		t.Errorf("error %v", err)
	}
	if _, err := f.Create(t.Context(), "ci", Operator, "", now); err == nil {
		t.Error("a broken file is written over")
	}
}
