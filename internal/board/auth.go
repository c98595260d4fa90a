package board

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
)

// An Identity is a caller of the API: a token, and the user it stands for.
type Identity struct {
	// Token must not be empty, and must be no other caller's.
	Token string

	// UserID is what created_by and updated_by show, such as "U0ALICE".
	UserID string

	// Unlimited says that Limits do not count its calls: the page's own.
	Unlimited bool
}

// callers are the identities that the board knows, by the hashes of their tokens:
// how long a look-up takes says nothing about a token.
type callers map[[sha256.Size]byte]*Identity

func newCallers(identities []Identity) (callers, error) {
	all := make(callers)
	for _, id := range identities {
		sum := sha256.Sum256([]byte(id.Token))
		if id.Token == "" || id.UserID == "" || all[sum] != nil {
			return nil, fmt.Errorf("identity %q needs a user id and a token of its own", id.UserID)
		}
		all[sum] = &id
	}
	return all, nil
}

// identify returns the caller of a request by the token in its header.
func (all callers) identify(h http.Header) (*Identity, error) {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return nil, refuse("not_authed")
	}
	if found := all[sha256.Sum256([]byte(token))]; found != nil {
		return found, nil
	}
	return nil, refuse("invalid_auth")
}
