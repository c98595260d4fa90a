package app

import (
	"bytes"
	"context"
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
	"otm/internal/safe"
	"otm/pipeline"
)

// gatewayConfig is how to reach the configured gateway.
func gatewayConfig(h *Home, log *slog.Logger) gateway.Config {
	return gateway.Config{
		URL: h.Config.Gateway.URL, Version: h.Version, Log: log, Now: h.Now, Key: gatewayKey(h.Dir, log),
		Token: func() (string, error) { return h.Config.GatewayToken(h.Getenv) },
	}
}

// gatewayKey returns the key by which the gateway recognises a data directory. A
// gateway that asks for pairing has a person approve it, so it must be the same
// in every process. If it cannot be kept, a key of this process serves: a
// gateway on loopback does not ask.
func gatewayKey(dir string, log *slog.Logger) func() ed25519.PrivateKey {
	path := filepath.Join(dir, "secrets", "gateway-key")
	spare := sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(newSeed()) })
	return func() ed25519.PrivateKey {
		seed, err := loadSeed(path)
		if err != nil {
			log.Warn("key for the gateway not kept: a gateway that asks for pairing will ask again", "err", err)
			return spare()
		}
		return ed25519.NewKeyFromSeed(seed)
	}
}

func newSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	return seed
}

// loadSeed reads the seed of the key, and makes it the first time. A crash before
// it has its name loses nothing: nobody has seen it.
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
	if err == nil && (len(seed) != ed25519.SeedSize || len(bytes.Trim(seed, "\x00")) == 0) { // anybody can guess NUL bytes
		return nil, fmt.Errorf("%s is damaged: remove it, and the next start makes another", path)
	}
	return seed, err
}

// gatewayAdvice is what an operator can do about each refusal.
var gatewayAdvice = map[gateway.Reason]string{
	gateway.ReasonTokenWrong:      "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names, or into its environment variable",
	gateway.ReasonTokenMissing:    "put gateway.auth.token of openclaw.json into the file that gateway.token_file of otm.toml names, or into its environment variable",
	gateway.ReasonTokenUnreadable: "the file that gateway.token_file of otm.toml names must be readable",
	gateway.ReasonPairing:         "use a loopback URL for the gateway, which then asks for no pairing",
	gateway.ReasonScope:           "the token must be allowed operator.write",
	gateway.ReasonProtocol:        "this version of the gateway is too old or too new for otm",
	gateway.ReasonSignature:       "set the clock of this machine: signatures are good for two minutes",
	gateway.ReasonEndpoint:        "check gateway.url of otm.toml",
	gateway.ReasonRefused:         "see what the gateway logged: openclaw logs",
}

// adviceOn returns what an operator can do about a gateway that refuses us; "" if
// nothing in particular.
func adviceOn(err error) string {
	if errors.Is(err, gateway.ErrTooLarge) {
		return "restart the gateway, as it sends more than OTM takes: openclaw gateway restart"
	}
	var refused *gateway.Error
	if !errors.As(err, &refused) {
		return ""
	}
	if refused.Reason == gateway.ReasonPairing && refused.RequestID != "" {
		return "approve OTM at the gateway: openclaw devices approve " + safe.Quote(refused.RequestID)
	}
	return gatewayAdvice[refused.Reason]
}

// adviceUnknownAgent is what to do about an agent that the gateway does not have.
func adviceUnknownAgent(a *pipeline.Agent) string {
	return fmt.Sprintf("add it: openclaw agents add %s; or name another one with gateway_agent in [agents.%s] of otm.toml",
		safe.Quote(a.GatewayAgent), a.Name)
}

// skillName is the name of our skill, in its front matter.
const skillName = "otm"

// skillTrouble says why an agent that has our skill is not told of it.
type skillTrouble struct {
	Agent    *pipeline.Agent
	Missing  []string // programs that are not on the PATH of the gateway process
	Disabled bool     // in openclaw.json
}

// skillTroubles asks the gateway about the skill of each agent. An agent
// without the skill is no trouble: its AGENTS.md may do instead.
func skillTroubles(ctx context.Context, client *gateway.Client, agents []*pipeline.Agent) ([]skillTrouble, error) {
	var found []skillTrouble
	for _, a := range agents {
		skill, has, err := client.Skill(ctx, a.GatewayAgent, skillName)
		if err != nil {
			return found, err
		}
		if has && !skill.Eligible {
			found = append(found, skillTrouble{Agent: a, Missing: skill.Missing.Bins, Disabled: skill.Disabled})
		}
	}
	return found, nil
}
