package otm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds on one type: what has more methods, or has them in more files, knows more
// than one thing.
const (
	maxMethods     = 25
	maxMethodFiles = 4
)

// shape is where a type's methods are.
type shape struct {
	methods int
	files   map[string]bool
}

// TestTypesStaySmall bounds the methods of each type of the product.
func TestTypesStaySmall(t *testing.T) {
	for name, s := range shapes(t) {
		if s.methods > maxMethods || len(s.files) > maxMethodFiles {
			t.Errorf("%s has %d methods in %d files, at most %d in %d: split it by what its parts know", name, s.methods, len(s.files), maxMethods, maxMethodFiles)
		}
	}
}

// shapes maps each type with methods, as folder.Type, to its shape. Tests, test
// doubles and scripts do not count.
func shapes(t *testing.T) map[string]*shape {
	t.Helper()
	all := map[string]*shape{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "scripts" || strings.HasSuffix(d.Name(), "test") || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := filepath.Dir(path) + "." + receiver(f.Recv.List[0].Type)
			if all[name] == nil {
				all[name] = &shape{files: map[string]bool{}}
			}
			all[name].methods++
			all[name].files[path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("found %d types with methods: is the walk right?", len(all))
	}
	return all
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// TestC4StatusHasOneWriter: what depends on a move of the status, as when a blocked
// task was resumed, was forgotten where a writer set the field itself. Only package core
// sets it, by the events.
func TestC4StatusHasOneWriter(t *testing.T) {
	exempt := map[string]string{
		"internal/before/record.go": "makes states of the records of the former format",
		"dispatch/next.go":          "makes up a task where there is no store",
	}
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "core"+string(filepath.Separator)) || exempt[path] != "" {
			return err
		}
		seen++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, isTaskStatus) {
				t.Errorf("%v sets the status of a task: make a command", fset.Position(a.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d files, %v", seen, err)
	}
}

// isTaskStatus reports whether an expression is the status of a task, as tasks are
// called everywhere.
func isTaskStatus(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Status" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && (x.Name == "t" || x.Name == "task" || x.Name == "state")
}
