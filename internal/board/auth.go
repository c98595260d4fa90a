package board

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// An Identity is a caller of the API: a token, and the user it stands for.
type Identity struct {
	// Token is compared in constant time and must not be empty.
	Token string

	// UserID is what created_by and updated_by show, such as "U0ALICE".
	UserID string

	// Unlimited says that Limits do not count its calls: the page's own.
	Unlimited bool
}

// callers are the identities that the board knows, with the hashes of their
// tokens.
type callers []struct {
	Identity
	sum [sha256.Size]byte
}

func newCallers(identities []Identity) (callers, error) {
	all := make(callers, len(identities))
	seen := make(map[string]bool)
	for i, id := range identities {
		if id.Token == "" || id.UserID == "" || seen[id.Token] {
			return nil, fmt.Errorf("identity %q needs a user id and a token of its own", id.UserID)
		}
		seen[id.Token] = true
		all[i].Identity, all[i].sum = id, sha256.Sum256([]byte(id.Token))
	}
	return all, nil
}

// identify returns the caller of a request by the token in its header. Every
// token is compared, each in constant time, so that neither its length nor its
// position shows.
func (all callers) identify(h http.Header) (*Identity, error) {
	token := bearer(h)
	if token == "" {
		return nil, refuse("not_authed")
	}
	sum := sha256.Sum256([]byte(token))
	var found *Identity
	for i := range all {
		if subtle.ConstantTimeCompare(sum[:], all[i].sum[:]) == 1 {
			found = &all[i].Identity
		}
	}
	if found == nil {
		return nil, refuse("invalid_auth")
	}
	return found, nil
}

func bearer(h http.Header) string {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
