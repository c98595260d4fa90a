package app

import (
	"errors"

	"otm/internal/config"
)

// departed is the last step of a process that stays. If the data directory was removed
// meanwhile, it returns the error that says so in place of one that followed from it.
func departed(dir string, err error) error {
	if _, gone := config.FormatOf(dir); err != nil && errors.Is(gone, config.ErrNotInitialised) {
		return gone
	}
	return err
}
