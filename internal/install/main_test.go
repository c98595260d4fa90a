package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/app"
	"otm/internal/cli"
	"otm/internal/leak"
)

// TestMain lets the test binary act as the commands of OTM.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "otm" || strings.HasPrefix(name, "otm-") {
		os.Exit(app.Main(os.Args, cli.OSStreams()))
	}
	os.Exit(leak.Main(m))
}
