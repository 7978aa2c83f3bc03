package crd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestNames(t *testing.T) {
	named := func(kind, plural string, more names) names {
		more.Kind, more.Plural = kind, plural
		return more
	}
	composite, composites := v1alpha1.CompositeControllerKind, v1alpha1.CompositeControllerResource
	decorator, decorators := v1alpha1.DecoratorControllerKind, v1alpha1.DecoratorControllerResource
	handler, handlers := v1alpha1.HandlerControllerKind, v1alpha1.HandlerControllerResource
	admission, admissions := v1alpha1.AdmissionControllerKind, v1alpha1.AdmissionControllerResource
	want := map[string]names{
		ourAdmission:   named(admission, admissions, names{ShortNames: []string{"spac"}, Categories: []string{"setpoint"}}),
		ourHandler:     named(handler, handlers, names{ShortNames: []string{"sphc"}, Categories: []string{"setpoint"}}),
		ourComposite:   named(composite, composites, names{ShortNames: []string{"spcc"}, Categories: []string{"setpoint"}}),
		ourDecorator:   named(decorator, decorators, names{ShortNames: []string{"spdc"}, Categories: []string{"setpoint"}}),
		theirComposite: named(composite, composites, names{ShortNames: []string{"cc", "cctl"}}),
		theirDecorator: named(decorator, decorators, names{ShortNames: []string{"dec", "decorators"}}),
	}
	got := map[string]names{}
	for name, d := range definitions(t) {
		got[name] = d.Spec.Names
		if d.Kind != "CustomResourceDefinition" || d.Spec.Scope != "Cluster" {
			t.Errorf("%s: kind %s, scope %s", name, d.Kind, d.Spec.Scope)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestVersionsKeepTheirStatus(t *testing.T) {
	for name, d := range definitions(t) {
		v := d.Spec.Versions[0]
		if v.Name != v1alpha1.GroupVersion.Version || !v.Served || !v.Storage {
			t.Errorf("%s: version %s, served %v, stored %v", name, v.Name, v.Served, v.Storage)
		}
		if _, enabled := v.Subresources["status"]; !enabled {
			t.Errorf("%s: no status subresource", name)
		}
		for _, field := range []string{"observedGeneration", "conditions", "parents", "children", "parentsInError", "paused", "finalizes", "lastError"} {
			if v.Schema.OpenAPIV3Schema.at("status", field) == nil {
				t.Errorf("%s: status.%s would be pruned", name, field)
			}
		}
	}
}

func TestBothGroupsReportAlike(t *testing.T) {
	all := definitions(t)
	for our, their := range twins {
		ours, theirs := all[our].Spec.Versions[0], all[their].Spec.Versions[0]
		if diff := cmp.Diff(ours.AdditionalPrinterColumns, theirs.AdditionalPrinterColumns); diff != "" {
			t.Errorf("%s: printer columns (-ours +theirs):\n%s", our, diff)
		}
		ourStatus, theirStatus := ours.Schema.OpenAPIV3Schema.at("status"), theirs.Schema.OpenAPIV3Schema.at("status")
		delete(ourStatus, "description")
		delete(theirStatus, "description")
		if diff := cmp.Diff(ourStatus, theirStatus); diff != "" {
			t.Errorf("%s: status (-ours +theirs):\n%s", our, diff)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for name := range definitions(t) {
		for _, f := range schemaOf(t, name).fields("") {
			if f.schema["description"] == nil && f.path != "metadata" {
				t.Errorf("%s: %s has no description", name, f.path)
			}
		}
	}
}

// The API server turns away a CRD of a k8s.io group without this annotation.
func TestProtectedGroupIsAnnotated(t *testing.T) {
	for _, their := range twins {
		if definitions(t)[their].Metadata.Annotations["api-approved.kubernetes.io"] == "" {
			t.Errorf("%s: no api-approved.kubernetes.io annotation", their)
		}
	}
}

// testdata/KIND.metacontroller.k8s.io.txt says what the published schema asks of a spec, a line for each
// field. One keyword more here, and a manifest that works elsewhere might be refused.
func TestMetacontrollerSpecIsAsPublished(t *testing.T) {
	for _, their := range twins {
		var got strings.Builder
		for _, f := range schemaOf(t, their).at("spec").fields("spec") {
			if !strings.HasPrefix(f.path, "spec.hooks.") || strings.HasPrefix(f.path, "spec.hooks.sync") {
				got.WriteString(f.String() + "\n")
			}
		}
		want := must.Get(os.ReadFile("testdata/" + their + ".txt")).In(t)
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: spec (-published +ours):\n%s", their, diff)
		}
	}
}

// One hook is what another is, in every kind of a group.
func TestHooksAreAlike(t *testing.T) {
	more := map[string][]string{
		ourComposite:   {"finalize", "customize"},
		ourDecorator:   {"sync", "finalize", "customize"},
		theirComposite: {"finalize", "customize", "preUpdateChild", "postUpdateChild"},
		theirDecorator: {"sync", "finalize", "customize"},
	}
	for our, their := range twins {
		for _, name := range []string{our, their} {
			_, group, _ := strings.Cut(name, ".")
			want := schemaOf(t, "CompositeController."+group).at("spec", "hooks", "sync")["properties"]
			for _, hook := range more[name] {
				if diff := cmp.Diff(want, schemaOf(t, name).at("spec", "hooks", hook)["properties"]); diff != "" {
					t.Errorf("%s: %s (-sync +%s):\n%s", name, hook, hook, diff)
				}
			}
		}
	}
}

// Handlers are configured like hooks, and their controller reports the same status.
func TestHandlersAreLikeHooks(t *testing.T) {
	composite, handler := schemaOf(t, ourComposite), schemaOf(t, ourHandler)
	for name, pair := range map[string][2]schema{
		"webhook":         {composite.at("spec", "hooks", "sync", "webhook"), handler.at("spec", "handlers", "webhook")},
		"endpointConfigs": {composite.at("spec", "endpointConfigs"), handler.at("spec", "endpointConfigs")},
		"status":          {composite.at("status"), handler.at("status")},
	} {
		for _, one := range pair {
			delete(one, "description")
		}
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-of a composite +of a handler):\n%s", name, diff)
		}
	}
}

// The defaults that the API server fills in are those that code building objects in Go relies on.
func TestDefaultsMatchTheirConstants(t *testing.T) {
	ours, theirs := schemaOf(t, ourComposite).at("spec"), schemaOf(t, theirComposite).at("spec")
	decorator, backoff := schemaOf(t, ourDecorator).at("spec"), schemaOf(t, ourHandler).at("spec", "handlers", "backoff")
	tests := map[string]struct {
		schema schema
		want   string
	}{
		"update method":        {ours.at("childResources", "updateStrategy", "method"), string(v1alpha1.DefaultUpdateMethod)},
		"of attachments":       {decorator.at("attachments", "updateStrategy", "method"), string(v1alpha1.DefaultUpdateMethod)},
		"apply":                {ours.at("childResources", "apply"), string(v1alpha1.DefaultApplyStrategy)},
		"apply of attachments": {decorator.at("attachments", "apply"), string(v1alpha1.DefaultApplyStrategy)},
		"hook version":         {ours.at("hooks", "sync", "version"), string(v1alpha1.DefaultHookVersion)},
		"decoding":             {ours.at("hooks", "sync", "webhook", "decoding"), string(v1alpha1.DefaultDecoding)},
		"timeout":              {ours.at("hooks", "sync", "webhook", "timeout"), v1alpha1.DefaultTimeout.String()},
		"timeout of inline":    {ours.at("hooks", "sync", "inline", "timeout"), v1alpha1.DefaultTimeout.String()},
		"timeout of exec":      {ours.at("hooks", "sync", "exec", "timeout"), v1alpha1.DefaultTimeout.String()},
		"protocol":             {ours.at("hooks", "sync", "webhook", "service", "protocol"), string(v1alpha1.DefaultProtocol)},
		"backoff":              {backoff.at("initial"), v1alpha1.DefaultBackoffInitial.String()},
		"longest backoff":      {backoff.at("max"), v1alpha1.DefaultBackoffMax.String()},
		"theirs: hook version": {theirs.at("hooks", "sync", "version"), string(metacontroller.DefaultHookVersion)},
	}
	for name, test := range tests {
		if test.schema["default"] != test.want {
			t.Errorf("%s: the schema says %v, the constant %q", name, test.schema["default"], test.want)
		}
	}
}
