package app

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"otm/dispatch/gateway"
	"otm/internal/durable"
)

// gatewayClient is a client of the configured gateway. log and onEnd may be nil.
func (h *Home) gatewayClient(log *slog.Logger, onEnd func(gateway.End)) *gateway.Client {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return gateway.New(gateway.Config{
		URL: h.Config.Gateway.URL, Version: h.Version, Log: log, Now: h.Now, Key: gatewayKey(h.Dir, log), OnEnd: onEnd,
		Token: func() (string, error) { return h.Config.GatewayToken(h.Getenv) },
	})
}

// gatewayKey returns the key by which the gateway knows a data directory. Where
// it asks for pairing, that is what a person approves, so it must be the same in
// every process. A gateway on loopback does not ask: where the key cannot be
// kept, one for this process does.
func gatewayKey(dir string, log *slog.Logger) func() ed25519.PrivateKey {
	path := filepath.Join(dir, "secrets", "gateway-key")
	instead := sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(newSeed()) })
	return func() ed25519.PrivateKey {
		seed, err := loadSeed(path)
		if err != nil {
			log.Warn("key for the gateway not kept: where it asks for pairing, it will ask again", "err", err)
			return instead()
		}
		return ed25519.NewKeyFromSeed(seed)
	}
}

func newSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	return seed
}

// loadSeed reads the seed of the key, and makes it the first time. If we crash
// before it has its name, nobody has seen it, and the next one is as good.
func loadSeed(path string) ([]byte, error) {
	seed, err := readSeed(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return seed, err
	}
	seed = newSeed()
	err = durable.WriteNew(path, seed)
	if errors.Is(err, fs.ErrExist) {
		return readSeed(path) // another process was faster
	}
	return seed, err
}

func readSeed(path string) ([]byte, error) {
	seed, err := durable.ReadFile(path)
	if err == nil && (len(seed) != ed25519.SeedSize || len(bytes.Trim(seed, "\x00")) == 0) { // a key of NUL bytes is everybody's
		return nil, fmt.Errorf("%s is damaged: remove it, and one is made anew", path)
	}
	return seed, err
}
