package controlplane_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// TestDashboard tests package userclient with a real API server.
func TestDashboard(t *testing.T) {
	c := start(t, controlplane.Options{})
	c.apply(dashboardManifest)
	c.await("condition=Established", "crd/guitars.kool.example.org")
	c.await("condition=Established", "crd/amps.kool.example.org")
	w := newDashboardTest(c)
	w.served("guitars", "amps")
	for _, test := range []struct {
		name string
		run  func(*dashboardTest)
	}{
		{"tells whose a token is", identifiesTokens},
		{"finds kinds", findsKinds},
		{"finds kinds that come later", findsLaterKinds},
		{"prints tables", printsTables},
		{"writes", writes},
		{"explains refusals", explainsErrors},
		{"lets the cluster decide", usesDryRun},
		{"reads schemas", readsSchemas},
		{"shows events", showsEvents},
		{"shows dependents", showsDependents},
		{"notices changes", watchesChanges},
		{"survives the API server", survivesServerRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(w.on(t)) })
	}
	c.stop()
}

const dashboardManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: guitars.kool.example.org}
spec:
  group: kool.example.org
  scope: Namespaced
  names: {kind: Guitar, plural: guitars, singular: guitar, shortNames: [guit]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Brand, type: string, jsonPath: .spec.brand, description: Who built it.}
    - {name: Strings, type: integer, jsonPath: .spec.strings}
    - {name: Wood, type: string, jsonPath: .spec.wood, priority: 1}
    schema:
      openAPIV3Schema:
        description: A Guitar is an instrument.
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [brand]
            properties:
              brand: {type: string, enum: [fender, gibson]}
              strings: {type: integer, minimum: 4, maximum: 12, default: 6}
              wood: {type: string}
            x-kubernetes-validations:
            - {rule: "self.strings != 5", message: five strings are a bass}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: amps.kool.example.org}
spec:
  group: kool.example.org
  scope: Cluster
  names: {kind: Amp, plural: amps}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules:
- {apiGroups: [kool.example.org], resources: [guitars], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: default}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: rita}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}
`

// dashboardTest is an API server as users of the dashboard see it.
type dashboardTest struct {
	cluster
	api   *userclient.Cluster
	wrote *[]string
}

func newDashboardTest(c cluster) *dashboardTest {
	config := must.Get(clientcmd.BuildConfigFromFlags("", c.Kubeconfig())).In(c.t)
	w := &dashboardTest{cluster: c, wrote: new([]string)}
	w.api = must.Get(userclient.NewCluster(config)).In(c.t)
	w.api.OnWrite = func(user, verb string, ref object.Ref, err error, took time.Duration) {
		*w.wrote = append(*w.wrote, fmt.Sprintf("%s %s %s/%s %v", user, verb, ref.Plural, ref.Name, err == nil && took > 0))
	}
	return w
}

func (w *dashboardTest) on(t *testing.T) *dashboardTest {
	return &dashboardTest{cluster: w.cluster.on(t), api: w.api, wrote: w.wrote}
}

func (w *dashboardTest) ctx() context.Context { return w.t.Context() }

func (w *dashboardTest) as(u userclient.User) *userclient.Client {
	w.t.Helper()
	return must.Get(w.api.Client(u)).In(w.t)
}

// admin returns a client that may do everything.
func (w *dashboardTest) admin() *userclient.Client {
	return w.as(userclient.User{Name: "dev", OwnCredentials: true})
}

func (w *dashboardTest) kind(name string) object.Kind {
	w.t.Helper()
	return must.Get(w.admin().FindKind(w.ctx(), name)).In(w.t)
}

// served waits until the API server serves kinds.
func (w *dashboardTest) served(names ...string) {
	w.t.Helper()
	proctest.Eventually(w.t, waitTimeout, func() error {
		for _, name := range names {
			kind, err := w.admin().FindKind(w.ctx(), name)
			if err == nil { // It is described a moment later.
				_, _, err = w.admin().Schema(w.ctx(), kind)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func guitar(name, spec string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"kool.example.org/v1","kind":"Guitar","metadata":{"name":%q},"spec":%s}`, name, spec)
}

