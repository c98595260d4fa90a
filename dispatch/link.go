package dispatch

import (
	"encoding/json"
	"path/filepath"
	"time"

	"otm/internal/durable"
)

// Link says whether a resident dispatcher is connected to the gateway. It stands
// in board/gateway.json, and holds as long as the dispatcher's heartbeat is
// fresh: a killed dispatcher leaves its last one behind.
type Link struct {
	Up     bool      `json:"up"`
	Since  time.Time `json:"since"`            // of the connection, or of its loss
	Reason string    `json:"reason,omitempty"` // a gateway.Reason if the gateway refuses us; "": it is not reached
	Error  string    `json:"error,omitempty"`  // why it is not up, for people
}

// LinkPath is where the link of a data directory stands.
func LinkPath(dir string) string { return filepath.Join(dir, "board", "gateway.json") }

// ReadLink reads the link. The error matches fs.ErrNotExist if no resident
// dispatcher of this directory uses a gateway.
func ReadLink(dir string) (Link, error) {
	var l Link
	data, err := durable.ReadFile(LinkPath(dir))
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	return l, err
}

// WriteLink replaces the link, not durably: after a crash it is stale anyway.
func WriteLink(dir string, l Link) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.ReplaceVolatile(LinkPath(dir), append(data, '\n'))
}
