package cli

import (
	"runtime/debug"
	"sync"
)

// version is set by the linker for releases.
var version string

// Version returns the version of the release, or what the build recorded.
var Version = sync.OnceValue(func() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
})
