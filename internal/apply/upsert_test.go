package apply_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	must.Succeed(u.t, write(parse(u.t, text)))
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

// applying returns an action on an object with resource version 8.
func applying(t *testing.T, verb plan.Verb) plan.Action {
	t.Helper()
	before, after := parse(t, stored), parse(t, wanted)
	a := plan.Action{Verb: verb, Resource: configMaps, Ref: before.Ref(), Before: before, After: after, Manager: "mine", Desired: 1}
	if verb == plan.Delete {
		a.DryRunVerb = plan.Apply
	}
	return a
}

func applyOne(t *testing.T, w *apply.Writer, a plan.Action) apply.Result {
	t.Helper()
	return w.ApplyPlan(t.Context(), plan.Plan{Stages: [][]plan.Action{{a}}})[0]
}

func TestApplyRequests(t *testing.T) {
	var s server
	result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(http.StatusOK, stored)), applying(t, plan.Apply))
	const want = "PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine&force=true " + wanted
	if result.Err != nil || result.Stored.Version() != 8 || strings.Join(s.requests, "\n") != want {
		t.Errorf("sent %q, want %q: %v", s.requests, want, result.Err)
	}
}

// A take over requires the version that was read, and keeps fields that it does not know.
func TestATakeOverNamesFormerManagers(t *testing.T) {
	a := applying(t, plan.Apply)
	a.TakeOver = &plan.TakeOver{From: []plan.PreviousManager{{Name: "mine"}}, RemoveAnnotations: []string{"example.org/applied~1", "not/there"}}
	s, w := newServer(t, apply.Options{}, writeJSON(http.StatusOK, `{"metadata":{"name":"a","uid":"u-1","resourceVersion":"9","annotations":{"example.org/applied~1":"x"},"managedFields":[`+
		`{"manager":"mine","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]}}`))
	if result := applyOne(t, w, a); result.Err != nil {
		t.Fatal(result.Err)
	}
	want := []string{
		"GET /api/v1/namespaces/town/configmaps/a",
		"PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine " +
			`[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"mine","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]},` +
			`{"op":"remove","path":"/metadata/annotations/example.org~1applied~01"},{"op":"replace","path":"/metadata/resourceVersion","value":"9"}]`,
		"PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine&force=true " + wanted,
	}
	if got := strings.Join(s.requests, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if observed := strings.Join(s.observed, ", "); observed != "get configmaps.v1 ok, take_over configmaps.v1 ok, apply configmaps.v1 ok" {
		t.Errorf("observed %s", observed)
	}
}

// An apply to another object with the same name is a conflict.
func TestAnApplyOfAnotherObjectConflicts(t *testing.T) {
	immutable := strings.Replace(status(422, "Invalid", "metadata.uid: Invalid value: field is immutable", "FieldValueInvalid"), "metadata.namespace", "metadata.uid", 1)
	var s server
	if result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(http.StatusUnprocessableEntity, immutable)), applying(t, plan.Apply)); !apply.Conflict(result.Err) {
		t.Errorf("another UID: %v", result.Err)
	}
	a := applying(t, plan.Apply)
	a.TakeOver = &plan.TakeOver{}
	w := s.writer(t, apply.Options{}, writeJSON(http.StatusOK, `{"metadata":{"name":"a","uid":"another","resourceVersion":"9"}}`))
	if result := applyOne(t, w, a); !apply.Conflict(result.Err) {
		t.Errorf("another UID, when taking over: %v", result.Err)
	}
	if len(s.requests) != 2 {
		t.Errorf("sent %q", s.requests)
	}
}

// A child that was replaced after its apply was rejected is a conflict too: what was rejected was about another object.
func TestAReplacedObjectConflicts(t *testing.T) {
	rejected := strings.Replace(status(422, "Invalid", "may not be specified", "FieldValueForbidden"), "metadata.namespace", "data.x", 1)
	_, w := newServer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			writeJSON(http.StatusOK, `{"metadata":{"name":"a","uid":"another","resourceVersion":"9"}}`)(w, r)
			return
		}
		writeJSON(http.StatusUnprocessableEntity, rejected)(w, r)
	})
	if result := applyOne(t, w, applying(t, plan.Apply)); !apply.Conflict(result.Err) {
		t.Errorf("replaced: %v", result.Err)
	}
}

