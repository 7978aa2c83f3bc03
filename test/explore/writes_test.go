package explore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// manager is the field manager of the writes that are compared.
const manager = "setpoint-compositecontroller-shops"

// written are the kinds of the children. Some have values that the API server derives from others.
var written = map[string]object.Resource{
	"ConfigMap":   configMaps,
	"Secret":      secrets,
	"PodTemplate": templates,
	"Service":     {Version: "v1", Plural: "services", Kind: "Service", Namespaced: true, Status: true},
	"Deployment":  {Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
	"CronJob":     {Group: "batch", Version: "v1", Plural: "cronjobs", Kind: "CronJob", Namespaced: true, Status: true},
	"Sprocket":    {Group: "example.com", Version: "v1", Plural: "sprockets", Kind: "Sprocket", Namespaced: true, Status: true, Custom: true},
}

// sprocketCRD has lists and maps that merge in every way, with defaults in them.
const sprocketCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sprockets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Sprocket, plural: sprockets, singular: sprocket, listKind: SprocketList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
          spec:
            type: object
            properties:
              size: {type: integer, default: 1}
              text: {type: string}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              names: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              whole:
                type: object
                x-kubernetes-map-type: atomic
                properties: {a: {type: string}, b: {type: string}, c: {type: string, default: c}}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [host]
                items:
                  type: object
                  required: [host]
                  properties: {host: {type: string}, name: {type: string}, value: {type: string}, port: {type: integer, default: 80}}
              plain:
                type: array
                items: {type: object, properties: {name: {type: string}, value: {type: string}, port: {type: integer, default: 80}}}
`

// values are those of the fields in the children, by their name. Fields that are not listed keep theirs.
var values = map[string][]any{
	"a": {"1", "2"}, "b": {"1", "2"}, "text": {"x", "y"}, "value": {"1", "2", "3"}, "size": {1, 2, 3}, "host": {"h1", "h2", "h3"},
	"replicas": {0, 1, 2}, "minReadySeconds": {1, 2}, "image": {"one:1", "one:2", "two"}, "cpu": {"1", "0.5", "500m"}, "memory": {"64Mi", "65536Ki", "1Gi"},
	"type": {"ClusterIP", "NodePort"}, "sessionAffinity": {"None", "ClientIP"}, "port": {80, 81},
	"schedule": {"@daily", "0 1 * * *"}, "suspend": {true, false}, "concurrencyPolicy": {"Allow", "Forbid"}, "hostNetwork": {true, false}, "serviceAccountName": {"one", "two"},
	"terminationGracePeriodSeconds": {5, 30}, "path": {"/a", "/b"}, "app.kubernetes.io/version": {"1", "2"}, "note": {"x", "y", "z"}, "secret": {"YQ==", "Yg=="},
	"command": {[]any{"a"}, []any{"a", "b"}},
}

// children are the desired objects. Of each member whose name ends with ?, some have it.
const children = `[
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":"1","b?":"1"},"annotations?":{"note":"x"}},"data":{"a":"1","b?":"2","text":""}},
{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"note":"x"}},"data":{"secret":"YQ=="}},
{"apiVersion":"v1","kind":"Service","metadata":{"labels?":{"app.kubernetes.io/version":"1"}},"spec":{"type":"ClusterIP","sessionAffinity?":"None","selector":{"a":"1"},
  "ports":[{"name":"web","port":80},{"name":"dns","port":53,"protocol":"UDP"}]}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels?":{"a":"1"}},"spec":{"replicas":0,"minReadySeconds?":1,"paused":true,"selector":{"matchLabels":{"app":"x"}},
  "template":{"metadata":{"labels":{"app":"x"},"annotations":{"note":"x"}},"spec":{"serviceAccountName?":"one","terminationGracePeriodSeconds":5,"containers":[
    {"name":"main","image":"one:1","command?":["a"],"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}],
     "ports":[{"containerPort":80},{"containerPort":53,"protocol":"UDP"}],"resources?":{"limits":{"cpu":"1","memory":"64Mi"}},"livenessProbe?":{"httpGet":{"path":"/a","port":80}}},
    {"name":"side","image":"two"}],"volumes":[{"name":"v","emptyDir":{}}],"tolerations?":[{"key":"k","operator":"Exists"}]}}}},
{"apiVersion":"v1","kind":"PodTemplate","metadata":{},"template":{"metadata":{"labels":{"a":"1"}},"spec":{"hostNetwork?":true,"containers":[{"name":"main","image":"one:1","ports":[{"containerPort":80}]}]}}},
{"apiVersion":"batch/v1","kind":"CronJob","metadata":{},"spec":{"schedule":"@daily","suspend":true,"concurrencyPolicy?":"Allow","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"one:1"}]}}}}}},
{"apiVersion":"example.com/v1","kind":"Sprocket","metadata":{"labels?":{"a":"1"}},"spec":{"size?":2,"text":"x","names?":["x","y"],"whole":{"a":"1","b?":"1"},"free":{"a":"1","deep?":{"value":"1"}},
  "parts":[{"host":"h1","name":"n1","value":"1"},{"host":"h2","name":"n2","value?":"2"}],"plain?":[{"name":"n1","value":"1"}]}}]`

// edits are writes of others: a kind, the manager, a subresource or "apply", and a merge patch or what is applied.
var edits = []struct{ kind, manager, subresource, body string }{
	{"ConfigMap", "others", "", `{"data":{"a":"2","theirs":"1"}}`},
	{"ConfigMap", "others", "", `{"metadata":{"labels":{"a":"2","theirs":"1"}}}`},
	{"ConfigMap", "applier", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":"1"}},"data":{"a":"1"}}`},
	{"Secret", "others", "", `{"data":{"secret":"Yg=="}}`},
	{"Service", "others", "", `{"spec":{"sessionAffinity":"ClientIP"}}`},
	{"Service", "applier", "apply", `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"name":"theirs","port":90,"protocol":"TCP"}]}}`},
	// Scaling to the same number takes the field from updates and not from applies; see designs/0020-cheapest-write.md.
	{"Deployment", "scaler", "scale", `{"spec":{"replicas":5}}`},
	{"Deployment", "others", "", `{"spec":{"template":{"metadata":{"annotations":{"note":"y"}}}}}`},
	{"Deployment", "applier", "apply", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"THEIRS","value":"1"}]}]}}}}`},
	{"Deployment", "applier", "apply", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"side","image":"one:2"}]}}}}`},
	{"CronJob", "others", "", `{"spec":{"suspend":false}}`},
	{"Sprocket", "others", "", `{"spec":{"text":"y","whole":{"b":"theirs"}}}`},
	{"Sprocket", "others", "", `{"spec":{"free":{"a":"2","theirs":{"x":1}}}}`},
	{"Sprocket", "applier", "apply", `{"apiVersion":"example.com/v1","kind":"Sprocket","spec":{"parts":[{"host":"h1","port":81},{"host":"theirs"}],"names":["x"]}}`},
	{"Sprocket", "applier", "apply", `{"apiVersion":"example.com/v1","kind":"Sprocket","spec":{"whole":{"a":"1","b":"1"}}}`},
	{"Sprocket", "operator", "status", `{"status":{"ready":true}}`},
}

