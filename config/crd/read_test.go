package crd_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
)

const (
	setpointGroup       = "setpoint.dev"
	metacontrollerGroup = "metacontroller.k8s.io"
)

// definition is as much of a CustomResourceDefinition as the tests look at.
type definition struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		Group    string
		Scope    string
		Names    names
		Versions []version
	}
}

type names struct {
	Kind, Plural           string
	ShortNames, Categories []string
}

type version struct {
	Name                     string
	Served, Storage          bool
	Subresources             map[string]any
	AdditionalPrinterColumns []map[string]any
	Schema                   struct{ OpenAPIV3Schema schema }
}

// definitions reads all CRDs, by group.
func definitions(t *testing.T) map[string]definition {
	t.Helper()
	manifests, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	byGroup := map[string]definition{}
	for _, manifest := range manifests {
		var d definition
		if err := yaml.Unmarshal(manifest, &d); err != nil {
			t.Fatal(err)
		}
		byGroup[d.Spec.Group] = d
	}
	return byGroup
}

// schemaOf returns the schema of the only version of CompositeController in a group.
func schemaOf(t *testing.T, group string) schema {
	t.Helper()
	d, found := definitions(t)[group]
	if !found || len(d.Spec.Versions) != 1 {
		t.Fatalf("want one version of one CRD in %s, got %d", group, len(d.Spec.Versions))
	}
	return d.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// samples reads the objects of testdata/GROUP.yaml, each as its YAML.
func samples(t *testing.T, group string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + group + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n---\n")
}
