package dashboard

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// drawGraph draws a tree without reading anything.
func drawGraph(root *ownertree.Node) *graphLayout {
	g := &graphBuilder{page: &graphPage{pageObject: &pageObject{Ref: root.Ref}}}
	box := g.objectBox(root)
	g.addChildren(box, root)
	return layOut(nil, box)
}

func graphNode(kind, name, health string, children ...*ownertree.Node) *ownertree.Node {
	return &ownertree.Node{Child: model.Child{Ref: newChild("example.org", kind, name).Ref, Health: health}, Children: children}
}

// A parent of a thousand children has few boxes, whose numbers add up, and no two boxes overlap.
func TestGraphIsBounded(t *testing.T) {
	root := graphNode("Web", "a", "Current")
	for i := range 1000 {
		health := []string{"Current", "Current", "Current", "InProgress"}[i%4]
		root.Children = append(root.Children, graphNode("Pod", fmt.Sprint("p", i), health))
	}
	for i := range 4 {
		set := graphNode("ReplicaSet", fmt.Sprint("r", i), "Failed")
		for k := range 40 {
			set.Children = append(set.Children, graphNode("Kind"+fmt.Sprint(k), "x", "Current"))
		}
		root.Children = append(root.Children, set)
	}
	root.More, root.Hidden = 3, 2
	first := drawGraph(root)
	if n := len(first.Boxes); n > maxGraphBoxes+200 || n < 50 {
		t.Errorf("%d boxes", n)
	}
	labels := ""
	for i, a := range first.Boxes {
		labels += a.Label + "\n"
		for _, b := range first.Boxes[i+1:] {
			if max(a.X-b.X, b.X-a.X) < boxWidth && max(a.Y-b.Y, b.Y-a.Y) < boxHeight {
				t.Fatalf("%s overlaps %s", a.Label, b.Label)
			}
		}
	}
	for _, want := range []string{"750 Pod: Current, list them", "250 Pod: InProgress", "ReplicaSet shop/r3: Failed", "3 more objects are not read", "2 objects of kinds that you cannot get"} {
		if !strings.Contains(labels, want) {
			t.Errorf("%q is missing:\n%s", want, labels)
		}
	}
	if again := drawGraph(root); len(again.Edges) != len(first.Edges) || !slices.Equal(again.Edges, first.Edges) {
		t.Error("the same tree is drawn differently")
	}
}

// Who wrote the owner reference is the owner; those of the status are not shown.
func TestOtherWriters(t *testing.T) {
	fields := metav1.NewFieldsV1
	meta := metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{Name: "a"}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "setpoint", FieldsV1: fields(`{"f:metadata":{"f:ownerReferences":{}}}`)}, {Manager: "setpoint", Operation: "Update"},
			{Manager: "kubelet", Subresource: "status"}, {Manager: "kubectl-edit", FieldsV1: fields(`{"f:spec":{}}`)}, {Manager: "kubectl-edit"},
			{Manager: "autoscaler", Subresource: "scale"}, {Manager: "x"}, {Manager: "y"},
		},
	}
	want := []writer{{"kubectl-edit", "writes"}, {"autoscaler", "writes scale of"}, {"x", "writes"}}
	if got := otherWriters(&meta); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	meta.OwnerReferences = nil
	if got := otherWriters(&meta); got != nil {
		t.Errorf("an object without owners has %v", got)
	}
}

func TestRelatedBoxes(t *testing.T) {
	var many []string
	for i := range maxGraphRelated + 4 {
		many = append(many, fmt.Sprintf(`"shop/c%02d":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%02d","namespace":"shop"}}`, i, i))
	}
	boxes := relatedBoxes(json.RawMessage(`{"parent":{},"children":{"Pod.v1":{"p":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}}},"related":{"ConfigMap.v1":{` + strings.Join(many, ",") + `}}}`))
	if len(boxes) != maxGraphRelated+1 || boxes[0].Name != "c00" || boxes[0].Edge != "reads" || boxes[maxGraphRelated].Name != "4 more" {
		t.Errorf("%d boxes", len(boxes))
	}
	if got := relatedBoxes(json.RawMessage("nonsense")); got != nil {
		t.Errorf("got %v", got)
	}
}