func (w *dashboardTest) makeGuitar(name, spec string) object.Ref {
	w.t.Helper()
	kind := w.kind("guitars")
	stored := must.Get(w.admin().Create(w.ctx(), kind, "default", guitar(name, spec), userclient.WriteOptions{})).In(w.t)
	ref := object.Ref{Kind: kind, Namespace: "default", Name: name, UID: w.meta(stored).UID}
	w.t.Cleanup(func() {
		_ = w.admin().Delete(context.Background(), kind, "default", name, userclient.DeleteOptions{UID: ref.UID})
	})
	return ref
}

type meta struct{ Name, UID, ResourceVersion string }

func (w *dashboardTest) meta(object json.RawMessage) meta {
	w.t.Helper()
	var o struct{ Metadata meta }
	must.Succeed(w.t, json.Unmarshal(object, &o))
	return o.Metadata
}

func (w *dashboardTest) equal(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		w.t.Errorf("%s: got  %+v\n\twant %+v", what, got, want)
	}
}

func identifiesTokens(w *dashboardTest) {
	token := w.kubectl("create", "token", "reader")
	u := must.Get(w.api.Verify(w.ctx(), token)).In(w.t)
	w.equal("name", u.Name, "system:serviceaccount:default:reader")
	w.equal("token is kept", u.Token == token, true)
	for _, bad := range []string{"", "nonsense", token + "x", "a\r\nb: c"} {
		if u, err := w.api.Verify(w.ctx(), bad); !errors.Is(err, userclient.ErrBadToken) {
			w.t.Errorf("the token %q is that of %+v: %v", bad, u, err)
		}
	}
}

func findsKinds(w *dashboardTest) {
	for name, want := range map[string]string{
		"guitars": "kool.example.org/v1/guitars/Guitar/true", "guitars.kool.example.org": "kool.example.org/v1/guitars/Guitar/true",
		"guitars.v1.kool.example.org": "kool.example.org/v1/guitars/Guitar/true", "guit": "kool.example.org/v1/guitars/Guitar/true",
		"Guitar": "kool.example.org/v1/guitars/Guitar/true", "amps": "kool.example.org/v1/amps/Amp/false",
		"pods": "/v1/pods/Pod/true", "po": "/v1/pods/Pod/true", "namespace": "/v1/namespaces/Namespace/false",
		"deployments.v1.apps": "apps/v1/deployments/Deployment/true", "deploy": "apps/v1/deployments/Deployment/true",
		"events": "/v1/events/Event/true", "events.events.k8s.io": "events.k8s.io/v1/events/Event/true",
		"guitars.v2.kool.example.org": "", "pods.v1": "", "pods.apps": "", "nothing": "", "": "", ".": "", "../pods": "",
	} {
		kind, err := w.admin().FindKind(w.ctx(), name)
		if want == "" {
			w.equal(name+" is not served", errors.Is(err, failure.ErrNotFound), true)
			continue
		}
		w.equal(name, fmt.Sprintf("%s/%s/%s/%s/%v %v", kind.Group, kind.Version, kind.Plural, kind.Kind, kind.Namespaced, err), want+" <nil>")
	}
	kinds, err := w.admin().Kinds(w.ctx())
	if err != nil || !slices.Contains(kinds, w.kind("guitars")) || slices.ContainsFunc(kinds, func(k object.Kind) bool { return strings.HasSuffix(k.Plural, "reviews") }) {
		w.t.Errorf("kinds that can be listed: %v, %v", kinds, err)
	}
	namespaces, err := w.admin().Namespaces(w.ctx())
	w.equal("namespaces", fmt.Sprint(slices.Contains(namespaces, "kube-system"), err), "true <nil>")
}

func findsLaterKinds(w *dashboardTest) {
	if _, err := w.admin().FindKind(w.ctx(), "basses"); !errors.Is(err, failure.ErrNotFound) {
		w.t.Errorf("there are basses already: %v", err)
	}
	w.apply(strings.NewReplacer("guitar", "bass", "Guitar", "Bass", "shortNames: [guit]", "").Replace(
		strings.ReplaceAll(strings.SplitN(dashboardManifest, "---", 2)[0], "guitars", "basses")))
	proctest.Eventually(w.t, waitTimeout, func() error {
		_, err := w.admin().FindKind(w.ctx(), "basses")
		return err
	})
}

