package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const lastApplied = "example.org/last-applied"

// declared are the rules of the test cases.
func declared() Rules {
	return Rules{
		{Resource: object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, Method: InPlace},
		{Resource: object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}, Method: InPlace},
		{Resource: object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}, Method: Recreate},
		{Resource: object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, Method: OnDelete},
		{Resource: object.Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true}, Method: InPlace},
		{Resource: object.Resource{Version: "v1", Plural: "services", Kind: "Service", Namespaced: true, Status: true}, Method: InPlace},
		{Resource: object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true}, Method: InPlace},
		{Resource: object.Resource{Group: "networking.k8s.io", Version: "v1", Plural: "networkpolicies", Kind: "NetworkPolicy", Namespaced: true}, Method: Recreate},
	}
}

// planSettings are the settings of a case in family.yaml.
type planSettings struct {
	// Cluster means that the parent is cluster-scoped.
	Cluster bool
	// Selector has to match the children; empty matches all.
	Selector *metav1.LabelSelector
	// Generated means that the selector selects the parent's UID.
	Generated bool
	// Lenient is as in Planner.
	Lenient  bool
	Deleting bool
	// InPlace sets the method of all rules.
	InPlace bool
	// ServerSide sets the strategy of all rules.
	ServerSide bool
}

func plannerOf(t testing.TB, text []byte) *Planner {
	t.Helper()
	var s planSettings
	must.Succeed(t, yaml.UnmarshalStrict(text, &s))
	parent := `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","namespace":"town","uid":"parent-uid","generation":7}}`
	if s.Cluster {
		parent = strings.Replace(parent, `"namespace":"town",`, "", 1)
	}
	if s.Deleting {
		parent = strings.Replace(parent, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1)
	}
	f := &Planner{Parent: parse(t, parent), Namespaced: !s.Cluster, Rules: declared(), GenerateSelector: s.Generated,
		Selector: labels.Everything(), LastApplied: lastApplied, Manager: "setpoint-shops", Lenient: s.Lenient}
	for i := range f.Rules {
		if s.InPlace {
			f.Rules[i].Method = InPlace
		}
		if s.ServerSide {
			f.Rules[i].Strategy = ServerSide
		}
	}
	if s.Selector != nil {
		selector := must.Get(metav1.LabelSelectorAsSelector(s.Selector)).In(t)
		f.Selector = selector
	}
	if s.Generated {
		f.Selector = labels.SelectorFromSet(labels.Set{UIDLabel: "parent-uid"})
	}
	return f
}

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func listOf(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	list, _ := treeOf(t, text).([]any)
	objects := make([]map[string]any, len(list))
	for i, item := range list {
		objects[i] = item.(map[string]any)
	}
	return objects
}

func responseOf(t *testing.T, text []byte) []json.RawMessage {
	t.Helper()
	return lists.Map(listOf(t, text), func(child map[string]any) json.RawMessage { return json.RawMessage(jsonOf(t, child)) })
}

// observedOf reads observed.yaml and completes the metadata: a UID, a resource version, the parent
// as the owner, and the last applied configuration in applied.yaml.
func observedOf(t *testing.T, files map[string][]byte) []*object.Object {
	t.Helper()
	applied := map[any]string{}
	for _, one := range listOf(t, files["applied.yaml"]) {
		applied[object.FieldAt(one, "metadata", "name")] = jsonOf(t, one)
	}
	var observed []*object.Object
	for _, one := range listOf(t, files["observed.yaml"]) {
		metadata := one["metadata"].(map[string]any)
		metadata["uid"] = cmp.Or(metadata["uid"], any("uid-of-"+metadata["name"].(string)))
		metadata["resourceVersion"] = "41"
		if _, given := metadata["ownerReferences"]; !given {
			metadata["ownerReferences"] = []any{map[string]any{
				"apiVersion": "example.org/v1", "kind": "Shop", "name": "books", "uid": "parent-uid", "controller": true, "blockOwnerDeletion": true}}
		}
		if text, was := applied[metadata["name"]]; was {
			annotations, _ := metadata["annotations"].(map[string]any)
			if annotations == nil {
				annotations = map[string]any{}
			}
			annotations[lastApplied] = text
			metadata["annotations"] = annotations
		}
		observed = append(observed, parse(t, jsonOf(t, one)))
	}
	return observed
}

// TestPlan reads observed.yaml, applied.yaml and response.yaml, and compares the plan with plan.txt.
func TestPlan(t *testing.T) {
	eachVector(t, "testdata/plan/*.txtar", func(t *testing.T, files map[string][]byte) string {
		f, observed := plannerOf(t, files["family.yaml"]), observedOf(t, files)
		desired, ignored, err := f.Desired(responseOf(t, files["response.yaml"]))
		if err != nil {
			return err.Error() + "\n"
		}
		var text strings.Builder
		for _, part := range ignored {
			fmt.Fprintf(&text, "ignored: %s: %s\n", part.Path, part.Problem)
		}
		p, err := f.Changes(observed, desired, nil)
		if err != nil {
			return err.Error() + "\n"
		}
		checkConverges(t, f, observed, desired, p)
		return text.String() + describe(t, p)
	})
}

// checkConverges applies the plan as a simple server would, until deleted children are created
// again, and expects that nothing is left to do.
func checkConverges(t *testing.T, f *Planner, observed []*object.Object, desired []Child, p Plan) {
	t.Helper()
	for range 2 {
		observed = applyPlan(t, observed, p)
		p = must.Get(f.Changes(observed, desired, nil)).In(t)
	}
	if !p.Empty() {
		t.Errorf("carried out, there is still to do:\n%s", describe(t, p))
	}
}

// overlay returns what an apply makes of an object, without removals.
func overlay(t *testing.T, apply Action) *object.Object {
	t.Helper()
	return must.Get(Overlay(apply.Before, apply.After)).In(t)
}

func applyPlan(t *testing.T, observed []*object.Object, p Plan) []*object.Object {
	now := map[Key]*object.Object{}
	var order []Key
	set := func(o *object.Object) {
		if _, known := now[KeyOf(o)]; !known {
			order = append(order, KeyOf(o))
		}
		now[KeyOf(o)] = o
	}
	for _, o := range observed {
		set(o)
	}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if action.Verb == Delete {
				now[KeyOf(action.Before)] = nil
				continue
			}
			if action.Verb == Apply {
				set(overlay(t, action))
				continue
			}
			set(action.After)
		}
	}
	var left []*object.Object
	for _, id := range order {
		if o := now[id]; o != nil {
			left = append(left, o)
		}
	}
	return left
}

// describe returns the printed plan and, if they are few, the objects to send.
func describe(t *testing.T, p Plan) string {
	t.Helper()
	if p.Empty() {
		return "nothing\n"
	}
	text := p.String()
	if p.Len() > 2 {
		return text
	}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if action.After != nil && action.Verb != Delete {
				text += "---\n" + sent(t, action.After)
			}
		}
	}
	return text
}

func sent(t *testing.T, o *object.Object) string {
	t.Helper()
	text := must.Get(yaml.JSONToYAML(o.JSON())).In(t)
	return string(text)
}

// Whole numbers of a child become integers.
func TestWholeNumbersOfChildren(t *testing.T) {
	o := must.Get(parseChild("children[0]", json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":2.0,"m":1e3,"h":0.5}}`))).In(t)
	if got := string(o.Field("data")); got != `{"n":2,"m":1000,"h":0.5}` {
		t.Errorf("got %s", got)
	}
}
