package compile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Fault M11: hooks of a controller without children may return fields of their own. With children,
// a misspelt list of them is an error.
func TestResponsesWithoutChildren(t *testing.T) {
	const declared = ", childResources: [{apiVersion: v1, resource: configmaps}]"
	const attached = ", attachments: [{apiVersion: v1, resource: configmaps}]"
	for _, c := range []struct{ name, api, kind, spec, response, want string }{
		{"published decorator", "metacontroller.k8s.io", "DecoratorController", "", `{"response":"deleted"}`, ""},
		{"published decorator, finalized", "metacontroller.k8s.io", "DecoratorController", "", `{"msg":"deleted","finalized":true}`, ""},
		{"published composite", "metacontroller.k8s.io", "CompositeController", "", `{"attachments":[],"finalized":true}`, ""},
		{"published decorator with attachments", "metacontroller.k8s.io", "DecoratorController", attached, `{"msg":"x"}`, ""},
		{"published decorator, misspelt", "metacontroller.k8s.io", "DecoratorController", attached, `{"attachement":[]}`, `attachement: unknown field, and attachments is missing`},
		{"published composite, misspelt", "metacontroller.k8s.io", "CompositeController", declared, `{"childern":[]}`, `childern: unknown field, and children is missing`},
		{"ours", "setpoint.dev", "DecoratorController", "", `{"labels":{}}`, ""},
		{"ours with attachments", "setpoint.dev", "DecoratorController", attached, `{"labels":{}}`, `attachments: required`},
		{"ours, unknown field", "setpoint.dev", "CompositeController", "", `{"msg":"x"}`, `msg: unknown field`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := called(t, c.api, c.kind, c.spec, c.response)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// called compiles a controller whose finalize hook always returns the same, and calls it.
func called(t *testing.T, group, kind, spec, response string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(response)) }))
	defer server.Close()
	parents := "parentResource: {apiVersion: example.org/v1, resource: shops}"
	if kind == "DecoratorController" {
		parents = "resources: [{apiVersion: example.org/v1, resource: shops}]"
	}
	manifest := fmt.Sprintf(`{apiVersion: %s/v1alpha1, kind: %s, metadata: {name: a}, spec: {%s%s, hooks: {sync: {webhook: {url: %q}}, finalize: {webhook: {url: %q}}}}}`,
		group, kind, parents, spec, server.URL, server.URL)
	o := parsed(t, []byte(manifest))
	env := environment(t)
	env.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	c := must.Get(kindNamed(t, o).Compile(t.Context(), o, env)).In(t)
	defer c.Release()
	shop := []byte(`{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","namespace":"b"}}`)
	_, err := c.Programs[0].Finalize.Call(t.Context(), &hook.Request{Controller: o.JSON(), Parent: shop, ParentNamespace: "b", Finalizing: true})
	return err
}

// Fault G11: the deletion guard is on by default in both groups. It can be configured or turned
// off.
func TestDeletionLimit(t *testing.T) {
	none, all := int32(0), int32(100)
	metacontroller := func(env Environment) *plan.DeletionLimit {
		o := parsed(t, []byte(`{apiVersion: metacontroller.k8s.io/v1alpha1, kind: CompositeController, metadata: {name: a},
			spec: {parentResource: {apiVersion: v1, resource: pods}, hooks: {sync: {webhook: {url: "http://a"}}}}}`))
		return must.Get(kindNamed(t, o).neutral(o, env)).In(t).program.DeletionLimit
	}
	for _, c := range []struct {
		name      string
		got, want *plan.DeletionLimit
	}{
		{"by default", setpointDeletionLimit(api.DeletionGuard{}), plan.DefaultDeletionLimit()},
		{"set", setpointDeletionLimit(api.DeletionGuard{Mode: api.DeletionGuardEnabled, MaxDeletions: &none, MaxPercent: &all}), &plan.DeletionLimit{MaxPercent: 100}},
		{"disabled", setpointDeletionLimit(api.DeletionGuard{Mode: api.DeletionGuardDisabled, MaxDeletions: &none}), nil},
		{"Metacontroller's", metacontroller(Environment{}), plan.DefaultDeletionLimit()},
		{"Metacontroller's, turned off", metacontroller(Environment{Settings: Settings{DisableDeletionGuard: true}}), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Misspelt fields of controllers in files are named with their path.
func TestCheckFields(t *testing.T) {
	for _, test := range []struct{ manifest, want string }{
		{`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {parentResource: {apiVersion: v1, resource: pods}}}`, ""},
		{
			`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {parentResorce: {}, childResources: [{apiVersion: v1, resource: pods, updateStrategy: {metod: Recreate}}]}}`,
			`[unknown field "spec.childResources[0].updateStrategy.metod", unknown field "spec.parentResorce"]`,
		},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: DecoratorController, metadata: {name: a}, spec: {ParentResource: {}}}`, `unknown field "spec.ParentResource"`},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: HandlerController, metadata: {name: a, label: {}}, spec: {}}`, `unknown field "metadata.label"`},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: AdmissionController, metadata: {name: a}, spec: {webhooks: [{nam: a}]}}`, `unknown field "spec.webhooks[0].nam"`},
		{`{apiVersion: metacontroller.k8s.io/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {generateSelektor: true}}`, `unknown field "spec.generateSelektor"`},
		{`{apiVersion: metacontroller.k8s.io/v1alpha1, kind: DecoratorController, metadata: {name: a}, spec: {resources: text}}`, ""},
	} {
		text := must.Get(yaml.YAMLToJSON([]byte(test.manifest))).In(t)
		o := must.Get(object.Parse(text)).In(t)
		got := ""
		if err := CheckFields(o); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.manifest, got, test.want)
		}
	}
}
