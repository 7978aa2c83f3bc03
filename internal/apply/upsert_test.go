package apply_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// upsertFixture applies objects without a plan, as handlers do.
type upsertFixture struct {
	*cluster
	writer *apply.Writer
}

func newUpsertFixture(t *testing.T) *upsertFixture {
	c := newCluster(t)
	return &upsertFixture{c, c.writer(apply.Options{})}
}

// create and apply return the requests that they send.
func (u *upsertFixture) create(resource object.Resource, text string) []string {
	return u.logged(func(o *object.Object) error {
		_, err := u.writer.Create(u.t.Context(), resource, o, "rates")
		return err
	}, text)
}

func (u *upsertFixture) apply(resource object.Resource, text string) []string {
	return u.logged(func(o *object.Object) error {
		_, err := u.writer.Apply(u.t.Context(), resource, o, "rates")
		return err
	}, text)
}

func (u *upsertFixture) logged(write func(*object.Object) error, text string) []string {
	u.t.Helper()
	before := len(u.log)
	if err := write(parse(u.t, text)); err != nil {
		u.t.Error(err)
	}
	var words []string
	for _, line := range u.log[before:] {
		_, word, _ := strings.Cut(line, ": ")
		words = append(words, word)
	}
	return words
}

func (u *upsertFixture) stored(key, member string) string {
	return string(must.Get(json.Marshal(u.objects[key].Object[member])).In(u.t))
}

// A created field that is no longer applied is removed, and fields of others stay. If no field is
// removed, one apply is enough.
func TestCreatedObjectsAreAppliedLater(t *testing.T) {
	u := newUpsertFixture(t)
	const head = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town","labels":{"l":"1"}},"data":`
	for _, step := range []struct {
		write    func(object.Resource, string) []string
		text     string
		requests []string
		data     string
	}{
		{u.create, head + `{"a":"1","b":"1"}}`, []string{"POST"}, `{"a":"1","b":"1"}`},
		{u.apply, head + `{"a":"2","b":"1"}}`, []string{"apply-patch"}, `{"a":"2","b":"1"}`},
		{u.apply, head + `{"a":"3"}}`, []string{"apply-patch", "json-patch", "apply-patch"}, `{"a":"3"}`},
		{u.apply, head + `{"a":"3","c":"1"}}`, []string{"apply-patch"}, `{"a":"3","c":"1"}`},
		{u.apply, head + `{"a":"3"}}`, []string{"apply-patch"}, `{"a":"3"}`},
	} {
		requests := step.write(kindOf["configmaps"], step.text)
		if data := u.stored("configmaps/a", "data"); data != step.data || !slices.Equal(requests, step.requests) {
			t.Errorf("%s: data %s after %q, want %s after %q", step.text, data, requests, step.data, step.requests)
		}
	}
}

// A take over leaves the fields of others alone.
func TestFieldsOfOtherManagersStay(t *testing.T) {
	u := newUpsertFixture(t)
	const name = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town"},"data":`
	u.create(kindOf["configmaps"], name+`{"a":"1","b":"1"}}`)
	k := &testController{cluster: u.cluster}
	k.editAs("kubectl-edit", "configmaps/a", map[string]any{"data": map[string]any{"b": "theirs", "c": "theirs"}})
	requests := u.apply(kindOf["configmaps"], name+`{"a":"1"}}`)
	if data := u.stored("configmaps/a", "data"); data != `{"a":"1","b":"theirs","c":"theirs"}` || len(requests) != 1 {
		t.Errorf("data %s after %q", data, requests)
	}
}

// A field that was set and is not any more gets its default again.
func TestDefaultsAreTakenOverOnce(t *testing.T) {
	u := newUpsertFixture(t)
	deployment := func(spec string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"town"},"spec":{` + spec +
			`"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"main","image":"i"}]}}}}`
	}
	deployments := kindOf["deployments"]
	u.create(deployments, deployment(`"replicas":3,"minReadySeconds":5,`))
	if requests := u.apply(deployments, deployment(`"replicas":3,`)); len(requests) != 3 || strings.Contains(u.stored("deployments/a", "spec"), "minReadySeconds") {
		t.Errorf("%q left %s", requests, u.stored("deployments/a", "spec"))
	}
	if requests := u.apply(deployments, deployment(`"replicas":4,`)); len(requests) != 1 || !strings.Contains(u.stored("deployments/a", "spec"), `"replicas":4`) {
		t.Errorf("%q left %s", requests, u.stored("deployments/a", "spec"))
	}
}

