// Package house holds the tests of the repository as a whole: its layers and libraries, the sizes of its packages,
// files, types and functions, its links, and its list of faults with their tests. Who calls: make check.
package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// goFile is one Go file of this repository, whichever module it belongs to.
type goFile struct {
	path   string // slash-separated, from the root of the repository
	pkg    string // the folder it lies in; "." is the root package
	test   bool
	syntax *ast.File
	fset   *token.FileSet
}

func (f goFile) position(n ast.Node) string {
	p := f.fset.Position(n.Pos())
	p.Filename = f.path
	return p.String()
}

// shipped tells code that ends up with a user from code that tests it.
func (f goFile) shipped() bool { return !f.test && !strings.HasPrefix(f.path, "test/") }

func (f goFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// parseRepository parses every Go file of the repository, nested modules included.
func parseRepository(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	fset := token.NewFileSet()
	must.Succeed(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipFolder(entry.Name())
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		syntax, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		files = append(files, goFile{
			path:   slashed,
			pkg:    path.Dir(slashed),
			test:   strings.HasSuffix(slashed, "_test.go"),
			syntax: syntax,
			fset:   fset,
		})
		return nil
	}))
	return files
}

// skipFolder leaves out what the go command leaves out, and what a build leaves.
func skipFolder(name string) error {
	hidden := name != "." && strings.HasPrefix(name, ".")
	if hidden || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" {
		return filepath.SkipDir
	}
	return nil
}
