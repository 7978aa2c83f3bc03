package explore_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const otherThing = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"b","namespace":"default"},"spec":{"size":1,"text":"x"}}`

// withOther adds a second thing, which users edit too.
func withOther(t *testing.T, options explore.Options) explore.Options {
	t.Helper()
	options.Objects = []*object.Object{apiservertest.Parse(t, strings.ReplaceAll(otherThing, `"name":"b"`, `"name":"a"`)), apiservertest.Parse(t, otherThing)}
	for i, name := range []string{"one", "two"} {
		other := world.Edit{Name: name, Object: things.Ref("default", "b"), Patch: map[string]any{"spec": map[string]any{"size": i + 1}}}
		options.Edits = append(options.Edits, other)
	}
	return options
}

func violated(report *explore.Report) []property.Property {
	var all []property.Property
	for _, v := range report.Violations {
		all = append(all, v.Property)
	}
	return all
}

// keeping is a logic with a mistake that shows for one of two things: it never deletes what the thing b had.
func keeping(parent thing, r *hook.Request) *hook.Response {
	if parent.Metadata.Name == "b" {
		parent.Spec.Size = max(parent.Spec.Size, len(r.Children[0].Objects))
	}
	return numbered(parent, r)
}

// copies are handlers that copy the text of a thing to a ConfigMap.
func copies(t *testing.T) explore.Options {
	t.Helper()
	do := hook.HandlerFunc(func(_ context.Context, r *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		var parent thing
		if err := json.Unmarshal(r.Object, &parent); err != nil || r.Reason == hook.ReasonDelete {
			return &hook.HandlerResponse{}, err
		}
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: configMap(r.Name, parent.Spec.Text)}}}, nil
	})
	return systemWith(t.Context(), t, loop.Programs{Handle: []handler.Program{{
		Name: "copies", Rules: trigger.Rules{Resource: things, Finalizer: "copies.example.com/finalizer", Handlers: []trigger.Handler{{
			Name: "copy", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete, hook.ReasonDrift}, Do: do,
		}}, Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-copies"}}, Owns: []object.Resource{configMaps}, Manager: "copies",
	}}})
}

// TestGroupsFindTheSame compares what is found of two objects in groups with what is found of both together.
func TestGroupsFindTheSame(t *testing.T) {
	systems := map[string]func() explore.Options{
		"handlers":         func() explore.Options { return copies(t) },
		"correct":          func() explore.Options { return system(t, numbered) },
		"a mistake of one": func() explore.Options { return system(t, keeping) },
	}
	// Where something is written for ever, there is no end to the states of two objects.
	endless := []property.Property{property.Deterministic, property.Quiet, property.Settles, property.NoRecreate}
	for _, m := range mistakes {
		if !slices.Contains(endless, m.want) {
			systems[m.name] = func() explore.Options { return m.options(t) }
		}
	}
	for name, of := range systems {
		t.Run(name, func(t *testing.T) {
			apart, together := withOther(t, of()), withOther(t, of())
			edits := 1
			if name == "a mistake of one" {
				edits = 2
			}
			apart.Bounds, together.Bounds = explore.Bounds{Edits: edits}, explore.Bounds{Edits: edits}
			together.Together = true
			a, b := run(t, apart), run(t, together)
			if found := violated(b); !slices.Equal(violated(a), found) {
				t.Errorf("%s\nwant violations of %v:\n%s", a.String(), found, b.String())
			}
		})
	}
}

// TestGroupsRestInTheSameStates compares all that is stored at rest.
func TestGroupsRestInTheSameStates(t *testing.T) {
	for name, of := range map[string]func() explore.Options{
		"children": func() explore.Options { return system(t, numbered) },
		"handlers": func() explore.Options { return copies(t) },
	} {
		var rests []string
		for _, apart := range []bool{true, false} {
			options := withOther(t, of())
			options.Edits = append(options.Edits, editOf("none", map[string]any{"size": 0}))
			options.Bounds = explore.Bounds{Edits: 1, Crashes: 1, Time: time.Hour, States: 1 << 30}
			all := must.Get(explore.Rests(t.Context(), options, apart)).In(t)
			rests = append(rests, strings.Join(slices.Sorted(maps.Keys(all)), "\n"))
		}
		if rests[0] != rests[1] || rests[0] == "" {
			t.Errorf("%s, apart:\n%s\n\ntogether:\n%s", name, rests[0], rests[1])
		}
	}
}

// TestWhatObjectsHaveInCommon shows what is explored together, and why.
func TestWhatObjectsHaveInCommon(t *testing.T) {
	adopting := programOf(func(thing, *hook.Request) *hook.Response { return &hook.Response{} })
	customizing := programOf(numbered)
	customizing.Customize = hook.CustomizerFunc(func(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		return &hook.CustomizeResponse{}, nil
	})
	loose := apiservertest.Parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"loose","namespace":"default"}}`)
	for want, options := range map[string]explore.Options{
		"Explored apart, because they have nothing in common: Thing default/a; Thing default/b.": withOther(t, system(t, numbered)),
		"All objects were explored together: ConfigMap default/c belongs to both.": withOther(t, system(t, func(thing, *hook.Request) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{configMap("c", "x")}}
		})),
		"a reconcile of Thing default/b for things may depend on Thing default/a.": withOther(t, systemOf(t.Context(), t, customizing)),
		"a reconcile of Thing default/a for things may depend on ConfigMap default/loose.": func() explore.Options {
			options := systemOf(t.Context(), t, adopting)
			options.Objects = append(options.Objects, loose)
			return options
		}(),
		`All objects were explored together: the invariant "two" may not hold.`: func() explore.Options {
			options := withOther(t, system(t, numbered))
			options.Invariants = []property.Invariant{{Name: "two", Never: "children.size() == 2"}}
			return options
		}(),
	} {
		wantText(t, run(t, options).String(), want)
	}
}
