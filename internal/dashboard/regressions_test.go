package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault U4: users who may not list events saw a raw error and the empty state.
func TestForbiddenEvents(t *testing.T) {
	refusal := web.PermissionProblem(userclient.Permission{User: "ann", Verb: "list", Resource: "events", Namespace: "shop"})
	p := objectPage{pageObject: &pageObject{Ref: object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: "web"}}, Events: eventList{Problem: refusal}}
	body := renderPage(t, "object", p)
	wantTexts(t, body, "User &#34;ann&#34; cannot list resource &#34;events&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.", "kubectl create role events-list --verb=list --resource=events -n shop")
	if strings.Contains(body, "No events") {
		t.Error("the page says that there are none")
	}
}

// Fault U6: "Nothing was done about it yet" stood beside "last run 20m ago".
func TestRunsWithoutHistory(t *testing.T) {
	p := objectPage{pageObject: &pageObject{Ref: object.Ref{Name: "web"}}, States: []stateView{{ObjectState: inspect.ObjectState{State: inspect.StateSynced, Ran: time.Now().Add(-20 * time.Minute)}}}}
	body := renderPage(t, "object", p)
	wantTexts(t, body, "History is no longer in memory")
	if strings.Contains(body, "Not reconciled yet") {
		t.Error("the page says that it was never reconciled")
	}
}

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
