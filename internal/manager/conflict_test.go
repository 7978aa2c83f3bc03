package manager

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Fault M15: children and revisions conflict, the status does not.
func TestFindConflict(t *testing.T) {
	kind := func(name string) object.Resource {
		return object.Resource{Version: "v1", Plural: name + "s", Kind: name, Namespaced: true}
	}
	of := func(rules ...plan.Rule) compose.Program {
		return compose.Program{Parent: kind("shop"), Children: rules}
	}
	beta := kind("sign")
	beta.Version = "v1beta1"
	signs, doors := plan.Rule{Resource: kind("sign")}, plan.Rule{Resource: kind("door")}
	rolling := func(rule plan.Rule) plan.Rule { rule.Method = plan.RollingInPlace; return rule }
	byName := of()
	byName.Fields = "metadata.name=a"
	for name, c := range map[string]struct {
		a, b compose.Program
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
		for _, pair := range [][]compose.Program{{c.a, c.b}, {c.b, c.a}} {
			found, conflicts := findConflict(&compile.Compiled{Programs: pair[:1]}, &compile.Compiled{Programs: pair[1:]})
			if conflicts != (c.want != "") || !strings.HasPrefix(found.reason, c.want) {
				t.Errorf("%s: %v %q, want %q", name, conflicts, found.reason, c.want)
			}
		}
	}
}

// Fault M15: the status belongs to the older controllers of the same parents, and to the
// younger one when they stop.
func TestStatusIsYieldedToOlderControllers(t *testing.T) {
	cs := newTestControllers(&Manager{log: slog.New(slog.DiscardHandler)})
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop"}
	started := func(name, rank string, children ...plan.Rule) *compile.Compiled {
		t.Helper()
		compiled := &compile.Compiled{Programs: []compose.Program{{Name: name, Parent: shops, Children: children}}}
		if err := cs.checkConflict(queue.Key{Name: name}, rank, compiled); err != nil {
			t.Fatal(err)
		}
		cs.entries[queue.Key{Name: name}] = &controllerEntry{controllerState: controllerState{rank: rank, running: &runningController{Compiled: compiled}}}
		return compiled
	}
	owners := func(c *compile.Compiled) string {
		var names []string
		for _, o := range c.Programs[0].StatusOwners {
			names = append(names, o.Name)
		}
		return strings.Join(names, " ")
	}
	third := started("third", "3")
	if owners(third) != "" || len(third.Notes) != 0 {
		t.Errorf("alone: %v, %v", owners(third), third.Notes)
	}
	first := started("first", "1", plan.Rule{Resource: shops})
	next := cs.entries[queue.Key{Name: "first"}].running
	if younger := cs.youngerConflicting(queue.Key{Name: "first"}, "1", next); owners(first) != "" || len(younger) != 1 {
		t.Errorf("the oldest yields the status to %q, %d restart", owners(first), len(younger))
	}
	third = started("third", "3")
	if owners(third) != "first" || len(third.Notes) != 1 || !strings.HasPrefix(third.Notes[0], "first is the older controller of shops.example.org/v1 and ") {
		t.Errorf("yielded to %q: %q", owners(third), third.Notes)
	}
	if younger := cs.youngerConflicting(queue.Key{Name: "first"}, "1", next); len(younger) != 0 {
		t.Errorf("%d restart needlessly", len(younger))
	}
	second := started("second", "2")
	if third = started("third", "3"); owners(second) != "first" || owners(third) != "first second" {
		t.Errorf("yielded to %q and %q", owners(second), owners(third))
	}
	twin := &compile.Compiled{Programs: []compose.Program{{Name: "twin", Parent: shops, Children: first.Programs[0].Children}}}
	if err := cs.checkConflict(queue.Key{Name: "twin"}, "4", twin); err == nil || !strings.Contains(err.Error(), "first is already the controller of shops.example.org/v1; both declare ") {
		t.Errorf("with the same children: %v", err)
	}
	delete(cs.entries, queue.Key{Name: "first"})
	cs.requeueConflicting(queue.Key{Name: "first"})
	if waiting := cs.queue.Len(); waiting != 2 {
		t.Errorf("%d of 2 requeued after the status owner is deleted", waiting)
	}
	if second = started("second", "2"); owners(second) != "" {
		t.Errorf("yielded to %q, which is deleted", owners(second))
	}
}

func TestSameParents(t *testing.T) {
	parent := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	by := func(text string) []compose.Selection {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []compose.Selection{{Labels: selector}}
	}
	for name, c := range map[string]struct {
		a, b compose.Program
		want bool
	}{
		"all and all":         {compose.Program{}, compose.Program{}, true},
		"all and some":        {compose.Program{}, compose.Program{Selections: by("a=1")}, true},
		"the same":            {compose.Program{Selections: by("a=1")}, compose.Program{Selections: by("a=1")}, true},
		"labels apart":        {compose.Program{Selections: by("a=1")}, compose.Program{Selections: by("a=2")}, false},
		"fields apart":        {compose.Program{Fields: "metadata.name=a"}, compose.Program{Fields: "metadata.name=b"}, false},
		"all and some fields": {compose.Program{}, compose.Program{Fields: "metadata.name=b"}, true},
		"a namespace apart":   {compose.Program{Namespace: "a"}, compose.Program{Namespace: "b"}, false},
		"the same namespace":  {compose.Program{Namespace: "a"}, compose.Program{Namespace: "a"}, true},
		"one and everywhere":  {compose.Program{Namespace: "a"}, compose.Program{}, true},
		"a decorator":         {compose.Program{}, compose.Program{Mark: plan.Mark{Key: "a", Value: "b"}}, false},
	} {
		c.a.Parent, c.b.Parent = parent, parent
		if sameParents(&c.a, &c.b) != c.want || sameParents(&c.b, &c.a) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}
