package templates

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template/parse"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// root is the path of the module, whose packages are read as source: the types of pages have small names.
const root = "github.com/setpoint-dev/setpoint/"

// TestFieldsExist follows every template from the data of its page, in all branches: a field or a method that the data lacks would
// be an error page for who comes there first.
func TestFieldsExist(t *testing.T) {
	source := &source{fset: token.NewFileSet(), checked: map[string]*types.Package{}, info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	for _, name := range []string{"", "/edit", "/objects", "/web"} {
		must.Get(source.Import(root + "internal/dashboard" + name)).In(t)
	}
	page := source.checked[root+"internal/dashboard/web"].Scope().Lookup("Page").Type()
	checked := map[string]bool{"layout": true}
	for _, shown := range source.shown() {
		checked[shown.name] = true
		w := &walker{t: t, page: page, data: shown.data, trees: treesOf(t, shown.name+".html"), seen: map[string]bool{}}
		w.template(shown.block, page)
	}
	for _, file := range must.Get(fs.Glob(Files, "*.html")).In(t) {
		if name := strings.TrimSuffix(file, ".html"); !checked[name] {
			t.Errorf("no code is found that shows %s", file)
		}
	}
}

// treesOf returns the templates of a page.
func treesOf(t *testing.T, page string) map[string]*parse.Tree {
	t.Helper()
	trees := map[string]*parse.Tree{}
	for _, file := range append(must.Get(fs.Glob(Files, "parts/*.html")).In(t), "layout.html", page) {
		tree := parse.New(file)
		tree.Mode = parse.SkipFuncCheck
		must.Get(tree.Parse(string(must.Get(Files.ReadFile(file)).In(t)), "", "", trees)).In(t)
	}
	return trees
}

// source checks the types of packages of the module. What others declare is unknown, and no error.
type source struct {
	fset    *token.FileSet
	checked map[string]*types.Package
	files   []*ast.File
	info    types.Info
}

func (s *source) Import(name string) (*types.Package, error) {
	below, ours := strings.CutPrefix(name, root)
	if known := s.checked[name]; known != nil || !ours {
		return cmp.Or(known, types.NewPackage(name, path.Base(name))), nil
	}
	pages := strings.HasPrefix(below, "internal/dashboard")
	names, err := filepath.Glob("../../../" + below + "/*.go")
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if file, err := parser.ParseFile(s.fset, name, nil, 0); err == nil && !strings.HasSuffix(name, "_test.go") {
			files = append(files, file)
		}
	}
	config := types.Config{Importer: s, IgnoreFuncBodies: !pages, Error: func(error) {}}
	s.checked[name], _ = config.Check(name, s.fset, files, &s.info)
	if pages {
		s.files = append(s.files, files...)
	}
	return s.checked[name], nil
}

// shown is a block of a template with the data of its page.
type shown struct {
	name, block string
	data        types.Type
}

// shown returns what the code renders: web.Page{Name: …, Data: …}, and RenderFragment(name, block, data).
func (s *source) shown() (all []shown) {
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				found := shown{block: "layout"}
				for _, e := range n.Elts {
					if pair, is := e.(*ast.KeyValueExpr); is && strings.HasSuffix(types.ExprString(n.Type), "Page") {
						switch types.ExprString(pair.Key) {
						case "Name":
							found.name = s.text(pair.Value)
						case "Data":
							found.data = s.info.TypeOf(pair.Value)
						}
					}
				}
				if found.name != "" && found.data != nil {
					all = append(all, found)
				}
			case *ast.CallExpr:
				if strings.HasSuffix(types.ExprString(n.Fun), ".RenderFragment") {
					all = append(all, shown{s.text(n.Args[0]), s.text(n.Args[1]), s.info.TypeOf(n.Args[2])})
				}
			}
			return true
		})
	}
	return all
}

func (s *source) text(e ast.Expr) string {
	if value := s.info.Types[e].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	return ""
}

// dict is what the function dict returns, and absent is nil; other values are types.Type, or nil if unknown.
type (
	dict   map[string]any
	absent struct{}
)

// walker follows the templates of one page.
type walker struct {
	t          *testing.T
	page, data types.Type
	trees      map[string]*parse.Tree
	seen       map[string]bool
}

// scope is where a node stands.
type scope struct {
	tree *parse.Tree
	dot  any
	vars map[string]any
}

func (s scope) with(dot any) scope { return scope{s.tree, dot, maps.Clone(s.vars)} }

func (w *walker) template(name string, dot any) {
	tree, key := w.trees[name], name+" of "+describe(dot)
	if tree == nil {
		w.t.Errorf("there is no template %q", name)
	}
	if tree != nil && !w.seen[key] {
		w.seen[key] = true
		w.walk(tree.Root, scope{tree, dot, map[string]any{"$": dot}})
	}
}

func describe(value any) string {
	if d, is := value.(dict); is {
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(d)) {
			text.WriteString(name + "=" + describe(d[name]) + " ")
		}
		return text.String()
	}
	if known, is := value.(types.Type); is {
		return known.String()
	}
	return "?"
}

