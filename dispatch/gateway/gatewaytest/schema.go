package gatewaytest

import (
	"encoding/json"
	"slices"
	"strings"
)

// checkConnect returns what is wrong with the shape of connect parameters.
func (p Profile) checkConnect(params json.RawMessage) string {
	root, problem := properties(params, "", []string{"minProtocol", "maxProtocol", "client"},
		"role", "scopes", "auth", "device", "caps", "locale", "userAgent")
	if problem != "" {
		return problem
	}
	client, problem := properties(root["client"], "/client", []string{"id", "version", "platform", "mode"},
		"displayName", "instanceId", "deviceFamily")
	if problem == "" {
		problem = p.checkClient(client)
	}
	if problem != "" {
		return problem
	}
	if scopes, ok := root["scopes"]; ok && !strings.HasPrefix(strings.TrimSpace(string(scopes)), "[") {
		return "at /scopes: must be array"
	}
	if auth, ok := root["auth"]; ok {
		if _, problem := properties(auth, "/auth", nil, "token", "password", "deviceToken"); problem != "" {
			return problem
		}
	}
	if device, ok := root["device"]; ok {
		_, problem := properties(device, "/device", []string{"id", "publicKey", "signature", "signedAt", "nonce"})
		return problem
	}
	return ""
}

func (p Profile) checkClient(client map[string]json.RawMessage) string {
	for _, name := range []string{"id", "version", "platform", "mode"} {
		if text(client[name]) == "" {
			return p.tooShort("/client/" + name)
		}
	}
	if !slices.Contains(p.clientIDs, text(client["id"])) {
		return p.notAllowed("/client/id")
	}
	if !slices.Contains(p.modes, text(client["mode"])) {
		return p.notAllowed("/client/mode")
	}
	return ""
}

func (p Profile) tooShort(at string) string {
	if p.newerSchemaWords {
		return "at " + at + ": must not have fewer than 1 characters"
	}
	return "at " + at + ": must NOT have fewer than 1 characters"
}

func (p Profile) notAllowed(at string) string {
	if p.newerSchemaWords {
		return "at " + at + ": must be equal to one of the allowed values"
	}
	return "at " + at + ": must be equal to constant; at " + at + ": must match a schema in anyOf"
}

// properties parses an object, and returns what is wrong if it lacks a required
// property or has one that is neither required nor optional.
func properties(raw json.RawMessage, at string, required []string, optional ...string) (map[string]json.RawMessage, string) {
	prefix := ""
	if at != "" {
		prefix = "at " + at + ": "
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, prefix + "must be object"
	}
	for _, name := range required {
		if _, ok := m[name]; !ok {
			return nil, prefix + "must have required property '" + name + "'"
		}
	}
	var unexpected []string
	for name := range m {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			unexpected = append(unexpected, name)
		}
	}
	if unexpected == nil {
		return m, ""
	}
	if prefix == "" {
		prefix = "at root: "
	}
	return nil, prefix + "unexpected property '" + slices.Min(unexpected) + "'"
}

// text returns a JSON string's value, empty for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