// Neither a stale object nor an error proves that a child differs.
func TestNothingIsDeletedFromAStaleCache(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		body     string
		takeOver bool
		conflict bool
	}{
		"changed meanwhile":              {http.StatusConflict, status(409, "Conflict", "the object has been modified", ""), false, true},
		"changed before the taking over": {http.StatusOK, `{"metadata":{"name":"a","uid":"u-1","resourceVersion":"9"}}`, true, true},
		"broken":                         {http.StatusInternalServerError, status(500, "InternalError", "etcdserver: no leader", ""), false, false},
		"gone":                           {http.StatusNotFound, status(404, "NotFound", "not found", ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			a := applying(t, plan.Delete)
			if c.takeOver {
				a.TakeOver = &plan.TakeOver{}
			}
			result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(c.code, c.body)), a)
			if result.Err == nil || apply.Conflict(result.Err) != c.conflict {
				t.Errorf("got %v", result.Err)
			}
			if len(s.requests) != 1 || strings.HasPrefix(s.requests[0], "DELETE") {
				t.Errorf("sent %q", s.requests)
			}
		})
	}
}

// Every write has dryRun where the server looks for it.
func TestADryRunStoresNothing(t *testing.T) {
	for _, verb := range []plan.Verb{plan.Create, plan.Update, plan.Apply, plan.Delete} {
		a := applying(t, verb)
		a.TakeOver = &plan.TakeOver{From: []plan.PreviousManager{{Name: "mine"}}}
		s, w := newServer(t, apply.Options{DryRun: true}, writeJSON(http.StatusOK, strings.Replace(stored, `"uid"`,
			`"managedFields":[{"manager":"mine","operation":"Update","fieldsV1":{"f:data":{}}}],"uid"`, 1)))
		if result := applyOne(t, w, a); result.Err != nil {
			t.Errorf("%s: %v", verb, result.Err)
		}
		for _, request := range s.requests {
			said := "dryRun=All"
			if strings.HasPrefix(request, "DELETE") {
				said = `"dryRun":["All"]` // A deletion has it in the body.
			}
			if !strings.HasPrefix(request, "GET") && strings.Count(request, said) != 1 {
				t.Errorf("%s: sent %s", verb, request)
			}
		}
	}
}

// setDefaults sets some of the defaults that the API server sets.
func setDefaults(o runtime.Object) {
	switch o := o.(type) {
	case *corev1.Secret:
		o.Type = cmp.Or(o.Type, corev1.SecretTypeOpaque)
		for key, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	case *corev1.Service:
		o.Spec.ClusterIP = cmp.Or(o.Spec.ClusterIP, "10.0.0.7")
		o.Spec.SessionAffinity = cmp.Or(o.Spec.SessionAffinity, corev1.ServiceAffinityNone)
		for i := range o.Spec.Ports {
			port := &o.Spec.Ports[i]
			port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
			if port.TargetPort == (intstr.IntOrString{}) {
				port.TargetPort = intstr.FromInt32(port.Port)
			}
		}
	case *corev1.Pod:
		defaultPod(&o.Spec)
	case *appsv1.Deployment:
		setIfNil(&o.Spec.Replicas, 1)
		setIfNil(&o.Spec.ProgressDeadlineSeconds, 600)
		o.Spec.Strategy.Type = cmp.Or(o.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if o.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType && o.Spec.Strategy.RollingUpdate == nil {
			quarter := intstr.FromString("25%")
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
		}
		defaultPod(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		setIfNil(&o.Spec.Replicas, 1)
		defaultPod(&o.Spec.Template.Spec)
		for i := range o.Spec.VolumeClaimTemplates {
			claim := &o.Spec.VolumeClaimTemplates[i]
			claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
			setIfNil(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			claim.Status.Phase = cmp.Or(claim.Status.Phase, corev1.ClaimPending)
		}
	case *networkingv1.NetworkPolicy:
		for i := range o.Spec.Ingress {
			for j := range o.Spec.Ingress[i].Ports {
				setIfNil(&o.Spec.Ingress[i].Ports[j].Protocol, corev1.ProtocolTCP)
			}
		}
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultPod(spec *corev1.PodSpec) {
	spec.DNSPolicy = cmp.Or(spec.DNSPolicy, corev1.DNSClusterFirst)
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.Volumes {
		if source := spec.Volumes[i].DownwardAPI; source != nil {
			setIfNil(&source.DefaultMode, 0o644)
			for j := range source.Items {
				if ref := source.Items[j].FieldRef; ref != nil {
					ref.APIVersion = cmp.Or(ref.APIVersion, "v1")
				}
			}
		}
		if source := spec.Volumes[i].ConfigMap; source != nil {
			setIfNil(&source.DefaultMode, 0o644)
		}
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
}

func defaultContainer(c *corev1.Container) {
	c.ImagePullPolicy = cmp.Or(c.ImagePullPolicy, corev1.PullIfNotPresent)
	c.TerminationMessagePath = cmp.Or(c.TerminationMessagePath, "/dev/termination-log")
	for i := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			from.FieldRef.APIVersion = cmp.Or(from.FieldRef.APIVersion, "v1")
		}
	}
}