func (w *walker) walk(node parse.Node, s scope) {
	switch n := node.(type) {
	case *parse.ListNode:
		for _, each := range n.Nodes {
			w.walk(each, s)
		}
	case *parse.ActionNode:
		w.pipe(n.Pipe, s)
	case *parse.IfNode:
		w.branch(&n.BranchNode, s, func(any) any { return s.dot })
	case *parse.WithNode:
		w.branch(&n.BranchNode, s, func(value any) any { return value })
	case *parse.RangeNode:
		w.branch(&n.BranchNode, s, element)
	case *parse.TemplateNode:
		var dot any
		if n.Pipe != nil {
			dot = w.pipe(n.Pipe, s)
		}
		w.template(n.Name, dot)
	}
}

// branch follows both lists of a node. The first has another dot.
func (w *walker) branch(n *parse.BranchNode, s scope, dotOf func(any) any) {
	within := s.with(s.dot)
	value := w.pipe(n.Pipe, within)
	within.dot = dotOf(value)
	if n.NodeType == parse.NodeRange && len(n.Pipe.Decl) > 0 {
		within.vars[n.Pipe.Decl[0].Ident[0]] = nil
		within.vars[n.Pipe.Decl[len(n.Pipe.Decl)-1].Ident[0]] = within.dot
	}
	if value != (absent{}) {
		w.walk(n.List, within)
	}
	if n.ElseList != nil {
		w.walk(n.ElseList, s.with(s.dot))
	}
}

func element(of any) any {
	known, _ := of.(types.Type)
	if list, is := under(known).(interface{ Elem() types.Type }); is {
		return list.Elem()
	}
	return nil
}

// under returns the underlying type, behind a pointer; nil if unknown.
func under(of types.Type) types.Type {
	if of == nil {
		return nil
	}
	if pointer, is := of.Underlying().(*types.Pointer); is {
		of = pointer.Elem()
	}
	return of.Underlying()
}

// pipe returns the value of a pipeline, and declares its variables.
func (w *walker) pipe(p *parse.PipeNode, s scope) (value any) {
	for _, command := range p.Cmds {
		value = w.command(command.Args, s)
	}
	for _, declared := range p.Decl {
		s.vars[declared.Ident[0]] = value
	}
	return value
}

// command returns the value of the first word with the others as its arguments.
func (w *walker) command(words []parse.Node, s scope) any {
	values := make([]any, len(words))
	for i, word := range words {
		values[i] = w.value(word, s)
	}
	function, is := words[0].(*parse.IdentifierNode)
	switch {
	case !is:
		return values[0]
	case function.Ident == "dict":
		d := dict{}
		for i := 1; i+1 < len(words); i += 2 {
			d[words[i].(*parse.StringNode).Text] = values[i+1]
		}
		return d
	case function.Ident == "index":
		return element(values[1])
	}
	return nil
}

func (w *walker) value(node parse.Node, s scope) any {
	switch n := node.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.NilNode:
		return absent{}
	case *parse.FieldNode:
		return w.fields(n, s, s.dot, n.Ident)
	case *parse.VariableNode:
		return w.fields(n, s, s.vars[n.Ident[0]], n.Ident[1:])
	case *parse.ChainNode:
		return w.fields(n, s, w.value(n.Node, s), n.Field)
	case *parse.PipeNode:
		return w.pipe(n, s)
	}
	return nil
}

// fields follows names from a value.
func (w *walker) fields(n parse.Node, s scope, value any, names []string) any {
	for _, name := range names {
		next, exists := w.member(value, name)
		if !exists {
			at, _ := s.tree.ErrorContext(n)
			w.t.Errorf("%s: %s has no %s", at, describe(value), name)
		}
		value = next
	}
	return value
}

// member returns a field, the result of a method, or the value of a key.
func (w *walker) member(of any, name string) (value any, exists bool) {
	if d, is := of.(dict); is {
		value, exists = d[name]
		return value, exists
	}
	known, _ := of.(types.Type)
	switch u := under(known).(type) {
	case *types.Map:
		return u.Elem(), true
	case *types.Struct, *types.Interface, *types.Slice, *types.Signature:
	case *types.Basic:
		if u.Kind() == types.Invalid {
			return nil, true
		}
	default:
		return nil, true
	}
	if known == w.page && name == "Data" {
		return w.data, true
	}
	member, _, _ := types.LookupFieldOrMethod(known, true, nil, name)
	if method, is := member.(*types.Func); is {
		return method.Signature().Results().At(0).Type(), true
	}
	if member == nil {
		return nil, types.IsInterface(known) || embedsUnknown(known)
	}
	return member.Type(), true
}

// embedsUnknown reports whether a type has the fields of one that is not ours.
func embedsUnknown(of types.Type) bool {
	s, is := under(of).(*types.Struct)
	for i := 0; is && i < s.NumFields(); i++ {
		if f := s.Field(i); f.Embedded() && (under(f.Type()) == types.Typ[types.Invalid] || embedsUnknown(f.Type())) {
			return true
		}
	}
	return false
}