// A dry run cannot take over fields.
func TestADryRunTakesOverNothing(t *testing.T) {
	u := newUpsertFixture(t)
	const name = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town"},"data":`
	u.create(kindOf["configmaps"], name+`{"a":"1","b":"1"}}`)
	u.writer = u.cluster.writer(apply.Options{DryRun: true})
	if requests := u.apply(kindOf["configmaps"], name+`{"a":"2"}}`); !slices.Equal(requests, []string{"apply-patch, dry"}) {
		t.Errorf("sent %q", requests)
	}
}

// The result of an update that an apply had to follow says why, and has the version that the update stored.
func TestUpdatesOfCoOwnedObjects(t *testing.T) {
	desired := func(value string) []json.RawMessage {
		return []json.RawMessage{[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"` + value + `","both":"x"}}`)}
	}
	for name, coOwned := range map[string]bool{"alone": false, "with kubectl": true} {
		t.Run(name, func(t *testing.T) {
			k := newTestController(t, "setpoint.dev/applied-fields", true)
			k.setRules(rules(plan.InPlace, plan.ServerSide))
			k.reconcile(desired("1"))
			if coOwned {
				k.applyAs("kubectl", "configmaps/a", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": "a"}, "data": map[string]any{"both": "x"}})
			}
			results := k.cluster.writer(apply.Options{}).ApplyPlan(t.Context(), k.plan(desired("2")))
			if len(results) != 1 || results[0].Err != nil || results[0].Action.Update == nil {
				t.Fatalf("%+v", results)
			}
			result := results[0]
			if result.CoOwned != coOwned || (result.Updated != nil) != coOwned {
				t.Errorf("co-owned %v, updated %v", result.CoOwned, result.Updated)
			}
			if coOwned && result.Updated.Version() >= result.Stored.Version() {
				t.Errorf("the update stored version %d, the apply %d", result.Updated.Version(), result.Stored.Version())
			}
		})
	}
}

// Whatever the desired objects, the methods, the strategies and the edits of others are, an applied
// plan leaves nothing to do. After a restart, each child takes at most one write, which changes
// only managed fields. An existing object of another owner stays as it is.
func TestConverges(t *testing.T) {
	seeded(t, func(w generator, seed uint64) {
		k := newTestController(t, "metacontroller.k8s.io/last-applied-configuration", w.IntN(2) == 0)
		k.create("configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"k":"theirs"}}`)
		for turn := range 4 {
			method, strategy := plan.InPlace, plan.Merge
			if w.IntN(3) == 0 {
				method = plan.Recreate
			}
			if w.IntN(2) == 0 {
				strategy = plan.ServerSide
			}
			k.setRules(rules(method, strategy))
			response := w.response()
			k.reconcile(append(response, w.object("v1", "ConfigMap", "theirs", map[string]any{"data": map[string]any{"k": "ours"}})))
			k.reconcile(response)
			k.checkRestart(response)
			for key, edit := range w.edits() {
				k.editAs("others", key, edit)
			}
			k.add(w)
			k.reconcile(response)
			if t.Failed() {
				t.Fatalf("seed %d, turn %d: %s %s\n%s\nwish: %s", seed, turn, method, strategy, k.show(), response)
			}
		}
		if theirs := k.objects["configmaps/theirs"]; theirs.GetResourceVersion() != "1" {
			t.Errorf("seed %d: the object of another owner was written", seed)
		}
	})
}

// checkRestart drops the known up-to-date children and applies the resulting plan.
func (k *testController) checkRestart(response []json.RawMessage) {
	k.t.Helper()
	before := map[string]string{}
	for _, o := range k.observed() {
		before[o.Ref().String()] = normalize(o.JSON())
	}
	clear(k.upToDate)
	p := k.plan(response)
	touched := map[string]bool{}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if touched[action.Ref.String()] {
				k.t.Errorf("%s: written twice", action)
			}
			touched[action.Ref.String()] = true
		}
	}
	k.apply(p)
	for _, o := range k.observed() {
		if now := normalize(o.JSON()); now != before[o.Ref().String()] {
			k.t.Errorf("a restart changed %s\nfrom %s\nto   %s", o.Ref(), before[o.Ref().String()], now)
		}
	}
	if again := k.plan(response); !again.Empty() {
		k.t.Errorf("after a restart and a turn there is still to do:\n%s", again)
	}
}
