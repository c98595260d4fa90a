// Package tokens keeps the tokens with which people and programs act by commands. Each has
// a name and a role. They stand in secrets/tokens.json of the data directory.
//
// The file holds hashes only: a token is shown once, when it is made. secrets/owner holds
// the token of the owner, who made the directory. Commands on a terminal use it.
package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
)

// Role says what the holder of a token may do.
type Role string

// The roles.
const (
	Owner    Role = "owner"    // everything, tokens included
	Operator Role = "operator" // reviews and steers tasks and agents
	Viewer   Role = "viewer"   // reads
	Bot      Role = "bot"      // reports and asks, and decides nothing
)

// Roles lists them.
var Roles = []Role{Owner, Operator, Viewer, Bot}

// Steers reports whether the role may review, and steer tasks and agents.
func (r Role) Steers() bool { return r == Owner || r == Operator }

// Token is a token without its secret.
type Token struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Hash      string    `json:"sha256"`
	CreatedAt time.Time `json:"createdAt"`
	// Agent is the only one for whom a bot acts; "": the token was made for no agent.
	Agent string `json:"agent,omitempty"`
}

// Errors of Create and Revoke.
var (
	ErrTaken     = errors.New("a token has this name already")
	ErrUnknown   = errors.New("there is no token of this name")
	ErrLastOwner = errors.New("it is the last token of an owner: nobody could make another one")
)

// File is the tokens of a data directory.
type File struct{ dir string }

// Open returns the tokens of a data directory.
func Open(dir string) File { return File{dir} }

func (f File) path() string { return filepath.Join(f.dir, "secrets", "tokens.json") }

// OwnerPath is the file that holds the owner's token.
func (f File) OwnerPath() string { return filepath.Join(f.dir, "secrets", "owner") }

type table struct {
	Tokens []Token `json:"tokens"`
}

// List returns the tokens, the oldest first.
func (f File) List() ([]Token, error) {
	data, err := durable.ReadFile(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var t table
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens %q cannot be read: %w; restore the file, or remove it and make the tokens anew with: otm init", f.path(), err)
	}
	return t.Tokens, nil
}

// Find returns the token with a secret; nil: there is none, or it was revoked.
func (f File) Find(token string) (*Token, error) {
	all, err := f.List()
	if i := indexOf(all, token); i >= 0 {
		return &all[i], err
	}
	return nil, err
}

func indexOf(all []Token, token string) int {
	hash := []byte(hashOf(token))
	return slices.IndexFunc(all, func(t Token) bool { return subtle.ConstantTimeCompare([]byte(t.Hash), hash) == 1 })
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Read reads a secret from a file.
func Read(path string) (string, error) {
	data, err := durable.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// newToken makes a token. Its prefix lets scanners of secrets find one in a wrong place.
func newToken(name string, role Role, now time.Time) (string, Token) {
	random := make([]byte, 32)
	rand.Read(random) // it never fails
	token := "otm_" + base64.RawURLEncoding.EncodeToString(random)
	return token, Token{Name: name, Role: role, Hash: hashOf(token), CreatedAt: now.UTC().Truncate(time.Second)}
}

// Create makes a token, and returns its secret. agent is the only one for whom a bot may act;
// "": that stays open. The error may be ErrTaken.
func (f File) Create(ctx context.Context, name string, role Role, agent string, now time.Time) (token string, err error) {
	err = f.change(ctx, func(all []Token) error {
		if named(all, name) >= 0 {
			return ErrTaken
		}
		var made Token
		token, made = newToken(name, role, now)
		made.Agent = agent
		return f.write(append(all, made))
	})
	return token, err
}

// Revoke removes a token. The error may be ErrUnknown or ErrLastOwner.
func (f File) Revoke(ctx context.Context, name string) error {
	return f.change(ctx, func(all []Token) error {
		i := named(all, name)
		if i < 0 {
			return ErrUnknown
		}
		left := slices.Delete(slices.Clone(all), i, i+1)
		if all[i].Role == Owner && !slices.ContainsFunc(left, func(t Token) bool { return t.Role == Owner }) {
			return ErrLastOwner
		}
		return f.write(left)
	})
}

func named(all []Token, name string) int {
	return slices.IndexFunc(all, func(t Token) bool { return pipeline.FoldName(t.Name) == pipeline.FoldName(name) })
}

// EnsureOwner makes the owner's token if secrets/owner is missing, and reports whether it
// did. It replaces a former token of an owner with this name. If we crash before the file
// is written, the next call replaces the token again.
func (f File) EnsureOwner(ctx context.Context, name string, now time.Time) (made bool, err error) {
	if has, err := f.hasOwner(); has || err != nil {
		return false, err
	}
	err = f.change(ctx, func(all []Token) error {
		if has, err := f.hasOwner(); has || err != nil {
			return err // another process made it
		}
		switch i := named(all, name); {
		case i >= 0 && all[i].Role == Owner:
			all = slices.Delete(slices.Clone(all), i, i+1)
		case i >= 0:
			name += " (owner)"
		}
		token, entry := newToken(name, Owner, now)
		if err := f.write(append(all, entry)); err != nil {
			return err
		}
		made = true
		return durable.WriteNew(f.OwnerPath(), []byte(token+"\n"))
	})
	return made, err
}

func (f File) hasOwner() (bool, error) {
	_, err := durable.Stat(f.OwnerPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// change calls do with the tokens, under the lock of the file.
func (f File) change(ctx context.Context, do func(all []Token) error) error {
	l, err := lock.Acquire(ctx, filepath.Join(f.dir, "locks", "tokens"), 10*time.Second)
	if err != nil {
		return err
	}
	all, err := f.List()
	if err == nil {
		err = do(all)
	}
	return errors.Join(err, l.Release())
}

func (f File) write(all []Token) error {
	data, err := json.MarshalIndent(table{all}, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(f.path(), append(data, '\n'))
}
