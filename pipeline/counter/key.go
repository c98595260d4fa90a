package counter

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/ordered"
	"otm/pipeline"
)

// Key is the file of a key of otm-create: the id that it stands for and, until it
// was delivered, the drop.
type Key struct {
	Key    string          `json:"key"`
	TaskID pipeline.TaskID `json:"taskId"`
	Name   string          `json:"file"`
	Title  string          `json:"title,omitempty"` // as it was dropped
	// Drop is the create of the key, until it stands in the inbox. If we crash in
	// between, the next call with this key delivers it under the same name.
	Drop      json.RawMessage `json:"drop,omitempty"`
	Delivered bool            `json:"delivered"`
}

// DamagedKeyError is a key file that cannot be read. Going on without it could
// make its task twice, so a person has to decide.
type DamagedKeyError struct {
	Path string
	Data []byte
}

func (e *DamagedKeyError) Error() string {
	return fmt.Sprintf("key file %q is damaged: %.60q", e.Path, e.Data)
}

// LookupKey finds a key; nil if it was never used.
func (c *Counter) LookupKey(key string) (*Key, error) {
	data, err := durable.ReadFile(c.keyPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var k Key
	if err := json.Unmarshal(data, &k); err != nil || k.TaskID == 0 {
		return nil, &DamagedKeyError{Path: c.keyPath(key), Data: data}
	}
	return &k, nil
}

// SaveKey writes a key, durably. The bytes of its drop are kept as they are, so
// that a delivery after a crash is the same.
func (c *Counter) SaveKey(k *Key) error {
	line, err := ordered.Encode(k)
	if err != nil {
		return err
	}
	path := c.keyPath(k.Key)
	if err := durable.Mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	crash.Point("key.before")
	err = durable.Replace(path, append(line, '\n'))
	crash.Point("key.after")
	return err
}

func (c *Counter) keyPath(key string) string {
	return filepath.Join(c.dir.dir, "keys", fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}
