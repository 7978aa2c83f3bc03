// Package scaffold writes new operators: files from templates, which belong to the author from
// then on. It replaces no file that it has not generated.
//
// templates/ has a folder for each language, and common for all. "NAME", "MODULE" and "CRD" in the
// name of a file stand for those of the operator. `setpoint init` calls the package; it reads no
// cluster and no flags.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/js"
)

//go:embed templates
var templates embed.FS

// Options describe an operator.
type Options struct {
	// Name is that of the controller, of its namespace and of its image.
	Name     string
	Language string
	// Kind, Plural, Group and Version name the kind of the parents.
	Kind, Plural, Group, Version string
	// Cluster means that the kind is cluster-scoped. Its children are in ChildNamespace.
	Cluster bool
	// Children are the plural names of kinds.
	Children []string
	// CRD and Sample are manifests of a kind that exists; both are empty for a new one.
	CRD, Sample string
	// Release is the version of the Go SDK; empty for the newest. Local is a folder with its source, which is used
	// instead; empty for none.
	Release, Local string
}

// Languages are those of operators.
func Languages() []string { return []string{"javascript", "starlark", "python", "typescript", "go"} }

// Files returns the files of a new operator by their paths.
func Files(o Options) (map[string][]byte, error) {
	v, err := newView(o)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, folder := range []string{"common", o.Language} {
		entries, err := templates.ReadDir(path.Join("templates", folder))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name := v.fileName(entry.Name())
			text, err := v.render(path.Join("templates", folder, entry.Name()))
			if err != nil {
				return nil, err
			}
			files[name] = text
		}
	}
	if o.Language == "typescript" {
		err = addPackage(files, js.Files)
	}
	return files, err
}

// packageFolder has the package for JavaScript: it is in no registry.
const packageFolder = "setpoint"

func addPackage(files map[string][]byte, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path.Join(packageFolder, name)], err = fs.ReadFile(from, name)
		return err
	})
}

// fileName returns the name of the file of a template. Files that the go command would read here end with
// .tmpl.
func (v *view) fileName(name string) string {
	name = strings.TrimSuffix(name, ".tmpl")
	if name == "CRD" {
		return v.CRDFile()
	}
	return strings.NewReplacer("NAME", v.Name, "MODULE", v.Module()).Replace(name)
}

func (v *view) render(file string) ([]byte, error) {
	t := template.New(path.Base(file)).Delims("<%", "%>").Option("missingkey=error")
	t, err := t.ParseFS(templates, "templates/parts/*", file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, path.Base(file), v); err != nil {
		return nil, err
	}
	text := append(bytes.TrimSpace(out.Bytes()), '\n')
	if path.Ext(strings.TrimSuffix(file, ".tmpl")) != ".go" {
		return text, nil
	}
	return format.Source(text)
}

// newView checks the options.
func newView(o Options) (*view, error) {
	switch {
	case len(validation.IsDNS1035Label(o.Name)) > 0:
		return nil, fmt.Errorf("the name %q: %s", o.Name, labelRule)
	case !slices.Contains(Languages(), o.Language):
		return nil, fmt.Errorf("the language %q: must be one of %s", o.Language, strings.Join(Languages(), ", "))
	case !kindPattern.MatchString(o.Kind):
		return nil, fmt.Errorf("the kind %q: must be a word in CamelCase, such as Team", o.Kind)
	case len(validation.IsDNS1035Label(o.Plural)) > 0:
		return nil, fmt.Errorf("the plural %q: %s", o.Plural, labelRule)
	case len(validation.IsDNS1123Subdomain(o.Group)) > 0 || !strings.Contains(o.Group, "."):
		return nil, fmt.Errorf("the group %q: must be a domain, such as example.com", o.Group)
	case len(o.Children) == 0:
		return nil, errors.New("no kinds of children; such as configmaps")
	}
	known, err := readChildren()
	if err != nil {
		return nil, err
	}
	v := &view{Options: o}
	for _, name := range o.Children {
		at := slices.IndexFunc(known, func(c child) bool { return c.Resource == name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("the kind of children %q: must be one of %s; add others to the controller later",
				name, strings.Join(ChildKinds(), ", "))
		case slices.ContainsFunc(v.Children(), func(c child) bool { return c.Resource == name }):
			return nil, fmt.Errorf("the kind of children %q is given twice", name)
		}
		v.children = append(v.children, known[at])
	}
	return v, nil
}

// labelRule is what IsDNS1035Label checks.
const labelRule = "must be lower-case letters, digits and hyphens, begin with a letter, end with a letter or digit, and have at most 63 " +
	"characters, such as guitar-shop"

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// ChildKinds are the plural names of the kinds of children that a new operator can have.
func ChildKinds() []string {
	known, _ := readChildren() // It is in the binary, and a test reads it.
	return lists.Map(known, func(c child) string { return c.Resource })
}
