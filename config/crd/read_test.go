package crd_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// The CRDs there are, by kind and group.
const (
	ourComposite   = "CompositeController.setpoint.dev"
	theirComposite = "CompositeController.metacontroller.k8s.io"
	ourDecorator   = "DecoratorController.setpoint.dev"
	ourHandler     = "HandlerController.setpoint.dev"
	ourAdmission   = "AdmissionController.setpoint.dev"
	theirDecorator = "DecoratorController.metacontroller.k8s.io"
)

// twins pairs the kinds of our group with those of theirs.
var twins = map[string]string{ourComposite: theirComposite, ourDecorator: theirDecorator}

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

// definitions reads all CRDs, by kind and group.
func definitions(t *testing.T) map[string]definition {
	t.Helper()
	manifests := must.Get(crd.All()).In(t)
	byName := map[string]definition{}
	for _, manifest := range manifests {
		var d definition
		must.Succeed(t, yaml.Unmarshal(manifest, &d))
		byName[d.Spec.Names.Kind+"."+d.Spec.Group] = d
	}
	return byName
}

// schemaOf returns the schema of the only version of a kind.
func schemaOf(t *testing.T, name string) schema {
	t.Helper()
	d, found := definitions(t)[name]
	if !found || len(d.Spec.Versions) != 1 {
		t.Fatalf("want one version of %s, got %d", name, len(d.Spec.Versions))
	}
	return d.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// samples reads the objects of testdata/KIND.GROUP.yaml, each as its YAML.
func samples(t *testing.T, name string) []string {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + name + ".yaml")).In(t)
	return strings.Split(string(data), "\n---\n")
}
