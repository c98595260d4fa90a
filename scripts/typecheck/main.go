// The command typecheck checks the types of all packages and their tests for another system.
// It reads sources only: go vet would first compile each dependency for that
// system, which takes two minutes of CPU from an empty cache.
//
//	typecheck GOOS
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck GOOS")
		os.Exit(64)
	}
	if err := run(os.Args[1], "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pkg is a package as go list tells it, or one together with its tests.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // what the files import → its ImportPath, where these differ
	Module     struct {
		Main      bool
		GoVersion string
	}
}

// run checks the packages below dir. Each fault is told once.
func run(system, dir string) error {
	pkgs, err := list(system, dir)
	if err != nil {
		return err
	}
	c := checker{files: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	var errs []error
	told := map[string]bool{} // a package is checked again together with its tests
	for _, p := range pkgs {  // each comes after those that it imports
		for _, err := range c.check(p) {
			if !told[err.Error()] {
				told[err.Error()] = true
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// list returns the packages below dir, their tests, and all that these import.
func list(system, dir string) (pkgs []*pkg, err error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w", system, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		switch {
		case errors.Is(err, io.EOF):
			return pkgs, nil
		case err != nil:
			return nil, err
		case p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test"): // go test writes the main of a test
			pkgs = append(pkgs, &p)
		}
	}
}

// checker knows the packages that have been checked, by their ImportPath.
type checker struct {
	files *token.FileSet
	done  map[string]*types.Package
}

func (c *checker) check(p *pkg) (errs []error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, f)
	}
	config := types.Config{
		GoVersion:        "go" + p.Module.GoVersion,
		IgnoreFuncBodies: !p.Module.Main,
		Importer:         importer(func(path string) (*types.Package, error) { return c.imported(p, path) }),
		Sizes:            types.SizesFor("gc", runtime.GOARCH),
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module.GoVersion == "" {
		config.GoVersion = "" // the standard library is as new as it needs
	}
	c.done[p.ImportPath], _ = config.Check(p.ImportPath, c.files, files, nil) // Error gets all errors
	return errs
}

// imported returns what a package means by an import.
func (c *checker) imported(p *pkg, path string) (*types.Package, error) {
	if to, ok := p.ImportMap[path]; ok {
		path = to
	}
	if done := c.done[path]; done != nil {
		return done, nil
	}
	return nil, fmt.Errorf("%s was not checked", path)
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
