package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault U9: "failing" in a URL is the state Failing.
func TestStateInURL(t *testing.T) {
	for query, want := range map[string]inspect.State{"failing": inspect.StateFailing, "Failing": inspect.StateFailing, "nonsense": ""} {
		req := &request{Request: &web.Request{R: httptest.NewRequest(http.MethodGet, "/?state="+query, http.NoBody)}}
		if got := req.newObjectList().Query.State; got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
}

// Fault U9: a namespace outside of the list is still selected.
func TestUnlistedNamespaceIsSelected(t *testing.T) {
	for namespace, want := range map[string]string{"nope": "nope", "shop": "", "": ""} {
		if got := (&kindPage{Namespace: namespace, Namespaces: []string{"shop", ""}}).UnlistedNamespace(); got != want {
			t.Errorf("%q: %q", namespace, got)
		}
	}
}

func TestKindHeadings(t *testing.T) {
	for plural, want := range map[string]string{"networkpolicies": "NetworkPolicies", "configmaps": "ConfigMaps", "endpoints": "Endpoints", "sheep": "sheep"} {
		kind := map[string]string{"networkpolicies": "NetworkPolicy", "configmaps": "ConfigMap", "endpoints": "Endpoints", "sheep": "Animal"}[plural]
		if got := (&kindPage{Kind: object.Kind{Kind: kind, Plural: plural}}).Heading(); got != want {
			t.Errorf("%s is headed %q", plural, got)
		}
	}
}

// Fault U6: objects of a suspended controller lost their card, tree and actions.
func TestSuspendedControllerObjects(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"u"}}`
	a.responses["/api/v1/namespaces/shop/configmaps"] = `{"items":[{"metadata":{"name":"made","namespace":"shop","uid":"c","ownerReferences":[{"uid":"u"}]}}]}`
	web := object.Kind{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true}
	c := inspect.Controller{Name: "c/webs", Process: "setpoint", Suspended: true, Kinds: []object.Kind{web}, Children: []object.Kind{{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}}}
	state := inspect.ObjectState{Ref: object.Ref{Kind: web, Namespace: "shop", Name: "a"}, State: inspect.StateUnknown, Suspended: true, Controller: c.Name, Process: "setpoint"}
	body := get(t, a.newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}, states: []inspect.ObjectState{state}}), "/resources/webs.example.org/shop/a").Body.String()
	wantTexts(t, body, "Suspended", "Suspended by spec", "/resources/configmaps/shop/made", "Reconcile now", "Edit")
}
