package gatewaytest

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A Profile is one version of the gateway.
type Profile struct {
	Version  string
	Protocol int // the only one it speaks

	HandshakeLimit time.Duration // from the upgrade to hello-ok
	PingEvery      time.Duration // and as much for the pong; zero: no pings
	MaxConcurrent  int           // turns at a time, over all sessions
	RunLimit       time.Duration // of one turn

	clientIDs   []string
	modes       []string
	keepsScopes []string // id/mode pairs that may come unsigned

	tellsScopes      bool // hello-ok.auth, with the effective scopes
	bootID           bool
	methodCount      int  // in hello-ok, which makes its size
	seqPerConn       bool // events are counted per connection, else per gateway
	secretAnyField   bool // the token is also taken as auth.password
	newerSchemaWords bool // how broken params are put into words
	tokenDelays      bool // wrong tokens are answered later and later
	codedProtocol    bool // the protocol mismatch has a details.code
	forbidden        bool // a missing scope is FORBIDDEN, else INVALID_REQUEST
	tellsSession     bool // accepted names session and agent
	tellsInFlight    bool // a repeated key is in_flight, else accepted again
	rerunsForgotten  bool // a forgotten key runs again; else, in the same session, it fails without a run
	hidesFailure     bool // a model call that failed or timed out ends ok
	refusesOwnerless bool // no agentId with several agents: refused, else accepted and then refused
	ownsSessions     bool // a session key without a prefix is filed under the agent, else refused
	guardsResets     bool // messages such as /new need operator.admin
	aborts           bool // sessions.abort and tasks.list exist
	drains           bool // a shutdown waits for running turns
	resumes          bool // turns that a crash cut off run again under a new id
}

var (
	clientIDs = []string{
		"webchat-ui", "openclaw-control-ui", "webchat", "cli", "gateway-client", "openclaw-macos",
		"openclaw-ios", "openclaw-android", "node-host", "test", "fingerprint", "openclaw-probe",
	}
	newerClientIDs = []string{
		"openclaw-tui", "openclaw-linux", "openclaw-watchos", "openclaw-browser-copilot", "openclaw-worker",
	}
	modes = []string{"webchat", "cli", "ui", "backend", "node", "probe", "test"}
)

// Profile2026_3_13 is the version of March 2026.
var Profile2026_3_13 = Profile{
	Version:        "2026.3.13",
	Protocol:       3,
	HandshakeLimit: 3 * time.Second,
	MaxConcurrent:  4,
	RunLimit:       10 * time.Minute,

	clientIDs: clientIDs,
	modes:     modes,

	methodCount:     100,
	rerunsForgotten: true,
	hidesFailure:    true,
}

// Profile2026_9_6 is the newest version at the time of writing.
var Profile2026_9_6 = Profile{
	Version:        "2026.9.6",
	Protocol:       4,
	HandshakeLimit: 15 * time.Second,
	PingEvery:      25 * time.Second,
	MaxConcurrent:  max(8, 4*runtime.NumCPU()),
	RunLimit:       48 * time.Hour,

	clientIDs:   slices.Concat(clientIDs, newerClientIDs),
	modes:       slices.Concat(modes, []string{"worker"}),
	keepsScopes: []string{"gateway-client/backend", "cli/cli"},

	tellsScopes:      true,
	bootID:           true,
	methodCount:      466,
	seqPerConn:       true,
	secretAnyField:   true,
	newerSchemaWords: true,
	tokenDelays:      true,
	codedProtocol:    true,
	forbidden:        true,
	tellsSession:     true,
	tellsInFlight:    true,
	refusesOwnerless: true,
	ownsSessions:     true,
	guardsResets:     true,
	aborts:           true,
	drains:           true,
	resumes:          true,
}

// Profiles are all versions, the oldest first.
func Profiles() []Profile { return []Profile{Profile2026_3_13, Profile2026_9_6} }

// String returns the version.
func (p Profile) String() string { return p.Version }

// profileNamed returns the profile of a version.
func profileNamed(version string) (Profile, error) {
	for _, p := range Profiles() {
		if p.Version == version {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("no profile %q, there are %v", version, Profiles())
}
