// Package types is `setpoint types`: it finds schemas and writes the types of hooks.
package types

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/scaffold"
	"github.com/setpoint-dev/setpoint/internal/typegen"
)

// typesFlags are the flags of `setpoint types`.
type typesFlags struct {
	cluster   client.ClusterFlags
	offline   bool
	languages []string
	related   []string
	output    string
	// relatedKinds are those of related.
	relatedKinds []typegen.Resource
}

// typesLanguage is a language that types are written in.
type typesLanguage struct {
	name, file string
	write      func(*typegen.Module) ([]byte, error)
}

// typesLanguages are those of --language. No file may be called types.py, which would replace a
// module of Python itself.
func typesLanguages() []typesLanguage {
	return []typesLanguage{
		{"typescript", "setpoint_types.d.ts", func(m *typegen.Module) ([]byte, error) { return m.TypeScript(), nil }},
		{"python", "setpoint_types.py", func(m *typegen.Module) ([]byte, error) { return m.Python(), nil }},
		{"jsonschema", "setpoint_types.schema.json", (*typegen.Module).JSONSchema},
	}
}

// Command returns `setpoint types`.
func Command(p *command.Invocation) *cobra.Command {
	f := &typesFlags{}
	c := &cobra.Command{
		Use:   "types (FILE | DIR)…",
		Short: "Generate types for TypeScript, Python and JSON Schema",
		Long: `Generate declarations of types for the code of hooks: of the kinds of CRDs, of the kinds
that controllers name, and of the request and the response of each hook of each controller.
Editors then complete 'parent.spec.', and a type checker finds a wrong field.

FILE is a manifest with CRDs and controllers, DIR a folder of manifests, - is standard input.

The schema of a kind is that of its CRD in the files, else that of the API server of the
current context, such as one of 'setpoint dev', else that of the Go types of Kubernetes in this
program. These have all built-in kinds with all their fields, but not the values that a field
may have. A kind that has no schema anywhere has untyped fields, and a warning names it.`,
		Example: `  setpoint types tenant.yaml --output .
  setpoint types examples/rolling-set --language python > setpoint_types.py
  setpoint types controller.yaml crd.yaml --related v1/secrets --language typescript`,
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	set := c.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.languages, "language", nil,
		"`language` of the declarations: typescript, python or jsonschema (repeatable; default with --output: all)")
	set.StringVarP(&f.output, "output", "o", "",
		"`folder` to write setpoint_types.d.ts, setpoint_types.py and setpoint_types.schema.json to (default: standard output)")
	set.StringSliceVar(&f.related, "related", nil,
		"`kind` that customize hooks select, such as v1/secrets or apps/v1/deployments (repeatable)")
	set.BoolVar(&f.offline, "offline", false, "read no cluster, so that the output depends on the files alone")
	f.cluster.Register(c)
	names := lists.Map(typesLanguages(), func(language typesLanguage) string { return language.name })
	command.CompleteWords(c, "language", names)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *typesFlags, args []string) error {
	languages, err := f.chosen()
	if err != nil {
		return command.UsageError(err)
	}
	if len(args) == 0 {
		return command.UsageErrorf("no files given; give CRDs and controllers, or a folder of them")
	}
	objects, err := manifests.ReadObjects(args)
	if err != nil {
		return err
	}
	if f.relatedKinds, err = relatedResources(f.related); err != nil {
		return command.UsageError(err)
	}
	module, sources, err := typesOfObjects(ctx, f, objects)
	if errors.Is(err, errNoKinds) {
		err = fmt.Errorf("%w in %s", err, strings.Join(args, ", "))
	}
	if err != nil {
		return err
	}
	warnUntyped(p, module, sources)
	return writeTypes(p, f, languages, module)
}

var errNoKinds = errors.New("no CRD and no controller")

// Declarations returns the declarations of the types of CRDs and controllers in a language, without a cluster, and the name of
// their file.
func Declarations(ctx context.Context, language string, objects []*object.Object) (file string, text []byte, err error) {
	at := slices.IndexFunc(typesLanguages(), func(l typesLanguage) bool { return l.name == language })
	module, _, err := typesOfObjects(ctx, &typesFlags{offline: true}, objects)
	if err != nil {
		return "", nil, err
	}
	text, err = typesLanguages()[at].write(module)
	return typesLanguages()[at].file, text, err
}

// typesOfObjects generates the types of CRDs and controllers.
func typesOfObjects(ctx context.Context, f *typesFlags, objects []*object.Object) (*typegen.Module, *typeSources, error) {
	sources, err := newTypeSources(f, objects)
	if err != nil {
		return nil, nil, err
	}
	o := typegen.Options{
		Kinds: sources.inFiles(), Related: f.relatedKinds,
		Sources: func(r typegen.Resource) (typegen.Kind, error) { return sources.find(ctx, r) },
	}
	for _, each := range objects {
		if _, is := compile.KindOf(each); is {
			o.Controllers = append(o.Controllers, each)
		}
	}
	if len(o.Controllers)+len(o.Kinds) == 0 {
		return nil, nil, errNoKinds
	}
	module, err := typegen.Generate(o)
	return module, sources, err
}

// chosen returns the languages to write.
func (f *typesFlags) chosen() ([]typesLanguage, error) {
	var chosen []typesLanguage
	for _, name := range f.languages {
		at := slices.IndexFunc(typesLanguages(), func(l typesLanguage) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("--language %q: must be typescript (for JavaScript too), python or jsonschema", name)
		}
		chosen = append(chosen, typesLanguages()[at])
	}
	switch {
	case f.output != "" && len(chosen) == 0:
		return typesLanguages(), nil
	case f.output == "" && len(chosen) != 1:
		return nil, errors.New("give one --language for standard output, or a folder by --output")
	}
	return chosen, nil
}

// relatedResources parses APIVERSION/PLURAL.
func relatedResources(names []string) ([]typegen.Resource, error) {
	var all []typegen.Resource
	for _, name := range names {
		at := strings.LastIndex(name, "/")
		if at < 1 || at == len(name)-1 || strings.Count(name, "/") > 2 {
			return nil, fmt.Errorf("--related %q: must be APIVERSION/PLURAL, such as v1/secrets or apps/v1/deployments", name)
		}
		all = append(all, typegen.Resource{APIVersion: name[:at], Plural: name[at+1:]})
	}
	return all, nil
}

// warnUntyped names the kinds without a schema and how to get one.
func warnUntyped(p *command.Invocation, m *typegen.Module, sources *typeSources) {
	if len(m.Untyped) > 0 {
		fmt.Fprintf(p.Stderr, "warning: no schema of %s: their fields are untyped; add their CRDs to the files, or use a cluster that "+
			"serves them (--context)%s\n",
			strings.Join(m.Untyped, ", "), sources.unread())
	}
}

func writeTypes(p *command.Invocation, f *typesFlags, languages []typesLanguage, m *typegen.Module) error {
	files := map[string][]byte{}
	for _, language := range languages {
		text, err := language.write(m)
		if err != nil {
			return err
		}
		if f.output == "" {
			_, err = p.Stdout.Write(text)
			return err
		}
		files[language.file] = text
	}
	if err := scaffold.Rewrite(f.output, files, typegen.Header); err != nil {
		return err
	}
	for _, language := range languages {
		fmt.Fprintf(p.Stdout, "wrote %s\n", filepath.Join(f.output, language.file))
	}
	return nil
}
