package main

import (
	"fmt"
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// object is a Go type of the API.
type object struct {
	name, doc string
	markers   []string
	fields    []field
	plain     string // what it is, if it is no struct
	node      ast.Node
}

// field is one field of it, as JSON has it.
type field struct {
	name, doc string
	markers   []string
	kind      ast.Expr
	node      ast.Node
}

// writeKinds describes the kinds of both groups.
func writeKinds(s *source, parts map[string]string, problems *problems) {
	ours := s.objects("api/v1alpha1")
	parts["setpoint.dev"] = kindsOf(s, ours, nil, problems)
	parts["metacontroller.k8s.io"] = kindsOf(s, s.objects("api/metacontroller/v1alpha1"), ours, problems)
}

// objects are the types of a package by their names.
func (s *source) objects(dir string) map[string]*object {
	found := map[string]*object{}
	for _, f := range s.in(dir) {
		for _, decl := range f.syntax.Decls {
			addTypes(found, decl)
		}
	}
	return found
}

func addTypes(found map[string]*object, decl ast.Decl) {
	block, ok := decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range block.Specs {
		if spec, ok := spec.(*ast.TypeSpec); ok {
			found[spec.Name.Name] = newObject(spec, block.Doc)
		}
	}
}

func newObject(spec *ast.TypeSpec, doc *ast.CommentGroup) *object {
	o := &object{name: spec.Name.Name, doc: comment(doc), markers: markersOf(doc), node: spec}
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		o.plain = typeName(spec.Type)
		return o
	}
	for _, f := range body.Fields.List {
		tag := ""
		if f.Tag != nil {
			tag, _ = strconv.Unquote(f.Tag.Value)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		o.fields = append(o.fields, field{name: name, doc: comment(f.Doc), markers: markersOf(f.Doc), kind: f.Type, node: f})
	}
	return o
}

// markersOf are the lines of a comment for generators.
func markersOf(doc *ast.CommentGroup) []string {
	var found []string
	if doc == nil {
		return nil
	}
	for _, line := range doc.List {
		if marker, ok := strings.CutPrefix(line.Text, "// +"); ok {
			found = append(found, marker)
		}
	}
	return found
}

// marker is the value of one of them.
func marker(markers []string, name string) (string, bool) {
	for _, m := range markers {
		if value, ok := strings.CutPrefix(m, name); ok {
			return strings.TrimPrefix(value, "="), true
		}
	}
	return "", false
}

// kindWriter writes the kinds of one group: first each with its spec, then the types that these
// name, each once.
type kindWriter struct {
	source    *source
	types     map[string]*object
	elsewhere map[string]*object
	problems  *problems
	text      strings.Builder
	pending   []string
	done      map[string]bool
}

func kindsOf(s *source, types, elsewhere map[string]*object, problems *problems) string {
	w := &kindWriter{source: s, types: types, elsewhere: elsewhere, problems: problems, done: map[string]bool{}}
	for _, name := range []string{"CompositeController", "DecoratorController", "HandlerController", "AdmissionController"} {
		if types[name] == nil {
			continue
		}
		w.heading(types[name])
		w.table(types[name+"Spec"])
	}
	w.text.WriteString("## Types\n\n")
	if status := types["ControllerStatus"]; status != nil {
		w.pending = append(w.pending, status.name)
	}
	for len(w.pending) > 0 {
		name := w.pending[0]
		w.pending = w.pending[1:]
		if w.done[name] {
			continue
		}
		w.done[name] = true
		fmt.Fprintf(&w.text, "### %s\n\n%s\n\n", name, w.described(types[name].doc, name, types[name].node))
		w.table(types[name])
	}
	return w.text.String()
}

var shortNames = regexp.MustCompile(`shortName=([\w;]+)`)

func (w *kindWriter) heading(o *object) {
	fmt.Fprintf(&w.text, "## %s\n\n%s", o.name, w.described(o.doc, o.name, o.node))
	for _, m := range o.markers {
		if found := shortNames.FindStringSubmatch(m); found != nil {
			fmt.Fprintf(&w.text, " Short names: `%s`.", strings.ReplaceAll(found[1], ";", "`, `"))
		}
	}
	w.text.WriteString("\n\nFields of `spec`:\n\n")
}

func (w *kindWriter) described(doc, name string, at ast.Node) string {
	if doc == "" {
		w.problems.add("%s: %s has no doc comment", w.source.position(at), name)
	}
	return w.source.sentence(doc, "")
}

func (w *kindWriter) table(o *object) {
	w.text.WriteString("| field | type | |\n|---|---|---|\n")
	w.rows(o)
	w.text.WriteString("\n")
}

// rows are those of the fields of a type; a type that is inlined has its fields here.
func (w *kindWriter) rows(o *object) {
	for _, f := range o.fields {
		inlined := w.types[typeName(f.kind)]
		switch {
		case f.name == "" && inlined != nil:
			w.rows(inlined)
		case f.name != "" && f.name != "-":
			fmt.Fprintf(&w.text, "| `%s` | %s | %s |\n", f.name, w.typeOf(f), w.meaning(o, f))
		}
	}
}

func (w *kindWriter) meaning(o *object, f field) string {
	text := named(w.described(f.doc, o.name+"."+f.name, f.node), f.name)
	if _, required := marker(f.markers, "required"); required {
		text = "**Required.** " + text
	}
	value, has := marker(f.markers, "kubebuilder:default")
	value = strings.Trim(value, `"`)
	if has && value != "{}" && !strings.Contains(text, "Default") {
		text += " Default `" + value + "`."
	}
	return text
}

// named is the comment of a field with the name of the field as users write it.
func named(doc, name string) string {
	word, rest, _ := strings.Cut(doc, " ")
	if strings.EqualFold(word, name) {
		return "`" + name + "` " + rest
	}
	return cell(doc)
}

// typeOf is the type of a field as JSON has it.
func (w *kindWriter) typeOf(f field) string {
	if values, ok := marker(f.markers, "kubebuilder:validation:Enum"); ok {
		return choices(values)
	}
	return w.shown(f.kind)
}

func (w *kindWriter) shown(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return w.shown(e.X)
	case *ast.ArrayType:
		return "list of " + w.shown(e.Elt)
	case *ast.MapType:
		return "map of " + w.shown(e.Value)
	}
	return w.reference(typeName(e))
}

// reference shows a type by its name. One of this package gets a section of its own.
func (w *kindWriter) reference(name string) string {
	o := w.types[name]
	switch {
	case o == nil && w.elsewhere[name] != nil:
		return fmt.Sprintf("[%s](kinds.md#%s)", name, strings.ToLower(name))
	case o == nil:
		return basic(name)
	case o.plain == "":
		if !slices.Contains(w.pending, name) {
			w.pending = append(w.pending, name)
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if values, ok := marker(o.markers, "kubebuilder:validation:Enum"); ok {
		return choices(values)
	}
	return basic(o.plain)
}

func choices(values string) string {
	return "`" + strings.Join(strings.Split(values, ";"), "`, `") + "`"
}

// basic names a type that is not of the API as JSON has it.
func basic(name string) string {
	switch name {
	case "bool":
		return "boolean"
	case "int32", "int64", "int":
		return "integer"
	case "Duration", "Span":
		return "duration"
	case "Time", "string":
		return "string"
	}
	return name
}
