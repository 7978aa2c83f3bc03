package crd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/api/v1alpha1"
)

func TestNames(t *testing.T) {
	composite := names{Kind: v1alpha1.CompositeControllerKind, Plural: v1alpha1.CompositeControllerResource}
	ours, theirs := composite, composite
	ours.ShortNames, ours.Categories = []string{"spcc"}, []string{"setpoint"}
	theirs.ShortNames = []string{"cc", "cctl"}
	want := map[string]names{setpointGroup: ours, metacontrollerGroup: theirs}

	got := map[string]names{}
	for group, d := range definitions(t) {
		got[group] = d.Spec.Names
		if d.Kind != "CustomResourceDefinition" || d.Spec.Scope != "Cluster" {
			t.Errorf("%s: kind %s, scope %s", group, d.Kind, d.Spec.Scope)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestVersionsKeepTheirStatus(t *testing.T) {
	for group, d := range definitions(t) {
		v := d.Spec.Versions[0]
		if v.Name != v1alpha1.GroupVersion.Version || !v.Served || !v.Storage {
			t.Errorf("%s: version %s, served %v, stored %v", group, v.Name, v.Served, v.Storage)
		}
		if _, enabled := v.Subresources["status"]; !enabled {
			t.Errorf("%s: no status subresource", group)
		}
		for _, name := range []string{"observedGeneration", "conditions", "parents", "children", "parentsInError", "lastError"} {
			if v.Schema.OpenAPIV3Schema.at("status", name) == nil {
				t.Errorf("%s: status.%s would be pruned", group, name)
			}
		}
	}
}

func TestBothGroupsReportAlike(t *testing.T) {
	all := definitions(t)
	ours, theirs := all[setpointGroup].Spec.Versions[0], all[metacontrollerGroup].Spec.Versions[0]
	if diff := cmp.Diff(ours.AdditionalPrinterColumns, theirs.AdditionalPrinterColumns); diff != "" {
		t.Errorf("printer columns (-ours +theirs):\n%s", diff)
	}
	ourStatus, theirStatus := ours.Schema.OpenAPIV3Schema.at("status"), theirs.Schema.OpenAPIV3Schema.at("status")
	delete(ourStatus, "description")
	delete(theirStatus, "description")
	if diff := cmp.Diff(ourStatus, theirStatus); diff != "" {
		t.Errorf("status (-ours +theirs):\n%s", diff)
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for group := range definitions(t) {
		for _, f := range schemaOf(t, group).fields("") {
			if f.schema["description"] == nil && f.path != "metadata" {
				t.Errorf("%s: %s has no description", group, f.path)
			}
		}
	}
}

// The API server turns away a CRD of a k8s.io group without this annotation.
func TestProtectedGroupIsAnnotated(t *testing.T) {
	if definitions(t)[metacontrollerGroup].Metadata.Annotations["api-approved.kubernetes.io"] == "" {
		t.Error("no api-approved.kubernetes.io annotation")
	}
}

// testdata/metacontroller.k8s.io.txt says what the published schema asks of a spec, a line for each
// field. One keyword more here, and a manifest that works elsewhere might be refused.
func TestMetacontrollerSpecIsAsPublished(t *testing.T) {
	spec := schemaOf(t, metacontrollerGroup).at("spec")
	var got strings.Builder
	for _, f := range spec.fields("spec") {
		if !strings.HasPrefix(f.path, "spec.hooks.") || strings.HasPrefix(f.path, "spec.hooks.sync") {
			got.WriteString(f.String() + "\n")
		}
	}
	want, err := os.ReadFile("testdata/metacontroller.k8s.io.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("spec (-published +ours):\n%s", diff)
	}
}

func TestMetacontrollerHooksAreAlike(t *testing.T) {
	hooks := schemaOf(t, metacontrollerGroup).at("spec", "hooks")
	want := hooks.at("sync")["properties"]
	for _, name := range []string{"finalize", "customize", "preUpdateChild", "postUpdateChild"} {
		if diff := cmp.Diff(want, hooks.at(name)["properties"]); diff != "" {
			t.Errorf("%s (-sync +%s):\n%s", name, name, diff)
		}
	}
}

// The defaults that the API server fills in are those that code building objects in Go relies on.
func TestDefaultsMatchTheirConstants(t *testing.T) {
	ours, theirs := schemaOf(t, setpointGroup).at("spec"), schemaOf(t, metacontrollerGroup).at("spec")
	tests := map[string]struct {
		schema schema
		want   string
	}{
		"update method":        {ours.at("childResources", "updateStrategy", "method"), string(v1alpha1.DefaultUpdateMethod)},
		"hook version":         {ours.at("hooks", "sync", "version"), string(v1alpha1.DefaultHookVersion)},
		"decoding":             {ours.at("hooks", "sync", "webhook", "decoding"), string(v1alpha1.DefaultDecoding)},
		"timeout":              {ours.at("hooks", "sync", "webhook", "timeout"), v1alpha1.DefaultTimeout.String()},
		"protocol":             {ours.at("hooks", "sync", "webhook", "service", "protocol"), string(v1alpha1.DefaultProtocol)},
		"theirs: hook version": {theirs.at("hooks", "sync", "version"), string(metacontroller.DefaultHookVersion)},
	}
	for name, test := range tests {
		if test.schema["default"] != test.want {
			t.Errorf("%s: the schema says %v, the constant %q", name, test.schema["default"], test.want)
		}
	}
}
