// Package initialize is `setpoint init`: it writes the files of a new operator.
package initialize

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/scaffold"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// initFlags are the flags of `setpoint init`.
type initFlags struct {
	types                 typeWriter
	language, kind, group string
	scope                 string
	children              []string
	fromCRD, output       string
	local                 string
}

// typeWriter returns the declarations of types in a language, and the name of their file.
type typeWriter func(ctx context.Context, language string, objects []*object.Object) (file string, text []byte, err error)

// Command returns `setpoint init`. It writes the types of kinds with the function.
func Command(p *command.Invocation, types typeWriter) *cobra.Command {
	f := &initFlags{types: types}
	c := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a new operator",
		Long: `Write the files of a new operator, which works at once: a kind with its CRD, the logic, an
object, tests, and what runs it in a cluster. 'setpoint dev NAME' runs it on this machine.

In javascript and starlark the logic is in the manifest, and Setpoint runs it. In python it
is an operator with the package setpoint, in typescript a webhook, in go a program with the
SDK.

On a terminal it prompts for what the flags leave open; elsewhere the defaults count. It
replaces no file.`,
		Example: `  setpoint init tenant
  setpoint init tenant --language python --kind Tenant --group example.com
  setpoint init tenant --language go --children deployments,services
  setpoint init tenant --language go --local ~/setpoint
  setpoint init tenant --from-crd crd.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageErrorf("want one NAME, such as tenant")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return run(p, c, f, args[0]) },
	}
	set := c.Flags()
	set.SortFlags = false
	set.StringVar(&f.language, "language", "javascript", "`language` of the logic: "+strings.Join(scaffold.Languages(), ", "))
	set.StringVar(&f.kind, "kind", "", "`kind` of the objects that the operator handles (default: from NAME)")
	set.StringVar(&f.group, "group", "example.com", "API `group` of the kind")
	set.StringVar(&f.scope, "scope", namespacedScope, "`scope` of the kind: "+strings.Join(scopes, ", "))
	set.StringSliceVar(&f.children, "children", []string{"configmaps"}, "comma-separated `kinds` of objects that each of them has: "+
		strings.Join(scaffold.ChildKinds(), ", "))
	set.StringVar(&f.fromCRD, "from-crd", "", "`file` with the CRD of a kind that exists; excludes --kind, --group and --scope")
	set.StringVar(&f.local, "local", "", "with --language go: `folder` of a clone of Setpoint, which the program uses instead of a release")
	set.StringVarP(&f.output, "output", "o", "", "`folder` to write to (default: NAME)")
	command.CompleteWords(c, "language", scaffold.Languages())
	command.CompleteWords(c, "scope", scopes)
	command.CompleteWords(c, "children", scaffold.ChildKinds())
	return c
}

// Scopes of kinds, as in a CRD.
const (
	namespacedScope = "Namespaced"
	clusterScope    = "Cluster"
)

var scopes = []string{namespacedScope, clusterScope}

func run(p *command.Invocation, c *cobra.Command, f *initFlags, name string) error {
	if f.fromCRD != "" && (f.kind != "" || c.Flags().Changed("group") || c.Flags().Changed("scope")) {
		return command.UsageErrorf("--from-crd excludes --kind, --group and --scope, which are those of the CRD")
	}
	if !slices.Contains(scopes, f.scope) {
		return command.UsageErrorf("--scope %s: must be one of %s", f.scope, strings.Join(scopes, ", "))
	}
	o, files, err := f.scaffold(name)
	if err == nil && output.IsTerminal(p.Stdin) {
		if err = prompt(p, c, f, name); err == nil {
			o, files, err = f.scaffold(name)
		}
	}
	if err != nil {
		return err
	}
	if err := f.addTypes(c.Context(), files); err != nil {
		return err
	}
	dir := f.folder(name)
	if err := scaffold.Write(dir, files); err != nil {
		return err
	}
	printNext(p, o, dir, files)
	return nil
}

// folder returns where the files are written.
func (f *initFlags) folder(name string) string { return cmp.Or(f.output, name) }

// scaffold returns the operator that the flags describe, and its files.
func (f *initFlags) scaffold(name string) (scaffold.Options, map[string][]byte, error) {
	o, err := f.operator(name)
	if err != nil {
		return o, nil, err
	}
	files, err := scaffold.Files(o)
	if err != nil {
		return o, nil, command.UsageError(err)
	}
	return o, files, nil
}

// operator returns what the flags say.
func (f *initFlags) operator(name string) (scaffold.Options, error) {
	o := scaffold.Options{Name: name, Language: f.language, Kind: f.kind, Group: f.group, Version: "v1", Cluster: f.scope == clusterScope,
		Children: f.children}
	if version := command.ReadVersion().Version; releasePattern.MatchString(version) {
		o.Release = version
	}
	if f.local != "" {
		var err error
		if o.Local, err = f.localModule(); err != nil {
			return o, err
		}
	}
	if f.fromCRD != "" {
		err := readKind(&o, f.fromCRD)
		return o, err
	}
	if o.Kind == "" {
		o.Kind = kindFromName(name)
	}
	plural, _ := meta.UnsafeGuessKindToResource(apischema.GroupVersionKind{Kind: o.Kind})
	o.Plural = plural.Resource
	return o, nil
}

// modulePath is the path of the module of the Go SDK.
const modulePath = "github.com/setpoint-dev/setpoint"

// localModule returns the folder of --local, which has the module of the Go SDK.
func (f *initFlags) localModule() (string, error) {
	if f.language != "go" {
		return "", command.UsageErrorf("--local is for --language go: %s needs no module of Setpoint", f.language)
	}
	dir, err := filepath.Abs(f.local)
	if err != nil {
		return "", fmt.Errorf("--local: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module "+modulePath+"\n") {
		return "", command.UsageErrorf("--local %s: must be a clone of Setpoint, with the go.mod of %s", f.local, modulePath)
	}
	return dir, nil
}

// releasePattern matches versions that the Go command can fetch.
var releasePattern = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// kindFromName returns a kind such as GuitarShop for guitar-shop and for guitar-shops.
func kindFromName(name string) string {
	switch {
	case strings.HasSuffix(name, "ies"):
		name = strings.TrimSuffix(name, "ies") + "y"
	case !notPlural.MatchString(name):
		name = strings.TrimSuffix(name, "s")
	}
	return scaffold.CamelCase(name)
}

// notPlural matches words that end like a plural and are none, such as glass and status.
var notPlural = regexp.MustCompile(`(ss|us|is)$`)

// readKind reads the kind of a CRD, in the version that is stored.
func readKind(o *scaffold.Options, file string) error {
	objects, err := manifests.ReadObjects([]string{file})
	if err != nil {
		return err
	}
	var definition *object.Object
	for _, each := range objects {
		switch {
		case each.Kind() != crds.Resource.Kind:
		case definition != nil:
			return fmt.Errorf("--from-crd: %s has several CRDs; give the file of one", file)
		default:
			definition = each
		}
	}
	if definition == nil {
		return fmt.Errorf("--from-crd: no CustomResourceDefinition in %s", file)
	}
	served, err := schema.OfCRD(definition.JSON())
	if err != nil {
		return fmt.Errorf("--from-crd: %s: %w", definition.Name(), err)
	}
	kind := served[0]
	for _, each := range served {
		if each.Stored {
			kind = each
		}
	}
	o.Cluster = !kind.Namespaced
	o.Kind, o.Plural, o.Group, o.Version = kind.Kind.Kind, kind.Plural, kind.Group, kind.Version
	return setManifests(o, definition, &kind)
}

// setManifests sets the CRD and an object of its kind.
func setManifests(o *scaffold.Options, definition *object.Object, kind *schema.Served) error {
	manifest, err := yaml.JSONToYAML(definition.JSON())
	if err != nil {
		return err
	}
	example, is := schema.Example(kind.Schema).(map[string]any)
	if !is {
		example = map[string]any{}
	}
	delete(example, "status")
	example["apiVersion"], example["kind"] = kind.APIVersion(), kind.Kind.Kind
	example["metadata"] = map[string]any{"name": "example"}
	sample, err := yaml.Marshal(example)
	o.CRD, o.Sample = string(manifest), string(sample)
	return err
}

// addTypes adds the types of the CRD and of the controller among files: for editors with those of the controller itself.
func (f *initFlags) addTypes(ctx context.Context, files map[string][]byte) error {
	var objects []*object.Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" || name == project.FileName {
			continue
		}
		some, err := readObjects(name, files[name])
		if err != nil {
			return err
		}
		objects = append(objects, some...)
	}
	described := slices.Clone(objects)
	for _, text := range crd.All() {
		own, err := readObjects("CRD", text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(objects, func(o *object.Object) bool {
			kind, is := compile.KindOf(o)
			return is && crds.NameOf(kind.Resource) == own[0].Name()
		}) {
			described = append(described, own...)
		}
	}
	file, text, err := f.types(ctx, "jsonschema", described)
	if err != nil {
		return err
	}
	files[file] = text
	if f.language == "typescript" {
		file, text, err = f.types(ctx, f.language, objects)
		files[file] = text
	}
	return err
}

func readObjects(name string, text []byte) ([]*object.Object, error) {
	documents, err := manifest.Parse(name, text)
	if err != nil {
		return nil, err
	}
	return manifests.ParseDocuments(documents)
}

// prompt reads what the flags leave open. An empty line is the default in brackets. It prompts again for what is wrong, and for nothing
// where there is an operator already.
func prompt(p *command.Invocation, c *cobra.Command, f *initFlags, name string) error {
	if err := scaffold.RefuseExisting(f.folder(name), map[string][]byte{project.FileName: nil}); err != nil {
		return err
	}
	setChildren := func(text string) {
		f.children = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	in := bufio.NewReader(p.Stdin)
	for _, prompt := range []struct {
		flag, text, missing string
		set                 func(string)
	}{
		{"language", "Language (" + strings.Join(scaffold.Languages(), ", ") + ")", f.language, func(s string) { f.language = s }},
		{"kind", "Kind", kindFromName(name), func(s string) { f.kind = s }},
		{"group", "API group", f.group, func(s string) { f.group = s }},
		{"children", "Kinds of children (" + strings.Join(scaffold.ChildKinds(), ", ") + ")", strings.Join(f.children, ","), setChildren},
	} {
		ofCRD := f.fromCRD != "" && (prompt.flag == "kind" || prompt.flag == "group")
		if c.Flags().Changed(prompt.flag) || ofCRD {
			continue
		}
		for wrong := true; wrong; {
			fmt.Fprintf(p.Stdout, "%s [%s]: ", prompt.text, prompt.missing)
			line, ended := in.ReadString('\n')
			prompt.set(cmp.Or(strings.TrimSpace(line), prompt.missing))
			_, _, err := f.scaffold(name)
			if wrong = err != nil; wrong && ended != nil {
				return err
			}
			if wrong {
				fmt.Fprintln(p.Stdout, output.Clean(err.Error()))
			}
		}
	}
	return nil
}

// printNext prints what was written and what to do with it.
func printNext(p *command.Invocation, o scaffold.Options, dir string, files map[string][]byte) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(p.Stdout, "wrote %s\n", filepath.Join(dir, name))
	}
	fmt.Fprint(p.Stdout, "\nnext:\n")
	if o.Language == "go" {
		fmt.Fprintf(p.Stdout, "  (cd %s && go mod tidy)\n", dir)
	}
	if files["cases.yaml"] != nil {
		fmt.Fprintf(p.Stdout, "  setpoint test %s\n", dir)
	}
	fmt.Fprintf(p.Stdout, "  setpoint dev %s\n  setpoint dev %s -- sh %s\n", dir, dir, filepath.Join(dir, "test.sh"))
}