func printsTables(w *dashboardTest) {
	for _, name := range []string{"a", "b", "c"} {
		w.makeGuitar(name, `{"brand":"fender","strings":12,"wood":"alder"}`)
	}
	table := must.Get(w.admin().Table(w.ctx(), w.kind("guitars"), "default", metav1.ListOptions{Limit: 2})).In(w.t)
	var columns []string
	for _, column := range table.Columns {
		columns = append(columns, fmt.Sprint(column.Name, " ", column.Type, " ", column.Priority))
	}
	w.equal("columns", columns, []string{"Name string 0", "Brand string 0", "Strings integer 0", "Wood string 1"})
	w.equal("description", table.Columns[1].Description, "Who built it.")
	w.equal("rows", len(table.Rows), 2)
	w.equal("cells", table.Rows[0].Cells, []string{"a", "fender", "12", "alder"})
	w.equal("row", fmt.Sprint(table.Rows[1].Namespace, "/", table.Rows[1].Name, table.Rows[1].UID != "", table.Rows[1].Created.IsZero()), "default/btrue false")
	w.equal("remaining", table.Remaining, 1)
	table, err := w.admin().Table(w.ctx(), w.kind("guitars"), "default", metav1.ListOptions{Limit: 2, Continue: table.Continue})
	w.equal("second page", fmt.Sprint(len(table.Rows), table.Continue == "", err), "1 true <nil>")
	table, err = w.admin().Table(w.ctx(), w.kind("guitars"), "", metav1.ListOptions{FieldSelector: "metadata.name=b"})
	w.equal("by a field", fmt.Sprint(len(table.Rows), err), "1 <nil>")
	table, err = w.admin().Table(w.ctx(), w.kind("guitars"), "", metav1.ListOptions{LabelSelector: "a=b"})
	w.equal("by a label", fmt.Sprint(len(table.Rows), err), "0 <nil>")
	_, err = w.admin().Table(w.ctx(), w.kind("guitars"), "", metav1.ListOptions{LabelSelector: "a=b=c=!"})
	w.equal("by nonsense", codeOf(err), http.StatusBadRequest)
}

