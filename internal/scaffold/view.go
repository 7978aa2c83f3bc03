package scaffold

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed children.yaml
var childrenText []byte

// child is a kind of children.
type child struct {
	APIVersion, Resource, Kind string
	// Body is the object without its name.
	Body map[string]any
	// JavaScript are the fields of Body in JavaScript, Go is the expression of the object in Go.
	JavaScript, Go string
}

func readChildren() (all []child, err error) {
	err = yaml.UnmarshalStrict(childrenText, &all)
	return all, err
}

// Key is the name of the objects of the kind in requests.
func (c child) Key() string { return c.Kind + "." + c.APIVersion }

// GoType is the type in Go.
func (c child) GoType() string {
	expression, _, _ := strings.Cut(strings.TrimPrefix(c.Go, "&"), "{")
	return expression
}

// view is what templates use.
type view struct {
	Options

	children []child
}

// LocalPath is Local as go.mod has it.
func (v *view) LocalPath() string {
	if strings.ContainsAny(v.Local, " \t\"'`()[]{},") {
		return strconv.Quote(v.Local)
	}
	return v.Local
}

// Children are the kinds of children.
func (v *view) Children() []child { return v.children }

// APIVersion is that of the parents.
func (v *view) APIVersion() string { return v.Group + "/" + v.Version }

// Singular is the name of one parent, in lower case.
func (v *view) Singular() string { return strings.ToLower(v.Kind) }

// Module is the name in Python.
func (v *view) Module() string { return strings.ReplaceAll(v.Name, "-", "_") }

// Scope is that of the kind, as in a CRD.
func (v *view) Scope() string {
	if v.Cluster {
		return "Cluster"
	}
	return "Namespaced"
}

// ChildNamespace is that of the children of a cluster-scoped kind; "" if it is that of their parent.
func (v *view) ChildNamespace() string {
	if v.Cluster {
		return "default"
	}
	return ""
}

// HasStatus reports whether the kind is new, with the spec and the status of the templates.
func (v *view) HasStatus() bool { return v.CRD == "" }

// Base is the prefix of the types that `setpoint types` generates for the controller.
func (v *view) Base() string { return CamelCase(v.Name) }

// CamelCase returns such as GuitarShop for guitar-shop.
func CamelCase(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// CRDFile is the name that controller-gen gives to the CRD.
func (v *view) CRDFile() string { return v.Group + "_" + v.Plural + ".yaml" }

// UsesText and UsesLabels report what the expressions in Go need.
func (v *view) UsesText() bool   { return v.goUses("text") }
func (v *view) UsesLabels() bool { return v.goUses("labels") }

func (v *view) goUses(name string) bool {
	word := regexp.MustCompile(`\b` + name)
	return slices.ContainsFunc(v.children, func(c child) bool { return word.MatchString(c.Go) })
}

// GoImports are the packages of the children, without that of metav1.
func (v *view) GoImports() (all []string) {
	for _, known := range []struct{ name, imported string }{
		{"appsv1", `appsv1 "k8s.io/api/apps/v1"`}, {"corev1", `corev1 "k8s.io/api/core/v1"`},
		{"resource", `"k8s.io/apimachinery/pkg/api/resource"`},
	} {
		if v.goUses(known.name + `\.`) {
			all = append(all, known.imported)
		}
	}
	return all
}

// Objects returns the children as a list of literals. Those of Python and Starlark have quoted names and a wider indentation.
func (v *view) Objects(language string, indent int) string {
	metadata, text := "{ name }", "name"
	if v.Cluster {
		metadata = fmt.Sprintf("{ name, namespace: %q }", v.ChildNamespace())
	}
	if v.HasStatus() {
		text = "parent.spec.message"
	}
	var b strings.Builder
	for _, c := range v.children {
		fmt.Fprintf(&b, "{\n  apiVersion: %q,\n  kind: %q,\n  metadata: %s,\n%s},\n", c.APIVersion, c.Kind, metadata, c.JavaScript)
	}
	code := strings.TrimSuffix(b.String(), "\n")
	if language != "javascript" {
		code = strings.NewReplacer("{ name,", "{ name: name,", "{ name }", "{ name: name }").Replace(code)
		code = fieldName.ReplaceAllString(code, `"$1": `)
		code = strings.NewReplacer("{ ", "{", " }", "}", "  ", "    ").Replace(code)
		text = strings.NewReplacer(".spec", `["spec"]`, ".message", `["message"]`).Replace(text)
	}
	code = strings.ReplaceAll(code, "$text", text)
	margin := strings.Repeat(" ", indent)
	return margin + strings.ReplaceAll(code, "\n", "\n"+margin)
}

// fieldName matches the name of a field in JavaScript.
var fieldName = regexp.MustCompile(`(\w+): `)

// Expected returns the children of an object named example as a list in YAML.
func (v *view) Expected() (string, error) {
	text := "example"
	if v.HasStatus() {
		text = "hello"
	}
	var all []map[string]any
	for _, c := range v.children {
		object := map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": map[string]any{"name": "$name"}}
		maps.Copy(object, c.Body)
		all = append(all, object)
	}
	list, err := yaml.Marshal(all)
	if err != nil {
		return "", err
	}
	filled := strings.NewReplacer("$name", "example", "$text", text).Replace(string(list))
	return "  " + strings.ReplaceAll(strings.TrimSuffix(filled, "\n"), "\n", "\n  ") + "\n", nil
}
