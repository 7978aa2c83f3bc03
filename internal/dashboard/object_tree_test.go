package dashboard

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault U6: children of a suspended controller, whose health is unknown, were counted as not
// current.
func TestTreeSummary(t *testing.T) {
	for want, of := range map[string]tree{
		"2 of 3 current": {Current: 2, Total: 3}, "1, health unknown": {Unknown: 1, Total: 1},
		"1 of 3 current, health of 2 unknown": {Current: 1, Unknown: 2, Total: 3},
	} {
		if got := of.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// childrenSource is a process that manages objects by name.
type childrenSource struct {
	*fakeSource
	children map[string][]inspect.Child
	// calls counts calls.
	calls atomic.Int32
}

func (c *childrenSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	c.calls.Add(1)
	family, is := c.children[ref.Name]
	if !is {
		return nil, nil
	}
	return []inspect.ObjectState{{Ref: ref, Controller: "webs", Process: "setpoint", State: inspect.StateSynced, ChildStates: family}}, nil
}

func newChild(group, kind, name string) inspect.Child {
	ref := object.Ref{Kind: object.Kind{Group: group, Version: "v1", Plural: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true}, Namespace: "shop", Name: name, UID: name}
	return inspect.Child{Ref: ref, Health: "Current"}
}

func newChildrenSource(families map[string][]inspect.Child) *childrenSource {
	c := teamsController()
	c.Kinds = []object.Kind{webKind()}
	return &childrenSource{fakeSource: &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}, children: families}
}

func TestTreeSpansControllers(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
	var sets []string
	var deployments []inspect.Child
	for i := range 9 {
		deployments = append(deployments, newChild("apps", "Deployment", fmt.Sprintf("d%d", i)))
		sets = append(sets, fmt.Sprintf(`{"metadata":{"name":"r%[1]d","namespace":"shop","uid":"r%[1]d","ownerReferences":[{"uid":"d%[1]d"}]}}`, i))
	}
	a.responses["/apis/apps/v1/namespaces/shop/replicasets"] = `{"items":[` + strings.Join(sets, ",") + `]}`
	a.responses["/api/v1/namespaces/shop/pods"] = "forbidden"
	source := newChildrenSource(map[string][]inspect.Child{"a": {newChild("example.org", "Web", "b")}, "b": deployments})
	body := get(t, a.newServer(t, source), "/resources/webs.example.org/shop/a").Body.String()
	wantTexts(t, body, `href="/resources/webs.example.org/shop/b"`, `href="/resources/deployments.apps/shop/d8"`, `href="/resources/replicasets.apps/shop/r8"`,
		`Incomplete: forbidden: User &#34;ann&#34; cannot list resource &#34;things&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.`)
	if sets, pods := a.count("/replicasets?"), a.count("/pods?"); sets != 1 || pods != 1 {
		t.Errorf("listed replica sets %d times, and pods %d", sets, pods)
	}
}

func TestTreeLimits(t *testing.T) {
	families := map[string][]inspect.Child{"loop": {newChild("example.org", "Web", "loop"), newChild("example.org", "Web", "a")}}
	for i := range maxNodes + 7 {
		families["a"] = append(families["a"], newChild("example.org", "Web", fmt.Sprintf("w%03d", i)))
	}
	families["a"][3].Name, families["a"][3].Health = "loop", "Failed"
	source := newChildrenSource(families)
	panel := ownertree.NewProcesses(inspect.NewTimeouts(time.Second), func() []inspect.Result[[]inspect.Controller] {
		return []inspect.Result[[]inspect.Controller]{{Source: source, Value: source.controllers}}
	})
	states, _ := source.States(t.Context(), newChild("example.org", "Web", "a").Ref)
	got, err := buildTree(t.Context(), newChild("example.org", "Web", "a").Ref, states, &ownertree.Builder{
		Processes: panel, May: func(object.Kind, string) bool { return true },
	})
	if err != nil || len(got.Children) != maxNodes || got.More != 7 || got.Children[0].Name != "loop" || len(got.Children[0].Children) != 0 {
		t.Errorf("%d children and %d more, the first %+v; %v", len(got.Children), got.More, got.Children[0], err)
	}
	if requests := source.calls.Load() - 1; requests != maxCalls || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], fmt.Sprint(maxNodes-maxCalls)) {
		t.Errorf("%d requests, warnings %q", requests, got.Warnings)
	}
}