func writes(w *dashboardTest) {
	guitars := w.kind("guitars")
	*w.wrote = nil
	ref := w.makeGuitar("tele", `{"brand":"fender"}`)
	stored, err := w.admin().Get(w.ctx(), guitars, "default", "tele")
	w.equal("default is stored", fmt.Sprint(strings.Contains(string(stored), `"strings":6`), err), "true <nil>")
	w.equal("manager", strings.Contains(string(stored), `"manager":"setpoint-dashboard"`), true)

	read := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"strings":7}}`, w.meta(stored).ResourceVersion)
	must.Get(w.admin().Patch(w.ctx(), ref, types.MergePatchType, read, userclient.WriteOptions{})).In(w.t)
	_, err = w.admin().Patch(w.ctx(), ref, types.MergePatchType, read, userclient.WriteOptions{})
	w.equal("patch what changed", codeOf(err), http.StatusConflict)
	patched, err := w.admin().Patch(w.ctx(), ref, types.MergePatchType, []byte(`{"spec":{"wood":"ash"}}`), userclient.WriteOptions{})
	w.equal("patch", fmt.Sprint(strings.Contains(string(patched), `"wood":"ash"`), err), "true <nil>")

	err = w.admin().Delete(w.ctx(), guitars, "default", "tele", userclient.DeleteOptions{UID: "another"})
	w.equal("delete another", codeOf(err), http.StatusConflict)
	err = w.admin().Delete(w.ctx(), guitars, "default", "tele", userclient.DeleteOptions{UID: ref.UID, Propagation: metav1.DeletePropagationBackground})
	w.equal("delete", err, nil)
	_, err = w.admin().Get(w.ctx(), guitars, "default", "tele")
	w.equal("deleted", codeOf(err), http.StatusNotFound)
	w.equal("told", *w.wrote, []string{
		"dev create guitars/tele true", "dev patch guitars/tele true", "dev patch guitars/tele false", "dev patch guitars/tele true",
		"dev delete guitars/tele false", "dev delete guitars/tele true",
	})
	for _, name := range []string{"..", "a/b", "a%2fb"} {
		_, err = w.admin().Get(w.ctx(), guitars, "default", name)
		w.equal("get "+name, errors.Is(err, failure.ErrNotFound), true)
	}
}

func explainsErrors(w *dashboardTest) {
	for _, test := range []struct{ kind, body, want string }{
		{"guitars", string(guitar("x", `{"brnad":"fender"}`)), `400 Guitar in version "v1" cannot be handled as a Guitar [{spec.brnad unknown field}]`},
		{"guitars", string(guitar("x", `{"strings":6}`)), `422 Guitar.kool.example.org "x" is invalid [{spec.brand Required value}]`},
		{"guitars", string(guitar("x", `{"brand":"fender","strings":"six"}`)), `422 Guitar.kool.example.org "x" is invalid [{spec.strings must be of type integer: "string"}]`},
		{"guitars", string(guitar("x", `{"brand":"suhr","strings":99}`)), `422 Guitar.kool.example.org "x" is invalid [{spec.brand Unsupported value: "suhr": supported values: "fender", "gibson"} {spec.strings should be less than or equal to 12}]`},
		{"guitars", string(guitar("x", `{"brand":"fender","strings":5}`)), `422 Guitar.kool.example.org "x" is invalid [{spec five strings are a bass}]`},
		{"guitars", string(guitar("X y", `{"brand":"fender"}`)), `422 Guitar.kool.example.org "X y" is invalid [{metadata.name a lowercase RFC 1123 subdomain`},
		{"guitars", `{"kind":"Guitar","apiVersion":"kool.example.org/v1","metadata":{"name":"x"}}`, `422 Guitar.kool.example.org "x" is invalid [{spec Required value}]`},
		{"guitars", `{`, `400 the object provided is unrecognized (must be of type Guitar): couldn't get version/kind; json parse error: unexpected end of JSON input ({) []`},
		{"deployments", deployment(`{"replicas":"many"}`), `400 Deployment in version "v1" cannot be handled as a Deployment [{spec.replicas must be of type int32: "string"}]`},
		{"deployments", deployment(`{"selectr":{},"replicas":1,"replicas":2}`), `400 Deployment in version "v1" cannot be handled as a Deployment [{spec.selectr unknown field} {spec.replicas duplicate field}]`},
	} {
		_, err := w.admin().Create(w.ctx(), w.kind(test.kind), "default", []byte(test.body), userclient.WriteOptions{})
		if err == nil {
			w.t.Errorf("%s is accepted", test.body)
			continue
		}
		title, fields := userclient.DescribeError(err)
		if got := fmt.Sprintf("%d %s %v", codeOf(err), title, fields); !strings.HasPrefix(got, test.want) {
			w.t.Errorf("%s\n\tgot  %s\n\twant %s", test.body, got, test.want)
		}
	}
}

func deployment(spec string) string {
	return `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"x"},"spec":` + spec + `}`
}

func usesDryRun(w *dashboardTest) {
	w.makeGuitar("seen", `{"brand":"gibson"}`)
	guitars := w.kind("guitars")
	token := must.Get(w.api.Verify(w.ctx(), w.kubectl("create", "token", "reader"))).In(w.t)
	for _, test := range []struct {
		name  string
		user  userclient.User
		reads bool
	}{
		{"reader by token", token, true},
		{"reader impersonated", userclient.User{Name: "rita"}, true},
		{"reader by a group", userclient.User{Name: "bob", Groups: []string{"readers"}}, true},
		{"no group", userclient.User{Name: "bob"}, false},
		{"another group", userclient.User{Name: "bob", Groups: []string{"writers"}}, false},
	} {
		client := w.as(test.user)
		want := http.StatusForbidden
		if test.reads {
			want = 0
		}
		_, err := client.Get(w.ctx(), guitars, "default", "seen")
		w.equal(test.name+" gets", codeOf(err), want)
		_, err = client.Table(w.ctx(), guitars, "default", metav1.ListOptions{})
		w.equal(test.name+" lists", codeOf(err), want)
		_, err = client.Table(w.ctx(), guitars, "", metav1.ListOptions{})
		w.equal(test.name+" lists everywhere", codeOf(err), http.StatusForbidden)
		_, err = client.Create(w.ctx(), guitars, "default", guitar("x", `{"brand":"fender"}`), userclient.WriteOptions{})
		w.equal(test.name+" creates", codeOf(err), http.StatusForbidden)
		err = client.Delete(w.ctx(), guitars, "default", "seen", userclient.DeleteOptions{})
		w.equal(test.name+" deletes", codeOf(err), http.StatusForbidden)
		w.may(test.name, client, right{"list", "default", ""}, test.reads)
		w.may(test.name, client, right{"list", "", ""}, false)
		w.may(test.name, client, right{"delete", "default", "seen"}, false)
		w.equal(test.name+" watches", codeOf(w.watches(client)), want)
		_, _, err = client.Schema(w.ctx(), guitars)
		w.equal(test.name+" reads a schema", err, nil)
	}
	w.may("dev", w.admin(), right{"delete", "default", "seen"}, true)
}

type right struct{ verb, namespace, name string }

// may checks an access review for guitars.
func (w *dashboardTest) may(who string, client *userclient.Client, r right, want bool) {
	w.t.Helper()
	got, err := client.CanI(w.ctx(), r.verb, w.kind("guitars"), r.namespace, r.name)
	if err != nil || got != want {
		w.t.Errorf("%s may %+v: %v, %v", who, r, got, err)
	}
}

// watches returns how a watch ends: with an error, or nil after a change.
func (w *dashboardTest) watches(client *userclient.Client) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx(), waitTimeout)
	defer cancel()
	ended, noticed := make(chan error, 1), make(chan struct{}, 100)
	ref := w.makeGuitar("tuned-"+strconv.FormatInt(time.Now().UnixNano(), 36), `{"brand":"gibson"}`)
	go func() {
		ended <- client.Watch(ctx, ref.Kind, "default", "", func() { noticed <- struct{}{} })
	}()
	for heard := 0; heard < 2; { // The first is the initial notification.
		select {
		case err := <-ended:
			return err
		case <-noticed:
			heard++
		case <-time.After(pollInterval):
			w.touch(ref)
		}
	}
	return nil
}