// A review of the object is no call for it: the related objects and the version are those of the
// latest reconcile.
func TestGraphShowsTheLatestReconcile(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
	review := reviewRun(2, "a", "allowed", model.Review{})
	review.Object = object.Ref{Kind: webKind(), Namespace: "shop", Name: "a"}
	run := model.Run{ID: 1, Controller: "webs", Process: "setpoint", Object: review.Object, Began: review.Began.Add(-time.Minute), Outcome: "synced"}
	run.Steps = []model.Step{{Call: &model.Call{Name: "sync", Version: "v7", Request: json.RawMessage(`{"parent":{},"related":{"ConfigMap.v1":{"shop/c":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"}}}}}`)}}}
	s := a.newServer(t, &fakeSource{name: "setpoint", runs: []model.Run{review, run}})
	wantTexts(t, get(t, s, "/resources/webs.example.org/shop/a/graph").Body.String(), "version v7", "Related ConfigMap shop/c, which the controller reads")
}

func TestRevisions(t *testing.T) {
	for want, meta := range map[string]metav1.ObjectMeta{
		"": {}, "revision 3": {Annotations: map[string]string{deploymentRevision: "3"}}, "revision web-5d": {Labels: map[string]string{controllerRevision: "web-5d"}},
	} {
		if got := revisionOf(&meta); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// From the parent through a Deployment to its Pods, with what others wrote.
func TestGraphPage(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
	a.responses["/apis/apps/v1/namespaces/shop/deployments/d"] = `{"metadata":{"name":"d","namespace":"shop","annotations":{"deployment.kubernetes.io/revision":"7"},"ownerReferences":[{"uid":"a"}],
		"managedFields":[{"manager":"setpoint","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:ownerReferences":{}}}},{"manager":"kubectl-edit<b>","fieldsType":"FieldsV1","fieldsV1":{}}]}}`
	a.responses["/apis/apps/v1/namespaces/shop/replicasets"] = `{"items":[{"metadata":{"name":"r","namespace":"shop","uid":"r","ownerReferences":[{"uid":"d"}]}}]}`
	var pods []string
	for i := range 20 {
		pods = append(pods, fmt.Sprintf(`{"metadata":{"name":"p%[1]d","namespace":"shop","uid":"p%[1]d","ownerReferences":[{"uid":"r"}]}}`, i))
	}
	a.responses["/api/v1/namespaces/shop/pods"] = `{"items":[` + strings.Join(pods, ",") + `]}`
	s := a.newServer(t, newChildrenSource(map[string][]model.Child{"a": {newChild("apps", "Deployment", "d")}}))
	const page = "/resources/webs.example.org/shop/a/graph"
	body := get(t, s, page).Body.String()
	checkInert(t, body)
	wantTexts(t, body, `aria-label="Deployment shop/d: `, "revision 7", "Field manager kubectl-edit&lt;b&gt;, not the owner, writes Deployment d",
		`href="/resources/replicasets.apps/shop/r"`, `aria-label="20 Pod: Unknown, list them"`, `href="`+page+`?kind=Pod&amp;state=Unknown#owned"`, `aria-current="page">Graph`, "Unknown <b>21</b>")
	wantTexts(t, get(t, s, page+"?kind=Pod&state=unknown&sort=name&reverse=yes").Body.String(), `aria-sort="descending"`, "Unknown <b>20</b>")
	for _, query := range []string{"?kind=" + url.QueryEscape(hostileScript), "?kind=Nope.x&state=y&sort=z&offset=-1", "?offset=99999"} {
		w := get(t, s, page+query)
		checkInert(t, w.Body.String())
		if w.Code != 200 {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	if w := get(t, s, "/resources/webs.example.org/shop/gone/graph"); w.Code != 404 {
		t.Errorf("an object that does not exist: %d", w.Code)
	}
}

// What a user may not get is counted, not shown.
func TestGraphOfHostileNames(t *testing.T) {
	root := graphNode("Web", hostile, "Failed", graphNode(hostile, strings.Repeat("x", 400), "Current"))
	root.Error, root.Namespace = hostile, ""
	p := &graphPage{pageObject: &pageObject{Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: "a"}}, Graph: drawGraph(root), Owned: newList(newTestRequest(t, "/"), []ownedRow{{root, root.Ref}}, ownedSpec())}
	renderPage(t, "object_graph", p)
}
