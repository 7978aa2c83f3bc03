package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

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