// pollInterval is how often an object is changed.
const pollInterval = 100 * time.Millisecond

// touch changes an object.
func (w *dashboardTest) touch(ref object.Ref) {
	w.t.Helper()
	must.Succeed(w.t, w.tryTouch(ref))
}

func (w *dashboardTest) tryTouch(ref object.Ref) error {
	_, err := w.admin().Patch(w.ctx(), ref, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"wood":"%d"}}`, time.Now().UnixNano()), userclient.WriteOptions{})
	return err
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return -1
	}
	return int(status.ErrStatus.Code)
}

func readsSchemas(w *dashboardTest) {
	schema, definitions, err := w.admin().Schema(w.ctx(), w.kind("guitars"))
	must.Succeed(w.t, err)
	spec := schema.Properties["spec"]
	brand := spec.Properties["brand"]
	w.equal("enum", brand.Enum, "[fender gibson]")
	w.equal("required", spec.Required, "[brand]")
	w.equal("description", schema.Description, "A Guitar is an instrument.")
	if schema, definitions, err = w.admin().Schema(w.ctx(), w.kind("deployments")); err != nil {
		w.t.Fatal(err)
	}
	of := schema.Properties["spec"]
	for _, part := range of.AllOf {
		of = part
	}
	name := strings.TrimPrefix(of.Ref.String(), "#/components/schemas/")
	w.equal(name+" is defined", definitions[name] != nil, true)
	_, _, err = w.admin().Schema(w.ctx(), object.Kind{Group: "kool.example.org", Version: "v1", Plural: "x", Kind: "X"})
	w.equal("no schema", errors.Is(err, failure.ErrNotFound), true)

	w.kubectl("patch", "crd", "guitars.kool.example.org", "--type=json", "-p",
		`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour","value":{"type":"string"}}]`)
	proctest.Eventually(w.t, waitTimeout, func() error {
		schema, _, err := w.admin().Schema(w.ctx(), w.kind("guitars"))
		if err == nil && schema.Properties["spec"].Properties["colour"].Type == nil {
			err = errors.New("the schema has no colour yet")
		}
		return err
	})
}

