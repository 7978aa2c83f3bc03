package explore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

var (
	things     = object.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing", Namespaced: true, Status: true, Custom: true}
	configMaps = apiservertest.ConfigMaps
	pods       = apiservertest.Pods
)

const thingsCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"size":{"type":"integer","minimum":0,"maximum":3},"text":{"type":"string","maxLength":20}}},
		"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// thing is the parent of all systems.
type thing struct {
	Metadata struct{ Name string }
	Spec     struct {
		Size int
		Text string
	}
}

// sync is the logic of a system.
type sync func(parent thing, r *hook.Request) *hook.Response

// system is a controller of things whose children are ConfigMaps and pods.
func system(t testing.TB, do sync) explore.Options {
	t.Helper()
	return systemUntil(t.Context(), t, do)
}

// systemUntil is a system whose runs end with a context.
func systemUntil(ctx context.Context, t testing.TB, do sync) explore.Options {
	t.Helper()
	return systemOf(ctx, t, programOf(do))
}

// systemOf is a system with a program.
func systemOf(ctx context.Context, t testing.TB, program composite.Program) explore.Options {
	t.Helper()
	return systemWith(ctx, t, loop.Programs{Compose: []composite.Program{program}})
}

// systemWith is a system with programs.
func systemWith(ctx context.Context, t testing.TB, programs loop.Programs) explore.Options {
	t.Helper()
	server := apiservertest.New(t, []object.Resource{configMaps, pods}, thingsCRD)
	memo := loop.NewMemo()
	return explore.Options{Memo: memo, System: state.System{
		Controller: world.Setpoint(ctx, programs, loop.Options{Memo: memo, Resolve: resolve}, server.Resource),
		Server:     &world.Server{Server: server},
		Objects:    []*object.Object{apiservertest.Parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default"},"spec":{"size":2,"text":"x"}}`)},
	}}
}

// resolve finds the kind of related objects.
func resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	if apiVersion != "v1" || plural != configMaps.Plural {
		return object.Resource{}, fmt.Errorf("no such kind: %s %s", apiVersion, plural)
	}
	return configMaps, nil
}

func programOf(do sync) composite.Program {
	return composite.Program{
		Name: "things", Parent: things, GenerateSelector: true, Manager: "things", LastApplied: "example.com/last",
		Children: plan.Rules{{Resource: configMaps, Method: plan.InPlace}, {Resource: pods, Method: plan.Recreate}},
		Sync: hook.Func(func(_ context.Context, r *hook.Request) (*hook.Response, error) {
			var parent thing
			if err := json.Unmarshal(r.Parent, &parent); err != nil {
				return nil, err
			}
			return do(parent, r), nil
		}),
	}
}

// configMap is a child with a text.
func configMap(name, text string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"text":%q}}`, name, text)
}

// numbered desires as many ConfigMaps as the thing has in its size.
func numbered(parent thing, _ *hook.Request) *hook.Response {
	response := &hook.Response{}
	for i := range parent.Spec.Size {
		response.Children = append(response.Children, configMap(fmt.Sprintf("%s-%d", parent.Metadata.Name, i), parent.Spec.Text))
	}
	return response
}

// editOf returns an edit of the thing.
func editOf(name string, spec map[string]any) world.Edit {
	return world.Edit{Name: name, Object: things.Ref("default", "a"), Patch: map[string]any{"spec": spec}}
}

func run(t testing.TB, options explore.Options) *explore.Report {
	t.Helper()
	if options.Bounds.Time == 0 {
		options.Bounds.Time = time.Hour // A slow machine changes nothing.
	}
	report := must.Get(explore.Explore(t.Context(), options)).In(t)
	if testing.Verbose() {
		t.Log("\n" + report.String())
	}
	return report
}

// wantViolations compares the violated properties.
func wantViolations(t *testing.T, report *explore.Report, want ...property.Property) {
	t.Helper()
	var got []string
	for _, v := range report.Violations {
		got = append(got, string(v.Property))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("violated: %v, want %v\n%s", got, want, report.String())
	}
}

func wantText(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}
