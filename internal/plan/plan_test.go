package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
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
	return must.Get(object.Parse([]byte(text))).In(t)
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
		if metadata["uid"] == nil {
			metadata["uid"] = "uid-of-" + metadata["name"].(string)
		}
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
				set(must.Get(Overlay(action.Before, action.After)).In(t)) // Without removals.
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
	if len(p.Actions()) > 2 {
		return text
	}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if action.After != nil && action.Verb != Delete {
				text += "---\n" + string(must.Get(yaml.JSONToYAML(action.After.JSON())).In(t))
			}
		}
	}
	return text
}

// Whole numbers of a child become integers.
func TestWholeNumbersOfChildren(t *testing.T) {
	o := must.Get(parseChild("children[0]", json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":2.0,"m":1e3,"h":0.5}}`))).In(t)
	if got := string(o.Field("data")); got != `{"n":2,"m":1000,"h":0.5}` {
		t.Errorf("got %s", got)
	}
}

const ours = `{"apiVersion":"example.org/v1","kind":"Shop","name":"books","uid":"parent-uid","controller":true,"blockOwnerDeletion":true}`

// claimed is an object with the label app=x and this metadata.
func claimed(t *testing.T, name, metadata string) *object.Object {
	t.Helper()
	return parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","resourceVersion":"5",`+metadata+`}}`)
}

func TestClaim(t *testing.T) {
	const match, miss, going = `"labels":{"app":"x"}`, `"labels":{"app":"z"}`, `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	owned := []*object.Object{
		claimed(t, "kept", match+`,"ownerReferences":[`+ours+`]`),
		claimed(t, "let-go", miss+`,"ownerReferences":[{"uid":"other"},`+ours+`]`),
		claimed(t, "let-go-alone", miss+`,"ownerReferences":[`+ours+`]`),
		claimed(t, "going", miss+`,`+going+`,"ownerReferences":[`+ours+`]`),
	}
	orphans := []*object.Object{
		claimed(t, "taken", match),
		claimed(t, "taken-beside", match+`,"ownerReferences":[{"uid":"other"},{"uid":"parent-uid"}]`),
		claimed(t, "going-orphan", match+`,`+going),
	}
	for name, c := range map[string]struct{ family, want string }{
		"alive": {"selector: {matchLabels: {app: x}}", `
			child ConfigMap kept
			child ConfigMap going
			release ConfigMap let-go: labels no longer match the parent's selector
			  [{"uid":"other"}]
			release ConfigMap let-go-alone: labels no longer match the parent's selector
			  none
			adopt ConfigMap taken: labels match the parent's selector
			  [` + ours + `]
			adopt ConfigMap taken-beside: labels match the parent's selector
			  [{"uid":"other"},` + ours + `]`},
		"being deleted": {"{selector: {matchLabels: {app: x}}, deleting: true}", `
			child ConfigMap kept
			child ConfigMap let-go
			child ConfigMap let-go-alone
			child ConfigMap going`},
	} {
		t.Run(name, func(t *testing.T) {
			f := plannerOf(t, []byte(c.family))
			claim := must.Get(f.Claim(declared()[0].Resource, owned, orphans)).In(t)
			if diff := cmp.Diff(strings.TrimSpace(strings.ReplaceAll(c.want, "\n\t\t\t", "\n")), describeClaim(claim)); diff != "" {
				t.Error(diff)
			}
			for _, change := range claim.Changes {
				if change.After.Version() != 5 {
					t.Errorf("%s is not bound to the version it was read at", change)
				}
			}
		})
	}
}

func describeClaim(c Claim) string {
	lines := lists.Map(c.Children, func(child *object.Object) string { return "child " + child.Ref().String() })
	for _, change := range c.Changes {
		owners := string(change.After.Field("metadata", "ownerReferences"))
		if owners == "" {
			owners = "none"
		}
		lines = append(lines, change.String(), "  "+owners)
	}
	return strings.Join(lines, "\n")
}

func TestClaimNamesOwnersItCannotRead(t *testing.T) {
	f := plannerOf(t, nil)
	corrupt := claimed(t, "a", `"ownerReferences":[null]`)
	claim, err := f.Claim(declared()[0].Resource, nil, []*object.Object{corrupt})
	if err != nil || len(claim.Changes) != 1 {
		t.Errorf("a null owner is in the way: %v, %v", claim, err)
	}
}

// Fault G11: which deletions are too many.
func TestDeletionLimitExceeded(t *testing.T) {
	for _, c := range []struct {
		name  string
		guard DeletionLimit
		tally DeletionCount
		want  bool
	}{
		{"all tenants", *DefaultDeletionLimit(), DeletionCount{Pending: 12, Children: 12}, true},
		{"3 parents of 3, one of them", *DefaultDeletionLimit(), DeletionCount{Pending: 3, Children: 9}, false},
		{"3 parents of 3, two of them", *DefaultDeletionLimit(), DeletionCount{Pending: 6, Children: 9}, true},
		{"as many as are never held", *DefaultDeletionLimit(), DeletionCount{Pending: 5, Children: 5}, false},
		{"10 of 50", *DefaultDeletionLimit(), DeletionCount{Pending: 10, Children: 50}, false},
		{"a quarter", *DefaultDeletionLimit(), DeletionCount{Pending: 25, Children: 100}, false},
		{"more than a quarter", *DefaultDeletionLimit(), DeletionCount{Pending: 26, Children: 100}, true},
		{"with those made before", *DefaultDeletionLimit(), DeletionCount{Pending: 1, Recent: 25, Children: 100}, true},
		{"nothing wanted", *DefaultDeletionLimit(), DeletionCount{Recent: 100, Children: 100}, false},
		{"held, and as many created meanwhile", *DefaultDeletionLimit(), DeletionCount{Pending: 6, Children: 60, Holding: true}, true},
		{"held, and few are left", *DefaultDeletionLimit(), DeletionCount{Pending: 5, Children: 9, Holding: true}, false},
		{"each one", DeletionLimit{}, DeletionCount{Pending: 1, Children: 1000}, true},
		{"no share too large", DeletionLimit{MaxPercent: 100}, DeletionCount{Pending: 9, Children: 9}, false},
	} {
		if got := c.guard.Exceeded(c.tally); got != c.want {
			t.Errorf("%s: %+v of %+v: exceeded is %v, want %v", c.name, c.tally, c.guard, got, c.want)
		}
	}
}

// Fault G11: recreated children do not count, nor do finished ones.
func TestRemovals(t *testing.T) {
	deletion := func(text, reason string, desired uint64) Action {
		o := parse(t, text)
		return Action{Verb: Delete, Ref: o.Ref(), Before: o, Reason: reason, Desired: desired}
	}
	all := Plan{Stages: [][]Action{
		{
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"running"},"status":{"phase":"Running"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"done"},"status":{"phase":"Succeeded"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"broken"},"status":{"phase":"Failed"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"done"},"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"at-work"},"status":{"conditions":[{"type":"Suspended","status":"True"}]}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"recreated"}}`, "data.a differs", 7),
		},
		{deletion(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`, noLongerDesired, 0)},
		{{Verb: Create, Ref: parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`).Ref(), Reason: "missing"}},
	}}
	counted := lists.Map(all.Removals(), func(a Action) string { return a.Ref.String() })
	if diff := cmp.Diff([]string{"Pod running", "Job at-work", "Namespace tenant"}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	want := "1. delete Pod done: no longer desired\n1. delete Pod broken: no longer desired\n1. delete Job done: no longer desired\n" +
		"1. delete ConfigMap recreated: data.a differs\n2. create ConfigMap new: missing\n"
	if diff := cmp.Diff(want, all.Without(all.Removals()).String()); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

// Fault M13: a hook is checked less often each time its responses are the same, and at every call
// once they differed.
func TestDeterminismCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c DeterminismCheck
	if due, _ := c.Due(1, now); due {
		t.Error("doubted before anything was written")
	}
	var doubted []int
	for call := range 50 {
		now = now.Add(time.Second)
		c.RecordWrite(1, now)
		if due, delayed := c.Due(1, now); due {
			if delayed != (len(doubted) > 0) {
				t.Errorf("call %d: later %v", call+1, delayed)
			}
			doubted = append(doubted, call+1)
			c.RecordResult(false)
		}
	}
	if len(doubted) != 4 || doubted[0] != 5 || doubted[3] != 40 {
		t.Errorf("doubted after %v", doubted)
	}
	c.RecordResult(true)
	if due, _ := c.Due(1, now); !due {
		t.Error("not doubted after a difference was found")
	}
	if due, _ := c.Due(2, now); due {
		t.Error("doubted although the parent was changed")
	}
	if due, _ := c.Due(1, now.Add(2*flappingWindow)); due {
		t.Error("doubted after a long rest")
	}
}

