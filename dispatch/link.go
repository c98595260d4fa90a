package dispatch

import (
	"encoding/json"
	"path/filepath"
	"time"

	"otm/internal/durable"
)

// Link says whether a resident dispatcher is connected to the gateway. It is
// board/gateway.json. It is stale if the dispatcher's heartbeat is: a killed
// dispatcher leaves it behind.
type Link struct {
	Up     bool      `json:"up"`
	Since  time.Time `json:"since"`            // of the connection, or of its loss
	Reason string    `json:"reason,omitempty"` // a gateway.Reason if the gateway refuses us; "": it cannot be reached
	Error  string    `json:"error,omitempty"`  // why it is not up, for people
}

// LinkPath is the path of the link in a data directory.
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

// WriteLink replaces the link. It is not durable: after a crash the link is stale.
func WriteLink(dir string, l Link) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.ReplaceVolatile(LinkPath(dir), append(data, '\n'))
}
