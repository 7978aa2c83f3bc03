package ui

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lineage"
)

// Fault U6: children of a suspended controller, whose health is not known, were counted as
// not current.
func TestSummaryOfATree(t *testing.T) {
	for want, of := range map[string]tree{
		"2 of 3 current": {Well: 2, Total: 3}, "1, health not known": {Unknown: 1, Total: 1},
		"1 of 3 current, health of 2 not known": {Well: 1, Unknown: 2, Total: 3},
	} {
		if got := of.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// clan is a process that cares for objects by their names.
type clan struct {
	*still
	families map[string][]inspect.Child
	// asked is how many times.
	asked atomic.Int32
}

func (c *clan) About(_ context.Context, ref inspect.Ref) ([]inspect.Care, error) {
	c.asked.Add(1)
	family, is := c.families[ref.Name]
	if !is {
		return nil, nil
	}
	return []inspect.Care{{Ref: ref, Controller: "webs", Process: "setpoint", State: inspect.Well, Family: family}}, nil
}

func childRef(group, kind, name string) inspect.Child {
	ref := inspect.Ref{Kind: inspect.Kind{Group: group, Version: "v1", Plural: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true}, Namespace: "shop", Name: name, UID: name}
	return inspect.Child{Ref: ref, Health: "Current"}
}

func webs(families map[string][]inspect.Child) *clan {
	c := teams()
	c.Kinds = []inspect.Kind{webKind()}
	return &clan{still: &still{name: "setpoint", controllers: []inspect.Controller{c}}, families: families}
}

func TestTreesGrowThroughAllControllers(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
	var sets []string
	var deployments []inspect.Child
	for i := range 9 {
		deployments = append(deployments, childRef("apps", "Deployment", fmt.Sprintf("d%d", i)))
		sets = append(sets, fmt.Sprintf(`{"metadata":{"name":"r%[1]d","namespace":"shop","uid":"r%[1]d","ownerReferences":[{"uid":"d%[1]d"}]}}`, i))
	}
	a.byPath["/apis/apps/v1/namespaces/shop/replicasets"] = `{"items":[` + strings.Join(sets, ",") + `]}`
	a.byPath["/api/v1/namespaces/shop/pods"] = "forbidden"
	source := webs(map[string][]inspect.Child{"a": {childRef("example.org", "Web", "b")}, "b": deployments})
	body := get(t, a.window(t, source), "/resources/webs.example.org/shop/a").Body.String()
	wants(t, body, `href="/resources/webs.example.org/shop/b"`, `href="/resources/deployments.apps/shop/d8"`, `href="/resources/replicasets.apps/shop/r8"`,
		"Not all is shown: you lack the right to list things in the namespace shop.")
	if sets, pods := a.times("/replicasets?"), a.times("/pods?"); sets != 1 || pods != 1 {
		t.Errorf("listed replica sets %d times, and pods %d", sets, pods)
	}
}

func TestTreesAreBounded(t *testing.T) {
	families := map[string][]inspect.Child{"loop": {childRef("example.org", "Web", "loop"), childRef("example.org", "Web", "a")}}
	for i := range maxNodes + 7 {
		families["a"] = append(families["a"], childRef("example.org", "Web", fmt.Sprintf("w%03d", i)))
	}
	families["a"][3].Name, families["a"][3].Health = "loop", "Failed"
	source := webs(families)
	panel := lineage.NewPanel(inspect.NewPatience(time.Second), func() []inspect.Answer[[]inspect.Controller] {
		return []inspect.Answer[[]inspect.Controller]{{Source: source, Value: source.controllers}}
	})
	cares, _ := source.About(t.Context(), childRef("example.org", "Web", "a").Ref)
	got, err := growTree(t.Context(), childRef("example.org", "Web", "a").Ref, cares, &lineage.Grower{
		Panel: panel, May: func(inspect.Kind, string) bool { return true },
	})
	if err != nil || len(got.Children) != maxNodes || got.More != 7 || got.Children[0].Name != "loop" || len(got.Children[0].Children) != 0 {
		t.Errorf("%d children and %d more, the first %+v; %v", len(got.Children), got.More, got.Children[0], err)
	}
	if asked := source.asked.Load() - 1; asked != maxAsks || len(got.Missing) != 1 || !strings.Contains(got.Missing[0], fmt.Sprint(maxNodes-maxAsks)) {
		t.Errorf("asked about %d; it says %q", asked, got.Missing)
	}
}