func TestResponseDifference(t *testing.T) {
	child := func(name, data string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"n"},"spec":` + data + `}`)
	}
	text := "x"
	of := func(children ...json.RawMessage) hook.Response { return hook.Response{Children: children} }
	for name, c := range map[string]struct {
		first, second hook.Response
		want          string
	}{
		"same":               {of(child("a", `{"cpu":"1"}`)), of(child("a", `{"cpu":"1"}`)), ""},
		"a quantity":         {of(child("a", `{"cpu":"1"}`)), of(child("a", `{"cpu":"1000m"}`)), ""},
		"in another order":   {of(child("a", `{}`), child("b", `{}`)), of(child("b", `{}`), child("a", `{}`)), ""},
		"behind a quantity":  {of(child("a", `{"cpu":"1","z":[1]}`)), of(child("a", `{"cpu":"1000m","z":[2]}`)), "Pod n/a: spec.z[0]"},
		"another name":       {of(child("a", `{}`)), of(child("b", `{}`)), "Pod n/a: only in one response"},
		"one more":           {of(), of(child("b", `{}`)), "the number of children"},
		"the status":         {hook.Response{Status: json.RawMessage(`{"at":1}`)}, hook.Response{Status: json.RawMessage(`{"at":2}`)}, "status.at"},
		"a status":           {hook.Response{}, hook.Response{Status: json.RawMessage(`{"at":2}`)}, "status.at"},
		"a label":            {hook.Response{}, hook.Response{Labels: map[string]*string{"a": &text}}, "labels.a"},
		"a label removed":    {hook.Response{Labels: map[string]*string{"a": nil}}, hook.Response{Labels: map[string]*string{"a": &text}}, "labels.a"},
		"both have the same": {hook.Response{Labels: map[string]*string{"a": &text}}, hook.Response{Labels: map[string]*string{"a": &text}}, ""},
	} {
		if got := ResponseDifference(&c.first, &c.second); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestCompare reads before.yaml and after.yaml, and compares the result with diff.txt.
func TestCompare(t *testing.T) {
	eachVector(t, "testdata/diff/*.txtar", func(t *testing.T, files map[string][]byte) string {
		read := func(name string) *object.Object {
			if one := treeOf(t, files[name]); one != nil {
				return parse(t, jsonOf(t, one))
			}
			return nil
		}
		before, after := read("before.yaml"), read("after.yaml")
		text := linesOf(t)(Compare(before, after))
		if strings.Contains(text, "s3cret") || strings.Contains(text, "czNjcmV0") {
			t.Error("a secret is shown")
		}
		if same := linesOf(t)(Compare(after, after)); same != "nothing\n" {
			t.Errorf("an object differs from itself: %s", same)
		}
		return text
	})
}

func linesOf(t *testing.T) func([]object.FieldChange, error) string {
	return func(changes []object.FieldChange, err error) string {
		t.Helper()
		must.Succeed(t, err)
		if len(changes) == 0 {
			return "nothing\n"
		}
		var text strings.Builder
		for _, c := range changes {
			if c.From != nil {
				text.WriteString("- " + c.Path + ": " + string(c.From) + "\n")
			}
			if c.To != nil {
				text.WriteString("+ " + c.Path + ": " + string(c.To) + "\n")
			}
		}
		return text.String()
	}
}

func TestDiffOfEachVerb(t *testing.T) {
	before := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","ownerReferences":[{"uid":"other","name":"o"}]},"data":{"a":"1","theirs":"2"}}`)
	after := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","ownerReferences":[{"uid":"other","name":"o"}]},"data":{"a":"2"}}`)
	applied := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"uid":"parent","name":"p"}]},"data":{"a":"2","b":"3"}}`)
	whole := `- apiVersion: "v1"` + "\n" + `- data.a: "1"`
	for name, c := range map[string]struct {
		action Action
		want   string
	}{
		"create": {Action{Verb: Create, After: applied}, `+ data.a: "2"`},
		"update": {Action{Verb: Update, Before: before, After: after}, "- data.a: \"1\"\n+ data.a: \"2\"\n- data.theirs: \"2\"\n"},
		"apply": {Action{Verb: Apply, Before: before, After: applied},
			"- data.a: \"1\"\n+ data.a: \"2\"\n+ data.b: \"3\"\n" +
				"+ metadata.ownerReferences[name=p].name: \"p\"\n+ metadata.ownerReferences[name=p].uid: \"parent\"\n"},
		"recreate":              {Action{Verb: Delete, DryRunVerb: Update, Before: before, After: after}, "- data.a: \"1\"\n+ data.a: \"2\"\n- data.theirs: \"2\"\n"},
		"recreate, server-side": {Action{Verb: Delete, DryRunVerb: Apply, Before: before, After: applied}, "- data.a: \"1\"\n+ data.a: \"2\"\n+ data.b: \"3\"\n"},
		"delete":                {Action{Verb: Delete, Before: before}, whole},
	} {
		if got := linesOf(t)(Diff(c.action)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	const one = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"1"},"spec":{"containers":[{"name":"c"},{"name":"d"}]}}`
	for text, want := range map[string]bool{
		one: true,
		`{"spec":{"containers":[{"name":"c"},{"name":"d"}]},"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"2","generation":1,"annotations":{"setpoint.dev/applied":"x"},"name":"a"}}`: true,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"d"},{"name":"c"}]}}`:                                                                                 false,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"x":"z"}},"spec":{"containers":[{"name":"c"},{"name":"d"}]}}`:                                                         false,
	} {
		if got, err := Same(parse(t, one), parse(t, text)); err != nil || got != want {
			t.Errorf("the same as %s: %v, %v", text, got, err)
		}
	}
}

