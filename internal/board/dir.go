package board

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"otm/internal/durable"
)

// Files in Options.Dir.
const (
	rowsFile   = "board.db"
	formerFile = "rows.jsonl" // where former versions kept the rows
	lockFile   = "lock"
	tokenFile  = "token"
)

// LockPath is the lock that a running board holds in its directory.
func LockPath(dir string) string { return filepath.Join(dir, lockFile) }

// tokenPrefix begins the token that Open makes.
const tokenPrefix = "xoxb-otm-"

// loadToken reads the token of the directory, or makes one if there is no file.
func loadToken(dir string, log *slog.Logger) (string, error) {
	path := filepath.Join(dir, tokenFile)
	token, err := ReadToken(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		if info, statErr := os.Stat(path); err == nil && statErr == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn("token file can be read by others", "file", path, "mode", info.Mode().Perm().String())
		}
		return token, err
	}
	token = tokenPrefix + strings.ToLower(rand.Text())
	if err := durable.WriteNew(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return token, nil
}

// ReadToken returns the token of the board in dir. The error matches
// fs.ErrNotExist if no board was ever opened there.
func ReadToken(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
	raw, err := durable.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsAny(token, " \t\r\n\x00") { // a power failure leaves NUL bytes, which anybody can guess
		return "", fmt.Errorf("token file %q holds no token: remove it, and the board makes one", path)
	}
	return token, nil
}

// An Endpoint says where a board can be reached; it is the endpoint.json.
type Endpoint struct {
	// URL is the base of the API and ends in "/".
	URL string `json:"url,omitempty"`
	// Page is the address of the web page.
	Page string `json:"page"`
	// ListID is the default list.
	ListID string `json:"listId,omitempty"`
	// PID is the process that serves.
	PID int `json:"pid"`
	// Limits is "slack" if the board refuses calls beyond Slack's limits, and
	// empty if it refuses none.
	Limits string `json:"limits,omitempty"`
}

// EndpointPath is the path of the endpoint.json of the board in dir.
func EndpointPath(dir string) string { return filepath.Join(dir, "endpoint.json") }

// ReadEndpoint returns where the board of dir says it listens. The error
// matches fs.ErrNotExist if none runs. A killed board leaves its endpoint
// behind: only a call to it proves that it runs.
func ReadEndpoint(dir string) (Endpoint, error) { return ReadEndpointAt(EndpointPath(dir)) }

// ReadEndpointAt reads what Write wrote.
func ReadEndpointAt(path string) (e Endpoint, err error) {
	raw, err := durable.ReadFile(path)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return Endpoint{}, fmt.Errorf("read %q: %w", path, err)
	}
	return e, nil
}

// Write writes the endpoint to a file, durable; on an error there is none.
func (e *Endpoint) Write(path string) error {
	raw, err := json.Marshal(e)
	if err == nil {
		err = durable.Replace(path, append(raw, '\n'))
	}
	if err != nil {
		RemoveEndpoint(path) // it may stand, although not durably
		return fmt.Errorf("write endpoint: %w", err)
	}
	return nil
}

// RemoveEndpoint removes what Write wrote, if it is there.
func RemoveEndpoint(path string) error {
	err := durable.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
