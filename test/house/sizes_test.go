package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// The written limits. Test files keep the limit of a file only: a table of
// cases is long by nature, and reads well all the same. Percentiles speak of
// what is shipped.
const (
	maxFunctionLines = 80
	p90FunctionLines = 30
	medFunctionLines = 8
	maxFileLines     = 700
	p90FileLines     = 400
	maxParameters    = 5
	maxNesting       = 3
)

// exceptions names what may break a limit or a rule of the state below, each with
// a sentence that says why. The key is "path" or "path: function".
var exceptions = map[string]string{
	"controlplane/components/version.go: setVersion": "Kubernetes takes its version from linked variables and has no argument for it.",
}

// measure is the size of one function or file.
type measure struct {
	name  string
	lines int
}

func TestFunctionsAreShort(t *testing.T) {
	var sizes []measure
	for _, f := range handWritten(parseRepository(t)) {
		if f.test {
			continue
		}
		for _, fn := range functionsOf(f) {
			// Counted as linters count: without the line of func and the closing brace.
			m := measure{f.path + ": " + functionName(fn), max(1, f.line(fn.End())-f.line(fn.Pos())-1)}
			if f.shipped() {
				sizes = append(sizes, m)
			}
			atMost(t, m.name, m.lines, maxFunctionLines, "lines")
			atMost(t, m.name, parameters(fn.Type), maxParameters, "parameters")
			atMost(t, m.name, nesting(fn.Body), maxNesting, "levels of nesting")
		}
	}
	report(t, "functions", sizes)
	percentileAtMost(t, "functions", sizes, 50, medFunctionLines)
	percentileAtMost(t, "functions", sizes, 90, p90FunctionLines)
}

func TestFilesAreShort(t *testing.T) {
	var sizes []measure
	for _, f := range handWritten(parseRepository(t)) {
		lines := f.line(f.syntax.FileEnd)
		atMost(t, f.path, lines, maxFileLines, "lines")
		if f.shipped() {
			sizes = append(sizes, measure{f.path, lines})
		}
	}
	report(t, "files", sizes)
	percentileAtMost(t, "files", sizes, 90, p90FileLines)
}

func TestExceptionsAreStillNeeded(t *testing.T) {
	names := map[string]bool{}
	for _, f := range handWritten(parseRepository(t)) {
		names[f.path] = true
		for _, fn := range functionsOf(f) {
			names[f.path+": "+functionName(fn)] = true
		}
	}
	for name, why := range exceptions {
		if !names[name] {
			t.Errorf("the exception %q names nothing in the tree: remove it", name)
		}
		if !strings.HasSuffix(why, ".") {
			t.Errorf("the exception %q needs a sentence that says why, not %q", name, why)
		}
	}
}

func atMost(t *testing.T, name string, got, limit int, unit string) {
	t.Helper()
	if _, excepted := exceptions[name]; got > limit && !excepted {
		t.Errorf("%s has %d %s; the limit is %d", name, got, unit, limit)
	}
}

func percentileAtMost(t *testing.T, what string, sizes []measure, percent, limit int) {
	t.Helper()
	if len(sizes) == 0 {
		t.Fatalf("no %s found: is the test run in the root of the repository?", what)
	}
	// sizes are sorted, largest first.
	at := sizes[len(sizes)*(100-percent)/100]
	if at.lines > limit {
		t.Errorf("%d %% of %s should have at most %d lines, but that line is crossed at %d (%s)", percent, what, limit, at.lines, at.name)
	}
	t.Logf("%d %% of %d %s have at most %d lines (limit %d)", percent, len(sizes), what, at.lines, limit)
}

// report sorts the sizes and logs the ten largest, seen with go test -v.
func report(t *testing.T, what string, sizes []measure) {
	t.Helper()
	slices.SortFunc(sizes, func(a, b measure) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.name, b.name))
	})
	var text strings.Builder
	for _, m := range sizes[:min(10, len(sizes))] {
		fmt.Fprintf(&text, "\n%5d  %s", m.lines, m.name)
	}
	t.Logf("the largest %s:%s", what, text.String())
}

func handWritten(files []goFile) []goFile {
	return slices.DeleteFunc(files, func(f goFile) bool { return ast.IsGenerated(f.syntax) })
}

func functionsOf(f goFile) []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			found = append(found, fn)
		}
	}
	return found
}

// functionName writes a method as Type.Method.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch typ := receiver.(type) {
		case *ast.StarExpr:
			receiver = typ.X
		case *ast.IndexExpr:
			receiver = typ.X
		case *ast.IndexListExpr:
			receiver = typ.X
		case *ast.Ident:
			return typ.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

func parameters(typ *ast.FuncType) int {
	return typ.Params.NumFields()
}

