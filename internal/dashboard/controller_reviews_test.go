package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const policyName = "admissioncontroller.setpoint.dev/policy"

// reviewRun is a review of a Pod.
func reviewRun(id uint64, name, outcome string, review inspect.Review) inspect.Run {
	review.Operation, review.User = "create", "ann"
	return inspect.Run{
		ID: id, Controller: policyName, Process: "setpoint", Object: podRef(name), Outcome: outcome,
		Began: time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC), Took: 2 * time.Millisecond, Causes: []string{"create by ann"},
		Steps: []inspect.Step{{Call: &inspect.Call{Name: "digests", Review: &review, Request: json.RawMessage(`{"name":"web"}`)}}},
	}
}

func reviewServer(t *testing.T, runs ...inspect.Run) *Server {
	t.Helper()
	policy := inspect.Controller{Name: policyName, Process: "setpoint", Reviews: true, AllReplicas: true, Kinds: []object.Kind{podRef("").Kind}}
	policy.Calls = []inspect.CallStats{{Name: "digests", Outcome: "denied", Count: 12_345}}
	return newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{policy}, runs: runs})
}

// Fault U3: an admission controller waited "for .", or for the first Pod although nine existed.
func TestAdmissionControllersListReviews(t *testing.T) {
	none := get(t, reviewServer(t), web.ControllerURL("setpoint", policyName)).Body.String()
	wantTexts(t, none, "No reviews yet", "before it stores Pod objects", "12,345")
	denied := reviewRun(7, "web", "denied", inspect.Review{Denied: true, Message: "image :latest is not pinned"})
	mutated := reviewRun(8, "", "mutated", inspect.Review{GenerateName: "web-", DryRun: true, Unverified: true, Fields: []string{"spec.image"}, Changes: []inspect.Change{{Path: "spec.image", To: json.RawMessage(`"a@sha256:1"`)}}, Groups: []string{"devs"}})
	s := reviewServer(t, mutated, denied)
	at := web.ControllerURL("setpoint", policyName)
	all := get(t, s, at).Body.String()
	wantTexts(t, all, "/resources/pods/shop/web", "image :latest is not pinned", "changed spec.image", "web-*", "dry run", at+"/reviews/7",
		"Denied <b>1</b>", "Mutated <b>1</b>",
		"!waits for", "!first Pod", `!href="/resources/pods/shop/"`)
	for query, want := range map[string][2]bool{
		"?result=denied": {true, false}, "?result=mutated": {false, true}, "?result=nonsense": {true, true},
		"?operation=delete": {}, "?user=ann": {true, true}, "?user=bob": {}, "?name=web": {true, false}, "?kind=Pod&ns=shop&name=web": {true, false},
		"?kind=Pod.apps": {}, "?q=PINNED": {true, false}, "?ns=other": {},
	} {
		page := get(t, s, at+"/reviews"+query).Body.String()
		if got := [2]bool{strings.Contains(page, "reviews/7"), strings.Contains(page, "reviews/8")}; got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	wantTexts(t, get(t, s, at+"/reviews?result=failed").Body.String(), "No matches", "Show all")
	wantTexts(t, get(t, s, at+"/reviews/8").Body.String(), "Creation (dry run) mutated and allowed", "web-*", "devs", "ann", "as reported by the caller", "spec.image", "a@sha256:1", at+"/reviews/8?in=")
	wantTexts(t, get(t, s, at+"/reviews/7").Body.String(), "Creation denied", "image :latest is not pinned", "/resources/pods/shop/web")
	for _, missing := range []string{"9", "x", "-1"} {
		if w := get(t, s, at+"/reviews/"+missing); w.Code != http.StatusNotFound {
			t.Errorf("review %s: %d", missing, w.Code)
		}
	}
}

// Many reviews have pages, and filters start at the first.
func TestReviewPages(t *testing.T) {
	var runs []inspect.Run
	for i := range 250 {
		runs = append(runs, reviewRun(uint64(i+1), fmt.Sprint("web", i), "allowed", inspect.Review{}))
	}
	s := reviewServer(t, runs...)
	at := web.ControllerURL("setpoint", policyName)
	page := get(t, s, at+"?offset=200&user=ann").Body.String()
	wantTexts(t, page, "201–250 of 250", "offset=100&amp;user=ann", "web200",
		"!web199<", "!result=allowed&amp;offset", "!offset=200&amp;user=ann&amp;result=allowed")
}

// A controller with objects and reviews has a page of each.
func TestObjectsAndReviews(t *testing.T) {
	guitars := teamsController()
	guitars.Reviews = true
	s := newServer(t, &fakeSource{name: "setpoint", process: inspect.Process{LeaderElection: true}, controllers: []inspect.Controller{guitars}, runs: []inspect.Run{reviewRun(7, "web", "denied", inspect.Review{Denied: true})}})
	at := web.ControllerURL("setpoint", guitars.Name)
	wantTexts(t, get(t, s, at).Body.String(), `href="`+at+`" aria-current="page">Objects`, `href="`+at+`/reviews">Reviews`)
	wantTexts(t, get(t, s, at+"/reviews").Body.String(), `href="`+at+`/reviews" aria-current="page">Reviews`, "no message", "Each replica shows the reviews that it served.")
}

// Users see the reviews of objects that they may read, and nothing of others: neither in the list
// nor by their addresses.
func TestReviewsRequirePermission(t *testing.T) {
	api := newReviewAPI(t, func(of *authorization.ResourceAttributes) bool {
		return of.Verb == "list" || of.Verb == "get" && of.Resource == "pods" && of.Namespace == "shop"
	})
	hidden := reviewRun(8, "vault", "denied", inspect.Review{Denied: true, Message: "the vault is closed"})
	hidden.Object.Namespace = "bank"
	policy := inspect.Controller{Name: policyName, Process: "setpoint", Reviews: true, AllReplicas: true, Kinds: []object.Kind{podRef("").Kind}}
	process := &fakeSource{name: "setpoint", controllers: []inspect.Controller{policy}, runs: []inspect.Run{hidden, reviewRun(7, "web", "allowed", inspect.Review{})}}
	load, at := newProxyServer(t, api, process), web.ControllerURL("setpoint", policyName)
	for _, path := range []string{at, at + "/reviews?name=vault", at + "/reviews?result=denied", at + "/reviews/8", at + "/reviews/8?show=request&step=0"} {
		wantTexts(t, load(path).Body.String(), "!bank", "!closed", "!Denied <b>1", "!/reviews/8\"")
	}
	wantTexts(t, load(at).Body.String(), "/reviews/7", "All <b>1</b>", "Reviews of objects that you cannot get are not shown.")
	if w := load(at + "/reviews/8"); w.Code != http.StatusNotFound {
		t.Errorf("the page of a hidden review: %d", w.Code)
	}
}