func TestFlapping(t *testing.T) {
	config := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"town","uid":"u"}}`)
	update := func(desired uint64, reason string) Action {
		return Action{Verb: Update, Resource: config, Ref: child.Ref(), Before: child, Desired: desired, Reason: reason}
	}
	same := update(1, "data.a differs")
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wrote := func(a Action, after time.Duration) bool {
		now = now.Add(after)
		return f.RecordWrite(a, now) != nil
	}
	throttled := func(a Action) time.Duration {
		_, until := f.Throttle(Plan{Stages: [][]Action{{a}}}, now)
		if until.IsZero() {
			return 0
		}
		return until.Sub(now)
	}

	for range flappingWrites - 1 {
		if wrote(same, time.Second) || throttled(same) != 0 {
			t.Fatal("left alone before it was written too often")
		}
	}
	if !wrote(same, time.Second) || throttled(same) != minFlappingBackoff {
		t.Fatalf("rests %v", throttled(same))
	}
	if throttled(update(2, "data.a differs")) != 0 {
		t.Error("another desired child has to wait")
	}
	if throttled(Action{Verb: Delete, Before: child, Reason: noLongerDesired}) != 0 || throttled(Action{Verb: Create, Ref: child.Ref()}) != 0 {
		t.Error("what brings nothing in line has to wait")
	}
	for _, want := range []time.Duration{20 * time.Second, maxFlappingBackoff, maxFlappingBackoff} {
		if !wrote(same, throttled(same)) || throttled(same) != want {
			t.Fatalf("rests %v, want %v", throttled(same), want)
		}
	}
	fits := f.Children(now)
	if len(fits) != 1 || fits[0].Reason != "data.a differs" || fits[0].Until.Sub(now) != maxFlappingBackoff {
		t.Fatalf("%+v", fits)
	}
	now = fits[0].ExpiresAt
	if len(f.Children(now)) != 0 || throttled(same) != 0 || wrote(same, 0) {
		t.Error("not forgotten when it has been quiet")
	}
}

func TestRareWritesAreNotFlapping(t *testing.T) {
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"u"}}`)
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 100 {
		now = now.Add(20 * time.Second)
		if f.RecordWrite(Action{Verb: Update, Before: child, Desired: 1, Reason: "data.a differs"}, now) != nil {
			t.Fatal("counts as flapping")
		}
	}
}