// nesting is the depth of conditions and loops within each other. An else-if
// chain is one level, like the switch it could be; a function literal starts
// anew, being a function of its own.
func nesting(body *ast.BlockStmt) int {
	d := &depth{}
	ast.Walk(d.at(0), body)
	return d.deepest
}

// depth remembers the deepest level that its visitors have met.
type depth struct{ deepest int }

// level visits nodes at one level of nesting.
type level struct {
	*depth
	now int
}

func (d *depth) at(now int) level {
	d.deepest = max(d.deepest, now)
	return level{d, now}
}

func (l level) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncLit:
		return l.at(0)
	case *ast.IfStmt:
		l.visitIf(n)
		return nil
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return l.at(l.now + 1)
	}
	return l
}

func (l level) visitIf(n *ast.IfStmt) {
	inside := l.at(l.now + 1)
	for _, part := range []ast.Node{n.Init, n.Cond, n.Body} {
		if part != nil {
			ast.Walk(inside, part)
		}
	}
	switch n.Else.(type) {
	case *ast.IfStmt:
		ast.Walk(l, n.Else)
	case *ast.BlockStmt:
		ast.Walk(inside, n.Else)
	}
}

// TestPackagesHaveNoState: a package-level variable is a table, a default or a
// compiled pattern, set where it is declared and never after. What changes
// belongs to a value that the program constructs and can construct twice.
func TestPackagesHaveNoState(t *testing.T) {
	files := handWritten(parseRepository(t))
	variables := packageVariables(files)
	for _, f := range files {
		if !f.shipped() || len(variables[f.pkg]) == 0 {
			continue
		}
		for _, fn := range functionsOf(f) {
			if _, excepted := exceptions[f.path+": "+functionName(fn)]; excepted {
				continue
			}
			for _, changed := range changes(fn, variables[f.pkg]) {
				t.Errorf("%s: %s changes the package's variable %s", f.position(changed), functionName(fn), changed.Name)
			}
		}
	}
}

// TestNoPackageLevelLocks: a lock or a counter at package level is there
// to guard or to be state.
func TestNoPackageLevelLocks(t *testing.T) {
	for _, f := range handWritten(parseRepository(t)) {
		if !f.shipped() {
			continue
		}
		for _, spec := range variableSpecs(f) {
			kind, ok := spec.Type.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if from, ok := kind.X.(*ast.Ident); ok && (from.Name == "sync" || from.Name == "atomic") {
				t.Errorf("%s: a package-level %s.%s is state", f.position(spec), from.Name, kind.Sel.Name)
			}
		}
	}
}

// TestNoInit: what runs because it is imported cannot be left out. Kubernetes
// API packages register themselves that way, and only they.
func TestNoInit(t *testing.T) {
	for _, f := range handWritten(parseRepository(t)) {
		if strings.HasPrefix(f.pkg, "api/") {
			continue
		}
		for _, fn := range functionsOf(f) {
			if fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: no init: pass what it prepares as an argument", f.position(fn))
			}
		}
	}
}

// packageVariables lists the names of package-level variables by package.
func packageVariables(files []goFile) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, f := range files {
		for _, spec := range variableSpecs(f) {
			for _, name := range spec.Names {
				if found[f.pkg] == nil {
					found[f.pkg] = map[string]bool{}
				}
				found[f.pkg][name.Name] = true
			}
		}
	}
	return found
}

func variableSpecs(f goFile) []*ast.ValueSpec {
	var specs []*ast.ValueSpec
	for _, decl := range f.syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			specs = append(specs, spec.(*ast.ValueSpec))
		}
	}
	return specs
}

// changes finds assignments to variables of those names that the function does
// not declare itself. Names are compared, not objects: a local variable of the
// same name hides the package's for the whole function.
func changes(fn *ast.FuncDecl, names map[string]bool) []*ast.Ident {
	local := declaredIn(fn)
	local["_"] = true
	var found []*ast.Ident
	note := func(target ast.Expr) {
		if name := rootOf(target); name != nil && names[name.Name] && !local[name.Name] {
			found = append(found, name)
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, target := range n.Lhs {
				note(target)
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if name, ok := n.X.(*ast.Ident); ok && n.Op == token.AND {
				note(name) // a pointer to it can change it out of sight
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.Ident); ok && (called.Name == "delete" || called.Name == "clear") {
				note(n.Args[0])
			}
		}
		return true
	})
	return found
}

// declaredIn lists every name that a function declares, as parameter or variable.
func declaredIn(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if name, ok := e.(*ast.Ident); ok {
				names[name.Name] = true
			}
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

// rootOf is the variable in which an expression's value lies: x of x.f[i].
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch inner := e.(type) {
		case *ast.Ident:
			return inner
		case *ast.SelectorExpr:
			e = inner.X
		case *ast.IndexExpr:
			e = inner.X
		case *ast.ParenExpr:
			e = inner.X
		case *ast.StarExpr:
			e = inner.X
		default:
			return nil
		}
	}
}
