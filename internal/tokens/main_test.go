package tokens

import (
	"os"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
