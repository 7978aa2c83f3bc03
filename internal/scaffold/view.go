package scaffold

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"sigs.k8s.io/yaml"
)

//go:embed children.yaml
var childrenText []byte

// child is a kind of children.
type child struct {
	APIVersion, Resource, Kind string
	// Body is the object without its name.
	Body map[string]any
	// Go is the expression of the object in Go.
	Go string
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
func (v *view) Base() string {
	var b strings.Builder
	for word := range strings.SplitSeq(v.Name, "-") {
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

// Objects returns the children as a list of literals.
func (v *view) Objects(language string, indent int) string {
	style := styles[language]
	style.text = style.name
	if v.HasStatus() {
		style.text = style.message
	}
	var all []string
	for _, c := range v.children {
		metadata := map[string]any{"name": "$name"}
		if v.Cluster {
			metadata["namespace"] = v.ChildNamespace()
		}
		object := map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": metadata}
		maps.Copy(object, c.Body)
		all = append(all, strings.Repeat(" ", indent)+style.literal(object, indent)+",")
	}
	return strings.Join(all, "\n")
}

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

// style is how a language writes objects.
type style struct {
	// quoted languages write names as strings, and have no space within braces.
	quoted bool
	step   int
	// name and message are expressions of the parent; text is one of both.
	name, message, text string
}

var styles = map[string]style{ //nolint:gochecknoglobals // A table.
	"javascript": {step: 2, name: "name", message: "parent.spec.message"},
	"starlark":   {quoted: true, step: 4, name: "name", message: `parent["spec"]["message"]`},
	"python":     {quoted: true, step: 4, name: "name", message: `parent["spec"]["message"]`},
}

// maxLiteral is the length of a literal on one line.
const maxLiteral = 90

// literal writes a value on one line, or with a line for each of its parts.
func (s *style) literal(value any, indent int) string {
	parts, opening, closing := s.parts(value, indent+s.step)
	if parts == nil {
		return s.scalar(value)
	}
	line := strings.Join(parts, ", ")
	if !strings.Contains(line, "\n") && len(line)+indent < maxLiteral {
		if opening == "{" && !s.quoted {
			return "{ " + line + " }"
		}
		return opening + line + closing
	}
	inner := "\n" + strings.Repeat(" ", indent+s.step)
	return opening + inner + strings.Join(parts, ","+inner) + ",\n" + strings.Repeat(" ", indent) + closing
}

// parts returns the fields or items of a value; nil for others.
func (s *style) parts(value any, indent int) (parts []string, opening, closing string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.SortedFunc(maps.Keys(value), byRank) {
			name := key
			if s.quoted {
				name = quote(key)
			}
			field := name + ": " + s.literal(value[key], indent)
			if !s.quoted && field == name+": "+name {
				field = name // A shorthand.
			}
			parts = append(parts, field)
		}
		return parts, "{", "}"
	case []any:
		parts = append(parts, lists.Map(value, func(item any) string { return s.literal(item, indent) })...)
		return parts, "[", "]"
	}
	return nil, "", ""
}

// byRank sorts fields as manifests have them.
func byRank(a, b string) int {
	first := []string{"apiVersion", "kind", "metadata", "name", "image"}
	rank := func(key string) int {
		if at := slices.Index(first, key); at >= 0 {
			return at
		}
		return len(first)
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func (s *style) scalar(value any) string {
	switch value {
	case "$name":
		return s.name
	case "$text":
		return s.text
	}
	if text, is := value.(string); is {
		return quote(text)
	}
	return fmt.Sprint(value) // A number.
}

// quote writes a string as all languages do: there are no control characters in it.
func quote(text string) string { return strconv.Quote(text) }
