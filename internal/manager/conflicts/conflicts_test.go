package conflicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Fault M15: children and revisions conflict, the status does not.
func TestFind(t *testing.T) {
	kind := func(name string) object.Resource {
		return object.Resource{Version: "v1", Plural: name + "s", Kind: name, Namespaced: true}
	}
	of := func(rules ...plan.Rule) composite.Program {
		return composite.Program{Parent: kind("shop"), Children: rules}
	}
	beta := kind("sign")
	beta.Version = "v1beta1"
	signs, doors := plan.Rule{Resource: kind("sign")}, plan.Rule{Resource: kind("door")}
	rolling := func(rule plan.Rule) plan.Rule { rule.Method = plan.RollingInPlace; return rule }
	byName := of()
	byName.Fields = "metadata.name=a"
	for name, c := range map[string]struct {
		a, b composite.Program
		want string
	}{
		"no children at all":          {of(), of(), ""},
		"children and none":           {of(signs), of(), ""},
		"children of other kinds":     {of(signs), of(doors), ""},
		"children of one kind":        {of(doors, signs), of(signs), "both declare signs.v1 as children"},
		"of one kind, other versions": {of(signs), of(plan.Rule{Resource: beta}), "both declare "},
		"one with rolling updates":    {of(rolling(signs)), of(doors), ""},
		"both with rolling updates":   {of(rolling(signs)), of(rolling(doors)), "both store revisions of them for rolling updates"},
		"one selects by fields":       {of(), byName, "only one of the two selects them by fields"},
		"both select by fields":       {byName, byName, ""},
	} {
		for _, pair := range [][]composite.Program{{c.a, c.b}, {c.b, c.a}} {
			found, conflicting := Find(&compile.Compiled{Programs: pair[:1]}, &compile.Compiled{Programs: pair[1:]})
			if conflicting != (c.want != "") || !strings.HasPrefix(found.Reason, c.want) {
				t.Errorf("%s: %v %q, want %q", name, conflicting, found.Reason, c.want)
			}
		}
	}
}

// Two controllers with one finalizer would release each other's objects.
func TestFindSharedFinalizer(t *testing.T) {
	of := func(finalizer string, namespaces []string, reasons ...hook.Reason) *compile.Compiled {
		return &compile.Compiled{Handlers: []handler.Program{{
			Rules: trigger.Rules{
				Resource:  object.Resource{Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true},
				Finalizer: finalizer, Handlers: []trigger.Handler{{On: reasons}},
			},
			Namespaces: namespaces,
		}}}
	}
	pods := of("a/b", nil, hook.ReasonDelete)
	pods.Handlers[0].Resource = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	first := of("a/b", []string{"one"}, hook.ReasonDelete)
	for name, c := range map[string]struct {
		other *compile.Compiled
		want  bool
	}{
		"the same":                  {of("a/b", nil, hook.ReasonDelete), true},
		"another":                   {of("a/c", nil, hook.ReasonDelete), false},
		"without Delete":            {of("a/b", nil, hook.ReasonCreate), false},
		"of another kind":           {pods, false},
		"in the same namespace":     {of("a/b", []string{"two", "one"}, hook.ReasonDelete), true},
		"in another namespace":      {of("a/b", []string{"two"}, hook.ReasonDelete), false},
		"of a composite controller": {&compile.Compiled{Programs: []composite.Program{{Finalizer: "a/b"}}}, false},
	} {
		for _, pair := range [][]*compile.Compiled{{first, c.other}, {c.other, first}} {
			found, conflicting := Find(pair[0], pair[1])
			if conflicting != c.want || Overlap(pair[0], pair[1]) != c.want {
				t.Errorf("%s: %v %+v, want %v", name, conflicting, found, c.want)
			}
		}
	}
}

func TestSameParents(t *testing.T) {
	parent := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	by := func(text string) []composite.Selection {
		selector := must.Get(labels.Parse(text)).In(t)
		return []composite.Selection{{Labels: selector}}
	}
	for name, c := range map[string]struct {
		a, b composite.Program
		want bool
	}{
		"all and all":         {composite.Program{}, composite.Program{}, true},
		"all and some":        {composite.Program{}, composite.Program{Selections: by("a=1")}, true},
		"the same":            {composite.Program{Selections: by("a=1")}, composite.Program{Selections: by("a=1")}, true},
		"labels apart":        {composite.Program{Selections: by("a=1")}, composite.Program{Selections: by("a=2")}, false},
		"fields apart":        {composite.Program{Fields: "metadata.name=a"}, composite.Program{Fields: "metadata.name=b"}, false},
		"all and some fields": {composite.Program{}, composite.Program{Fields: "metadata.name=b"}, true},
		"a namespace apart":   {composite.Program{Namespace: "a"}, composite.Program{Namespace: "b"}, false},
		"the same namespace":  {composite.Program{Namespace: "a"}, composite.Program{Namespace: "a"}, true},
		"one and everywhere":  {composite.Program{Namespace: "a"}, composite.Program{}, true},
		"a decorator":         {composite.Program{}, composite.Program{Mark: plan.Mark{Key: "a", Value: "b"}}, false},
	} {
		c.a.Parent, c.b.Parent = parent, parent
		if SameParents(&c.a, &c.b) != c.want || SameParents(&c.b, &c.a) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

// A tenant's controller, limited to one namespace, precedes no cluster-wide one, however old it is.
func TestRank(t *testing.T) {
	declared := func(created, name, namespaces string) *object.Object {
		t.Helper()
		return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion": "setpoint.dev/v1alpha1", "kind": "CompositeController",
			"metadata": {"name": %q, "creationTimestamp": %q}, "spec": {"parentResource": {"namespaces": %s}}}`, name, created, namespaces))).In(t)
	}
	const old, recent = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
	ranks := []string{
		Rank(declared(old, "wide", "[]")), Rank(declared(recent, "wide-a", "null")), Rank(declared(recent, "wide-b", "null")),
		youngestRank(declared("", "new", "null")),
		Rank(declared(old, "limited", `["shop"]`)), Rank(declared(recent, "limited", `["shop"]`)), youngestRank(declared("", "new", `["shop"]`)),
	}
	if !slices.IsSorted(ranks) || len(slices.Compact(slices.Clone(ranks))) != len(ranks) {
		t.Errorf("not in order: %q", ranks)
	}
}
