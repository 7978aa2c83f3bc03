package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// file is one Go file of the repository.
type file struct {
	dir    string // slash-separated, from the root
	syntax *ast.File
}

// source is what the generator reads, in the order of the paths.
type source struct {
	fset  *token.FileSet
	files []file
	// values are those of the constants of the API by their names, to show a value where a comment
	// names one.
	values map[string]string
}

// readSource parses the Go files that end up in the product.
func readSource(root string) (*source, error) {
	s := &source{fset: token.NewFileSet(), values: map[string]string{}}
	for _, folder := range []string{"api", "hook", "internal", "controllers", "."} {
		if err := s.readFolder(root, folder); err != nil {
			return nil, err
		}
	}
	for _, f := range s.in("api/v1alpha1") {
		for _, c := range constantsOf(f) {
			s.values[c.name] = c.value
		}
	}
	return s, nil
}

func (s *source) readFolder(root, folder string) error {
	start := filepath.Join(root, folder)
	return filepath.WalkDir(start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != start && (folder == "." || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		syntax, err := parser.ParseFile(s.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		s.files = append(s.files, file{dir: filepath.ToSlash(relative), syntax: syntax})
		return nil
	})
}

// in are the files of one folder.
func (s *source) in(dir string) []file {
	var found []file
	for _, f := range s.files {
		if f.dir == dir {
			found = append(found, f)
		}
	}
	return found
}

func (s *source) position(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return filepath.ToSlash(p.Filename) + ":" + strconv.Itoa(p.Line)
}

// constant is a constant string.
type constant struct {
	name, value string
	typed       string // the name of its type, or ""
	doc         string
	block       *ast.GenDecl
	node        ast.Node
}

// constantsOf are the constants of a file whose values are string literals.
func constantsOf(f file) []constant {
	var found []constant
	for _, decl := range f.syntax.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			found = append(found, constantsIn(block, spec.(*ast.ValueSpec))...)
		}
	}
	return found
}

func constantsIn(block *ast.GenDecl, spec *ast.ValueSpec) []constant {
	var found []constant
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			break
		}
		value, ok := literal(spec.Values[i])
		if !ok {
			continue
		}
		c := constant{name: name.Name, value: value, doc: comment(spec.Doc, spec.Comment), block: block, node: name}
		if spec.Type != nil {
			c.typed = typeName(spec.Type)
		}
		if !block.Lparen.IsValid() {
			c.doc = comment(block.Doc, spec.Comment)
		}
		found = append(found, c)
	}
	return found
}

// literal is the value of a string literal, or of several that are joined.
func literal(e ast.Expr) (string, bool) {
	if joined, ok := e.(*ast.BinaryExpr); ok && joined.Op == token.ADD {
		left, leftKnown := literal(joined.X)
		right, rightKnown := literal(joined.Y)
		return left + right, leftKnown && rightKnown
	}
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(basic.Value)
	return value, err == nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// comment is the text of the first comment that has one, on one line, without markers.
func comment(groups ...*ast.CommentGroup) string {
	for _, group := range groups {
		if text := oneLine(group.Text()); text != "" {
			return text
		}
	}
	return ""
}

func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

var constantName = regexp.MustCompile(`\b(?:Condition|Reason|Event|Annotation|Finalizer)[A-Z]\w*\b`)

// sentence is a doc comment for readers: it begins without the name that it explains, as Go wants it,
// and shows the values of constants.
func (s *source) sentence(doc, name string) string {
	if rest, found := strings.CutPrefix(doc, name); found && name != "" {
		doc = strings.TrimPrefix(strings.TrimLeft(rest, ":, "), "is ")
		doc = strings.ToUpper(doc[:min(1, len(doc))]) + doc[min(1, len(doc)):]
	}
	doc = constantName.ReplaceAllStringFunc(doc, func(name string) string {
		if value, known := s.values[name]; known {
			return "`" + value + "`"
		}
		return name
	})
	return cell(doc)
}

// cell is text for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func keys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// problems are what the source lacks.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }
