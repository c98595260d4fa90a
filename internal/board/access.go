package board

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
)

// Access levels of a list, in rising order.
const (
	levelNone  = ""
	levelRead  = "read"
	levelWrite = "write"
	levelOwner = "owner"
)

var levelOrder = []string{levelNone, levelRead, levelWrite, levelOwner}

// higher returns the higher of two levels.
func higher(a, b string) string {
	if slices.Index(levelOrder, a) >= slices.Index(levelOrder, b) {
		return a
	}
	return b
}

func reaches(have, need string) bool { return higher(have, need) == have }

// allScopes are granted where an identity names none.
var allScopes = []string{ScopeListsRead, ScopeListsWrite, ScopeFilesRead, ScopeFilesWrite, ScopeChatWrite, ScopeHistory}

func (id *Identity) hasScope(scope string) bool {
	return scope == "" || slices.Contains(id.Scopes, scope)
}

// levelOf is what the identity may do with the list.
func (id *Identity) levelOf(l *list) string {
	if l.Owner == id.UserID {
		return levelOwner
	}
	level := l.Users[id.UserID]
	for _, channel := range id.Channels {
		level = higher(level, l.Channels[channel])
	}
	return level
}

// A listFinder is a state or a transaction on top of one.
type listFinder interface{ findList(id string) *list }

// readable returns the list if the identity may see it.
func (id *Identity) readable(in listFinder, listID string) (*list, error) {
	l := in.findList(listID)
	if l == nil || id.levelOf(l) == levelNone {
		return nil, refuse("list_not_found")
	}
	return l, nil
}

// writable returns the list if the identity may change its rows. Somebody who
// may only read is told list_not_found, as seen live.
func (c *call) writable(in listFinder, listID string) (*list, error) {
	l, err := c.who.readable(in, listID)
	if err != nil {
		return nil, err
	}
	if reaches(c.who.levelOf(l), levelWrite) {
		return l, nil
	}
	if c.quirks.PermissionDenied {
		return nil, refuse("permission_denied")
	}
	return nil, refuse("list_not_found")
}

// identify finds whose token it is. Every token is compared, each in constant
// time, so that neither length nor position shows.
func (s *Server) identify(token string) (*Identity, error) {
	if token == "" {
		return nil, refuse("not_authed")
	}
	sum := sha256.Sum256([]byte(token))
	var found *Identity
	for i := range s.identities {
		k := &s.identities[i]
		if subtle.ConstantTimeCompare(sum[:], k.sum[:]) == 1 {
			found = &k.Identity
		}
	}
	if found == nil {
		return nil, refuse("invalid_auth")
	}
	return found, nil
}

// A keyholder is an identity with the hash of its token.
type keyholder struct {
	Identity
	sum [sha256.Size]byte
}

func newKeyholder(id Identity) keyholder {
	if id.Scopes == nil {
		id.Scopes = allScopes
	}
	return keyholder{Identity: id, sum: sha256.Sum256([]byte(id.Token))}
}

func (id *Identity) checkScope(scope string) error {
	if id.hasScope(scope) {
		return nil
	}
	e := refuse("missing_scope")
	e.Needed, e.Provided = scope, strings.Join(id.Scopes, ",")
	return e
}
