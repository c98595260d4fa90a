// Package skills holds the text that teaches agents to use OTM. It stands once:
// OpenClaw reads it as a skill, and otm prompt prints it for all others.
package skills

import _ "embed"

// OTM is the skill, with its front matter.
//
//go:embed otm/SKILL.md
var OTM string