// A child that is recreated has another UID each time.
func TestRecreatedChildrenAreFlapping(t *testing.T) {
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range flappingWrites {
		now = now.Add(time.Second)
		for _, name := range []string{"b", "a"} {
			child := parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":"u-%s-%d"}}`, name, name, i))
			recreate := Action{Verb: Delete, DryRunVerb: Apply, Ref: child.Ref(), Before: child, Desired: 1, Reason: "data." + name + " differs"}
			flapping := f.RecordWrite(recreate, now)
			if want := i == flappingWrites-1; (flapping != nil) != want {
				t.Fatalf("write %d of %s: throttled %v, want %v", i, name, flapping, want)
			}
			if flapping != nil {
				flapping.Manager = "kubectl-" + name
			}
		}
	}
	all := f.Children(now)
	if len(all) != 2 || all[0].Ref.Name != "a" || all[0].Reason != "data.a differs" || all[1].Manager != "kubectl-b" {
		t.Errorf("%+v", all)
	}
}

// TestFlappingIsSmall limits the memory of a child that was written once.
func TestFlappingIsSmall(t *testing.T) {
	const parents, limit = 2000, 200
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"u"}}`)
	update := Action{Verb: Update, Ref: child.Ref(), Before: child, Desired: 1, Reason: "data.a differs"}
	all := make([]Flapping, parents)
	held := heaptest.Held(func() {
		for i := range all {
			all[i].RecordWrite(update, time.Unix(int64(i), 0))
		}
	})
	if held/parents > limit {
		t.Errorf("%d bytes per child, want at most %d", held/parents, limit)
	}
	runtime.KeepAlive(all)
}
