package house

import (
	"go/ast"
	"strings"
	"testing"
)

// TestAuthorsMeetNoInternalTypes: what the Go SDK and its test kits export has no type of an internal package: an author
// could neither name nor make one.
func TestAuthorsMeetNoInternalTypes(t *testing.T) {
	for _, f := range parseRepository(t) {
		if f.test || f.pkg != "." && f.pkg != "setpointtest" && f.pkg != "controlplane/apptest" {
			continue
		}
		internal := internalImports(f.syntax)
		for _, at := range exportedTypes(f.syntax) {
			ast.Inspect(at, func(n ast.Node) bool {
				selector, is := n.(*ast.SelectorExpr)
				if !is {
					return true
				}
				if from, is := selector.X.(*ast.Ident); is && internal[from.Name] {
					t.Errorf("%s: what is exported has the type %s.%s of an internal package", f.position(n), from.Name, selector.Sel.Name)
				}
				return true
			})
		}
	}
}

// internalImports returns the names by which a file knows internal packages.
func internalImports(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.Imports {
		pkg, ours := packageOfImport(spec.Path.Value)
		if !ours || !strings.HasPrefix(pkg, "internal/") {
			continue
		}
		name := pkg[strings.LastIndex(pkg, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// exportedTypes returns the signatures, types of fields and other types that the declarations of a file export.
func exportedTypes(f *ast.File) []ast.Node {
	var all []ast.Node
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(strings.Split(functionName(d), ".")[0])) {
				all = append(all, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				all = append(all, exportedSpec(spec)...)
			}
		}
	}
	return all
}

// exportedSpec returns the types that a declaration of types, constants or variables exports.
func exportedSpec(spec ast.Spec) []ast.Node {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		if s.Names[0].IsExported() && s.Type != nil {
			return []ast.Node{s.Type}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		switch typ := s.Type.(type) {
		case *ast.StructType:
			return exportedMembers(typ.Fields)
		case *ast.InterfaceType:
			return exportedMembers(typ.Methods)
		}
		return []ast.Node{s.Type}
	}
	return nil
}

// exportedMembers returns the types of exported fields and methods, and those that are embedded by an exported name.
func exportedMembers(members *ast.FieldList) []ast.Node {
	var all []ast.Node
	for _, m := range members.List {
		if _, selected := m.Type.(*ast.SelectorExpr); len(m.Names) > 0 && m.Names[0].IsExported() || len(m.Names) == 0 && selected {
			all = append(all, m.Type)
		}
	}
	return all
}
