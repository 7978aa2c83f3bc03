package compile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

var update = flag.Bool("update", false, "write what the manifests in testdata compile to into their last file")

// served is what the API server of these tests serves.
func served() []object.Resource {
	return []object.Resource{
		{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true},
		{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true},
		{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
		{Group: "apps", Version: "v1beta1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
		{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true},
		{Group: "example.org", Version: "v1", Plural: "kiosks", Kind: "Kiosk", Namespaced: true, Custom: true},
		{Group: "example.org", Version: "v1", Plural: "towns", Kind: "Town", Status: true, Custom: true},
	}
}

func resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	if apiVersion == "down/v1" {
		return object.Resource{}, errors.New("connection refused")
	}
	for _, resource := range served() {
		if resource.APIVersion() == apiVersion && resource.Plural == plural {
			return resource, nil
		}
	}
	return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, ErrNotServed)
}

// TestCompile reads controller.yaml and wants program.txt: the program, or why
// there is none.
func TestCompile(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			last := &archive.Files[len(archive.Files)-1]
			got := compiled(t, archive.Files[0].Data)
			if got == string(last.Data) {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, last.Data)
			}
			last.Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// compiled is the program made of a manifest, as text.
func compiled(t *testing.T, manifest []byte) string {
	t.Helper()
	text, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	kind := kindOf(t, o)
	c, err := kind.Compile(t.Context(), o, Environment{Resolve: resolve, Workers: 4})
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return fmt.Sprintf("refused: %s\n%s\n", refusal.Reason, err)
	case err != nil:
		return fmt.Sprintf("not now\n%s\n", err)
	}
	defer c.Release()
	spec, err := kind.read(o)
	if err != nil {
		t.Fatal(err)
	}
	return describe(c, spec.sync)
}

func kindOf(t *testing.T, o *object.Object) Kind {
	t.Helper()
	for _, kind := range Kinds() {
		if kind.Resource.APIVersion() == o.APIVersion() && kind.Resource.Kind == o.Kind() {
			return kind
		}
	}
	t.Fatalf("%s of %s is not a kind of controller", o.Kind(), o.APIVersion())
	return Kind{}
}

func describe(c *Compiled, asked syncHook) string {
	var text strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&text, "%-17s %v\n", name, value) }
	line("name", c.Name)
	line("parent", fmt.Sprintf("%s %v", c.Parent, c.Selections))
	for _, rule := range c.Children {
		line("child", fmt.Sprintf("%s %s", rule.Resource, rule.Method))
	}
	line("sync", fmt.Sprintf("%s %s, %s, timeout %s", asked.version, asked.url, asked.decoding, asked.timeout))
	line("hook address", c.HookAddress)
	line("generate selector", c.GenerateSelector)
	line("status wakes", c.StatusWakes)
	line("resync", c.Resync)
	line("last applied", c.LastApplied)
	line("outline only", c.Outline)
	line("workers", c.Workers)
	for _, note := range c.Notes {
		line("note", note)
	}
	line("object", string(c.Object))
	return text.String()
}

func TestKindsAreTold(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range Kinds() {
		if kind.Name == "" || names[kind.Name] || kind.read == nil || !kind.Resource.Status || kind.Resource.Namespaced {
			t.Errorf("%+v", kind.Resource)
		}
		names[kind.Name] = true
	}
}
