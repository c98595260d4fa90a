// The command typecheck checks the types of all packages and their tests for another system.
// It reads sources only: go vet would first compile each dependency for that
// system, which takes two minutes of CPU from an empty cache.
//
//	typecheck GOOS
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck GOOS")
		os.Exit(64)
	}
	faults, err := check(os.Args[1], ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// check returns the faults of the packages below dir, each once.
func check(system, dir string) (faults []string, err error) {
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Dir: dir, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
	}, "./...")
	told := map[string]bool{} // a package is checked again together with its tests
	for _, p := range pkgs {
		for _, e := range p.Errors {
			if !told[e.Error()] {
				told[e.Error()] = true
				faults = append(faults, e.Error())
			}
		}
	}
	return faults, err
}