func showsEvents(w *dashboardTest) {
	ref := w.makeGuitar("played", `{"brand":"gibson"}`)
	for i, text := range []string{"tuned", "broken"} {
		w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Event
metadata: {name: event-%d, namespace: default}
involvedObject: {apiVersion: kool.example.org/v1, kind: Guitar, namespace: default, name: played, uid: %s}
reason: Played
message: %s
type: Normal
count: %d
firstTimestamp: "2026-01-0%dT00:00:00Z"
lastTimestamp: "2026-01-0%dT12:00:00Z"
source: {component: band}
`, i, ref.UID, text, i+2, i+1, i+1))
	}
	events, err := w.admin().Events(w.ctx(), ref)
	if err != nil || len(events) != 2 {
		w.t.Fatal(events, err)
	}
	w.equal("newest", fmt.Sprint(events[0].Message, events[0].Count, events[0].Source, events[0].Last.Sub(events[0].First)), "broken3band12h0m0s")
	amp := must.Get(w.admin().Create(w.ctx(), w.kind("amps"), "", []byte(`{"apiVersion":"kool.example.org/v1","kind":"Amp","metadata":{"name":"loud"}}`), userclient.WriteOptions{})).In(w.t)
	events, err = w.admin().Events(w.ctx(), object.Ref{Kind: w.kind("amps"), Name: "loud", UID: w.meta(amp).UID})
	w.equal("none", fmt.Sprint(len(events), err), "0 <nil>")
}

func showsDependents(w *dashboardTest) {
	ref := w.makeGuitar("owner", `{"brand":"gibson"}`)
	owner := fmt.Sprintf("[{apiVersion: kool.example.org/v1, kind: Guitar, name: owner, uid: %s, controller: true, blockOwnerDeletion: true}]", ref.UID)
	w.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: band, ownerReferences: %s}
spec:
  replicas: 2
  selector: {matchLabels: {app: band}}
  template:
    metadata: {labels: {app: band}}
    spec: {containers: [{name: main, image: example.com/main}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: songs, ownerReferences: %s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: alien}
`, owner, owner))
	w.await("condition=Available", "deployment/band")
	kinds := []object.Kind{w.kind("configmaps"), w.kind("deployments")}
	index := ownertree.NewOwnerIndex(w.admin(), 10)
	found := index.Children(w.ctx(), ref, kinds...)
	index.Read(w.ctx(), found)
	w.equal("names", fmt.Sprint(len(found), found[0].Name, found[0].Health, found[1].Name, found[1].Health), "2songsUnknownbandCurrent")
	sets := index.Children(w.ctx(), found[1].Ref)
	w.equal("replica sets", len(sets), 1)
	pods := index.Children(w.ctx(), sets[0].Ref)
	w.equal("pods", fmt.Sprint(len(pods), pods[0].Plural), "2pods")
	forbidden := ownertree.NewOwnerIndex(w.as(userclient.User{Name: "rita"}), 0)
	forbidden.Children(w.ctx(), ref, kinds...)
	w.equal("who may not", codeOf(forbidden.ListErrors[0]), http.StatusForbidden)
}

func watchesChanges(w *dashboardTest) {
	watched := w.watch(w.as(userclient.User{Name: "rita"}))
	watched.cancel()
	if err := <-watched.done; !errors.Is(err, context.Canceled) {
		w.t.Errorf("the watch ended with %v", err)
	}
}

// watched is a running watch.
type watched struct {
	ref     object.Ref
	changes atomic.Int32
	cancel  func()
	done    chan error
}

// watch watches guitars until a change.
func (w *dashboardTest) watch(client *userclient.Client) *watched {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx())
	watched := &watched{ref: w.makeGuitar("watched", `{"brand":"gibson"}`), cancel: cancel, done: make(chan error, 1)}
	go func() {
		watched.done <- client.Watch(ctx, watched.ref.Kind, "default", "", func() { watched.changes.Add(1) })
	}()
	w.expectChange(watched)
	return watched
}

// expectChange waits for a change that is made now, besides the initial notification.
func (w *dashboardTest) expectChange(watched *watched) {
	w.t.Helper()
	watched.changes.Store(0)
	proctest.Eventually(w.t, waitTimeout, func() error {
		if watched.changes.Load() > 1 {
			return nil
		}
		return cmp.Or(w.tryTouch(watched.ref), errors.New("nothing noticed"))
	})
}

func survivesServerRestart(w *dashboardTest) {
	watched := w.watch(w.admin())
	guitars := w.kind("guitars")
	w.kill("kube-apiserver")
	proctest.Eventually(w.t, waitTimeout, func() error {
		_, err := w.admin().Table(w.ctx(), guitars, "", metav1.ListOptions{})
		if err != nil && !errors.Is(err, userclient.ErrUnreachable) {
			w.t.Errorf("meanwhile: %v", err)
		}
		return err
	})
	_, err := w.admin().FindKind(w.ctx(), "guitars")
	w.equal("kinds are known", err, nil)
	w.expectChange(watched)
	watched.cancel()
}