// Updates that replace applies leave the same objects and the same owners of each field on a real API server.
func TestUpdatesEqualApplies(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cluster.define(t, sprocketCRD, "/apis/example.com/v1/sprockets")
	eachSeed(t, cluster, compareWrites)
}

// turnsPerSeed is how many responses of a hook are applied.
const turnsPerSeed = 25

func compareWrites(t *testing.T, cluster *clusterServer, seed uint64) {
	w := &story{Rand: rand.New(rand.NewPCG(seed, 1))}
	cheap, plain := newShop(t, cluster, fmt.Sprint("updates-", seed)), newShop(t, cluster, fmt.Sprint("applies-", seed))
	plain.onlyApply = true
	var history []string
	for turn := range turnsPerSeed {
		response, edit := w.next(), w.edit(turn)
		history = append(history, fmt.Sprintf("%d others: %s\n%d desired: %s", turn, w.edited, turn, response))
		for _, s := range []*shop{cheap, plain} {
			edit(s)
			s.reconcile(response)
		}
		if diff := cmp.Diff(plain.state(), cheap.state()); diff != "" {
			t.Fatalf("after\n%s\nwith applies only (-) and with updates (+):\n%s", strings.Join(history[max(0, len(history)-3):], "\n"), diff)
		}
	}
	if cheap.requests["update"] < turnsPerSeed/2 {
		t.Errorf("sent %v: too few updates to compare", cheap.requests)
	}
	t.Logf("updates: %v, applies only: %v", cheap.requests, plain.requests)
}
