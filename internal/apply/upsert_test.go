package apply_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
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
		_, err := u.writer.CreateFor(u.t.Context(), resource, o, "rates")
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
	text := must.Get(json.Marshal(u.objects[key].Object[member])).In(u.t)
	return string(text)
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
