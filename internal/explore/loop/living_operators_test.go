package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The operators of TestWalks.

func walkRollingSet(t *testing.T) *walk {
	newRollingSet(t, loop.Options{Memo: rollouts})
	set := func(patch map[string]any) edit { return edit{rollingSets, "web", patch} }
	image := func(name string) map[string]any {
		return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": name}}}}}}
	}
	return &walk{
		server: rollingSet.server, programs: rollingSet.programs, seeds: []string{rollingSet.sample},
		edits: []edit{
			set(image("b")), set(image("c")), set(map[string]any{"spec": map[string]any{"replicas": 1}}), set(map[string]any{"spec": map[string]any{"replicas": 3}}),
			set(nil), {pods, "web-0", nil}, {pods, "web-1", map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "other"}}}},
		},
	}
}

const shared = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","namespace":"default"},"data":{"x":"1"}}`

func dataOf(value string) map[string]any { return map[string]any{"data": map[string]any{"x": value}} }

func walkMirrors(t *testing.T) *walk {
	return &walk{
		server: newServer(t, []object.Resource{secrets, configMaps}), programs: loop.Programs{Compose: []composite.Program{mirrors(mirror)}},
		options: loop.Options{Resolve: resolve}, seeds: []string{aSecret, shared},
		edits: []edit{
			{configMaps, "shared", dataOf("2")}, {configMaps, "shared", dataOf("1")}, {configMaps, "mirror", dataOf("3")},
			{configMaps, "mirror", nil}, {configMaps, "shared", nil}, {secrets, "a", nil},
		},
	}
}

func walkCopies(t *testing.T) *walk {
	return &walk{
		server: newServer(t, []object.Resource{secrets, configMaps}), programs: loop.Programs{Handle: []handler.Program{copies(new([]string))}},
		seeds: []string{aSecret},
		edits: []edit{
			{secrets, "a", dataOf("Mg==")}, {secrets, "a", dataOf("MQ==")}, {secrets, "a", nil},
			{configMaps, "a", dataOf("other")}, {configMaps, "a", nil},
		},
	}
}

// decorator is inline code that has the functions of a decorator.
type decorator struct{ logic }

// Functions returns both.
func (decorator) Functions() []string { return []string{"sync", "finalize"} }

// decorate gives a Secret a label and a ConfigMap, and takes both away at the end.
func decorate(request map[string]any) map[string]any {
	if request["finalizing"] == true {
		return map[string]any{
			"labels": map[string]any{"badge": nil}, "attachments": []any{},
			"finalized": len(object.FieldAt(request, "attachments", "ConfigMap.v1").(map[string]any)) == 0,
		}
	}
	secret := request["object"].(map[string]any)
	badge := object.FieldAt(secret, "metadata", "annotations", "badge")
	return map[string]any{
		"labels": map[string]any{"badge": badge},
		"attachments": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"badge": badge},
			"metadata": map[string]any{"name": object.FieldAt(secret, "metadata", "name")},
		}},
	}
}

func walkBadges(t *testing.T) *walk {
	_, programs := opened(t, filepath.Join("testdata", "badges.yaml"), decorator{decorate})
	badge := func(value any) edit {
		return edit{secrets, "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"badge": value}}}}
	}
	final := badge("gold")
	return &walk{
		final: &final, server: newServer(t, []object.Resource{secrets, configMaps}), programs: programs,
		seeds: []string{`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default","annotations":{"badge":"gold"}}}`},
		edits: []edit{
			badge("gold"), badge("silver"), badge(nil), {secrets, "a", nil}, {secrets, "a", dataOf("MQ==")},
			{configMaps, "a", map[string]any{"data": map[string]any{"badge": "tin"}}}, {configMaps, "a", nil},
		},
	}
}

// walkOneName is walkMirrors with a second parent that wants the same name.
func walkOneName(t *testing.T) *walk {
	w := walkMirrors(t)
	w.conflicting = true
	w.seeds = append(w.seeds, strings.Replace(aSecret, `"name":"a"`, `"name":"b"`, 1))
	w.edits = append(w.edits, edit{secrets, "b", nil}, edit{secrets, "b", dataOf("Mg==")})
	return w
}

var aliases = object.Resource{Group: "mutants.example.com", Version: "v1", Plural: "aliases", Kind: "Alias", Namespaced: true, Status: true, Custom: true}

const aliasCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"aliases.mutants.example.com"},
"spec":{"group":"mutants.example.com","scope":"Namespaced","names":{"kind":"Alias","plural":"aliases","singular":"alias"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"target":{"type":"string"},"other":{"type":"string"}}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// publish keeps one ConfigMap with the name that an alias wants. It fails for "none", after which something may be done.
func publish(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	var alias struct{ Spec struct{ Target string } }
	if err := json.Unmarshal(n.Object, &alias); err != nil {
		return nil, err
	}
	response := &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"target":%q}`, alias.Spec.Target)}
	if alias.Spec.Target == "none" {
		response.Err = errors.New("no such target")
		return response, nil
	}
	for _, o := range n.Owned[0].Objects {
		if o.Name != alias.Spec.Target {
			response.Delete = append(response.Delete, hook.Deletion{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name})
		}
	}
	wanted := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"x":"1"}}`, alias.Spec.Target)
	response.Apply = []hook.AppliedObject{{Object: wanted}}
	return response, nil
}

func walkAliases(t *testing.T) *walk {
	program := handler.Program{
		Name: "aliases", Resource: aliases, Owns: []object.Resource{configMaps}, Manager: "aliases",
		HandledAnnotation: "setpoint.dev/handled-by-aliases", Finalizer: "aliases.example.com/finalizer",
		Handlers: []handler.Handler{
			{
				Name: "publish", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}, Fields: [][]string{{"spec", "target"}},
				Do: hook.HandlerFunc(publish),
			},
			{Name: "release", On: []hook.Reason{hook.ReasonDelete}, Do: hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				return &hook.HandlerResponse{}, nil
			})},
		},
	}
	target := func(name string) edit {
		return edit{aliases, "a", map[string]any{"spec": map[string]any{"target": name}}}
	}
	final := target("one") // "none" would be retried for ever.
	return &walk{
		final: &final, ifHas: `"target":"none"`, server: newServer(t, []object.Resource{configMaps}, parse(t, aliasCRD)), programs: loop.Programs{Handle: []handler.Program{program}},
		seeds: []string{`{"apiVersion":"mutants.example.com/v1","kind":"Alias","metadata":{"name":"a","namespace":"default"},"spec":{"target":"one"}}`},
		edits: []edit{
			target("one"), target("two"), target("none"), {aliases, "a", nil},
			{configMaps, "one", nil}, {configMaps, "two", dataOf("2")},
		},
	}
}
