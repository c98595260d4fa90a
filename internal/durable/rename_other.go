//go:build !linux && !darwin

package durable

func renameNoReplace(from, to string) error { return linkNoReplace(from, to) }
