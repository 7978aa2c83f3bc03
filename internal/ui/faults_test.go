package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Fault U3: a controller of admission waited "for .", or for the first Pod with nine there.
func TestControllersOfAdmissionListReviews(t *testing.T) {
	policy := inspect.Controller{Name: "admissioncontroller.setpoint.dev/policy", Process: "setpoint", Everywhere: true}
	pod := inspect.Ref{Kind: inspect.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: "web"}
	denied := inspect.Care{Ref: pod, State: inspect.NotKnown, Controller: policy.Name, Reviewed: "denied", Error: "image :latest is not pinned", Reviews: 9}
	for name, test := range map[string]struct {
		page  inspect.Page
		wants []string
	}{
		"none": {inspect.Page{Reviews: true}, []string{"No reviews kept"}},
		"some": {inspect.Page{Reviews: true, Total: 1, Matching: 1, Objects: []inspect.Care{denied}}, []string{"Reviewed objects", "/resources/pods/shop/web", "denied", "image :latest is not pinned"}},
	} {
		body := get(t, serve(t, &still{name: "setpoint", controllers: []inspect.Controller{policy}, page: test.page}), controllerURL("setpoint", policy.Name)).Body.String()
		wants(t, body, test.wants...)
		for _, never := range []string{"waits for", "first Pod"} {
			if strings.Contains(body, never) {
				t.Errorf("%s: the page says %q", name, never)
			}
		}
	}
}

// Fault U4: who may not list events got a raw error, and the empty state too.
func TestEventsThatMayNotBeListed(t *testing.T) {
	refusal := lacks(asuser.Right{User: "ann", Verb: "list", Resource: "events", Namespace: "shop"})
	p := objectPage{subject: &subject{Ref: inspect.Ref{Kind: inspect.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: "web"}}, Events: eventList{Problem: refusal}}
	body := show(t, "object", p)
	wants(t, body, "ann has no right to list events in the namespace shop.", "kubectl create role events-list --verb=list --resource=events -n shop")
	if strings.Contains(body, "No events") {
		t.Error("the page says that there are none")
	}
}

// Fault U6: "Nothing was done about it yet" stood beside "last run 20m ago".
func TestWhatRanBeforeIsNotNothing(t *testing.T) {
	p := objectPage{subject: &subject{Ref: inspect.Ref{Name: "web"}}, Cares: []careView{{Care: inspect.Care{State: inspect.Well, Ran: time.Now().Add(-20 * time.Minute)}}}}
	body := show(t, "object", p)
	wants(t, body, "No history is kept any more")
	if strings.Contains(body, "Not reconciled yet") {
		t.Error("the page says that it was never reconciled")
	}
}

// Fault U9: "failing" in an address is the state Failing.
func TestStatesInAddresses(t *testing.T) {
	for query, want := range map[string]inspect.State{"failing": inspect.Failing, "Failing": inspect.Failing, "nonsense": ""} {
		v := &visit{r: httptest.NewRequest(http.MethodGet, "/?state="+query, http.NoBody)}
		if got := v.objectQuery().State; got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
}

// Fault U9: a namespace that is not in the list is the one that is chosen all the same.
func TestANamespaceThatIsNotListed(t *testing.T) {
	for namespace, want := range map[string]string{"nope": "nope", "shop": "", "": ""} {
		if got := (&kindPage{Namespace: namespace, Namespaces: []string{"shop", ""}}).Unlisted(); got != want {
			t.Errorf("%q: %q", namespace, got)
		}
	}
}

func TestHeadingsOfKinds(t *testing.T) {
	for plural, want := range map[string]string{"networkpolicies": "NetworkPolicies", "configmaps": "ConfigMaps", "endpoints": "Endpoints", "sheep": "sheep"} {
		kind := map[string]string{"networkpolicies": "NetworkPolicy", "configmaps": "ConfigMap", "endpoints": "Endpoints", "sheep": "Animal"}[plural]
		if got := (&kindPage{Kind: inspect.Kind{Kind: kind, Plural: plural}}).Kinds(); got != want {
			t.Errorf("%s is headed %q", plural, got)
		}
	}
}

// Fault U6: objects of a controller that is suspended lost their card, tree and actions.
func TestObjectsOfASuspendedController(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"u"}}`
	a.byPath["/api/v1/namespaces/shop/configmaps"] = `{"items":[{"metadata":{"name":"made","namespace":"shop","uid":"c","ownerReferences":[{"uid":"u"}]}}]}`
	web := inspect.Kind{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true}
	c := inspect.Controller{Name: "c/webs", Process: "setpoint", Suspended: true, Kinds: []inspect.Kind{web}, Children: []inspect.Kind{{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}}}
	care := inspect.Care{Ref: inspect.Ref{Kind: web, Namespace: "shop", Name: "a"}, State: inspect.NotKnown, Suspended: true, Controller: c.Name, Process: "setpoint"}
	body := get(t, a.window(t, &still{name: "setpoint", controllers: []inspect.Controller{c}, cares: []inspect.Care{care}}), "/resources/webs.example.org/shop/a").Body.String()
	wants(t, body, "Suspended", "This controller is suspended by its spec", "/resources/configmaps/shop/made", "Reconcile now", "Edit")
}
