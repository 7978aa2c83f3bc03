package e2e

import (
	"encoding/json"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStrategiesAgree has one and the same wishes, made at random, carried out by
// merging and by server-side apply, with edits by others between them. Both come
// to the same. The room apply tests this at length with the server's code in
// process; here it is the server itself, with all its defaults.
func TestStrategiesAgree(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64N(1 << 32)
	t.Logf("seed %d", seed)
	w := generator{rand.New(rand.NewPCG(seed, 0))}
	c := &testCluster{t: t, kubeconfig: os.Getenv("KUBECONFIG")}
	group := fmt.Sprintf("agree-%08x", rand.Uint32())
	namespaces := map[string]string{"Merge": group + "-m", "ServerSide": group + "-s"}
	hook := httptest.NewServer(http.HandlerFunc(allowAll))
	t.Cleanup(hook.Close)

	c.apply(fmt.Sprintf(crdManifest, "wishes", group+".test", "Wish", "Namespaced"))
	c.established("wishes." + group + ".test")
	for strategy, namespace := range namespaces {
		c.kubectl("create", "namespace", namespace)
		c.apply(fmt.Sprintf(strategyController, namespace, group, strategy, hook.URL))
	}
	t.Cleanup(func() {
		for _, namespace := range namespaces {
			_, _ = c.try("", "delete", "namespace", namespace, "--wait=false")
			_, _ = c.try("", "delete", "compositecontroller.setpoint.dev", namespace)
		}
		_, _ = c.try("", "delete", "crd", "wishes."+group+".test", "--wait=false")
	})
	for turn := range 4 {
		children, edits := w.children(), w.edits()
		for strategy, namespace := range namespaces {
			c.apply(asJSON(t, map[string]any{
				"apiVersion": group + ".test/v1", "kind": "Wish",
				"metadata": map[string]any{"name": "w", "namespace": namespace, "labels": map[string]any{"apply": strategy}},
				"spec":     map[string]any{"turn": fmt.Sprint("t", turn), "children": children},
			}))
		}
		for _, namespace := range namespaces {
			c.kubectl("wait", "-n", namespace, "wishes."+group+".test/w", "--for=jsonpath={.status.turn}=t"+fmt.Sprint(turn), "--timeout=60s")
			for child, edit := range edits {
				c.kubectl("patch", "-n", namespace, child, "--type=merge", "--field-manager=others", "-p", asJSON(t, edit))
			}
		}
		c.until(time.Minute, func() error { return c.disagreement(namespaces["Merge"], namespaces["ServerSide"]) })
	}
}

// allowAll is a hook that wants what its parent says.
func allowAll(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent struct {
			Spec struct {
				Turn     string          `json:"turn"`
				Children json.RawMessage `json:"children"`
			} `json:"spec"`
		} `json:"parent"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	spec := request.Parent.Spec
	_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"turn": spec.Turn}, "children": spec.Children})
}

const strategyController = `
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: %[1]s}
spec:
  generateSelector: true
  parentResource: {apiVersion: %[2]s.test/v1, resource: wishes, labelSelector: {matchLabels: {apply: %[3]s}}}
  childResources:
  - {apiVersion: v1, resource: configmaps, apply: %[3]s}
  - {apiVersion: v1, resource: services, apply: %[3]s}
  - {apiVersion: apps/v1, resource: deployments, apply: %[3]s}
  hooks: {sync: {webhook: {url: "%[4]s"}}}
`

// disagreement says in what the children in two namespaces differ.
func (c *testCluster) disagreement(one, other string) error {
	for _, child := range []string{"configmap/a", "service/a", "deployment/a"} {
		var seen []string
		for _, namespace := range []string{one, other} {
			text, err := c.try("", "get", "-n", namespace, child, "-o", "json")
			if err != nil {
				return err
			}
			seen = append(seen, essentials(c.t, text))
		}
		if seen[0] != seen[1] {
			return fmt.Errorf("%s\n%s\n%s", child, seen[0], seen[1])
		}
	}
	return nil
}

// essentials are an object's fields but for those of the system, what Setpoint
// remembers, addresses, what is empty and the order of lists.
func essentials(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	must.Succeed(t, json.Unmarshal([]byte(text), &o))
	metadata, spec := o["metadata"].(map[string]any), o["spec"]
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.Contains(key, "/") })
	labels, _ := metadata["labels"].(map[string]any)
	delete(labels, "controller-uid")
	if fields, ok := spec.(map[string]any); ok {
		delete(fields, "clusterIP")
		delete(fields, "clusterIPs")
	}
	return asJSON(t, tidy([]any{labels, annotations, spec, o["data"]}))
}

func tidy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if v[name] = tidy(below); v[name] == nil {
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = tidy(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if len(v) == 0 {
			return nil
		}
	}
	return value
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	return string(must.Get(json.Marshal(value)).In(t))
}

// generator makes wishes that the strategies have to agree upon: others do not add
// to what may be desired no more, nor set what is desired to the desired value.
type generator struct{ *rand.Rand }

func (w generator) one(values ...any) any { return values[w.IntN(len(values))] }

func (w generator) maybe(members map[string]any, name string, values ...any) {
	if w.IntN(3) > 0 {
		members[name] = w.one(values...)
	}
}

func (w generator) some(items ...any) []any {
	return slices.DeleteFunc(items, func(any) bool { return w.IntN(3) == 0 })
}

func (w generator) texts(name string) map[string]any {
	texts := map[string]any{"always": "a"}
	for i := range 3 {
		w.maybe(texts, fmt.Sprint(name, i), "x", "z", "")
	}
	return texts
}

func (w generator) children() []any {
	return []any{
		w.child("v1", "ConfigMap", map[string]any{"data": w.texts("d")}),
		w.child("v1", "Service", map[string]any{"spec": w.service()}),
		w.child("apps/v1", "Deployment", map[string]any{"spec": w.deployment()}),
	}
}

func (w generator) child(apiVersion, kind string, members map[string]any) map[string]any {
	maps.Copy(members, map[string]any{"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": "a", "labels": w.texts("l"), "annotations": w.texts("n")}})
	return members
}

func (w generator) service() map[string]any {
	port := map[string]any{"name": "web", "port": 80}
	w.maybe(port, "protocol", "TCP")
	w.maybe(port, "targetPort", 8080, "web")
	spec := map[string]any{"selector": w.texts("s"), "ports": append(w.some(
		map[string]any{"name": "dns", "port": 53, "protocol": "UDP"},
		map[string]any{"name": "dns-tcp", "port": 53, "protocol": "TCP"}), port)}
	w.maybe(spec, "sessionAffinity", "None", "ClientIP")
	w.maybe(spec, "publishNotReadyAddresses", true, false)
	return spec
}

func (w generator) deployment() map[string]any {
	app := map[string]any{"app": "a"}
	pod := map[string]any{
		"containers": append(w.some(w.container("side")), w.container("main")),
		"volumes": append(w.some(map[string]any{"name": "info", "downwardAPI": map[string]any{
			"items": []any{map[string]any{"path": "labels", "fieldRef": map[string]any{"fieldPath": "metadata.labels"}}}}}),
			map[string]any{"name": "v", "emptyDir": map[string]any{}}),
	}
	w.maybe(pod, "nodeSelector", map[string]any{"disk": w.one("ssd", "hdd")})
	w.maybe(pod, "terminationGracePeriodSeconds", 5, 30)
	w.maybe(pod, "tolerations", []any{map[string]any{"key": "k", "operator": "Exists"}}, []any{})
	spec := map[string]any{"replicas": 0, "selector": map[string]any{"matchLabels": app},
		"template": map[string]any{"metadata": map[string]any{"labels": app}, "spec": pod}}
	w.maybe(spec, "revisionHistoryLimit", 3, 4)
	w.maybe(spec, "strategy", map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": w.one(1, 2)}}, map[string]any{"rollingUpdate": map[string]any{"maxSurge": w.one(1, "30%")}})
	return spec
}

func (w generator) container(name string) map[string]any {
	c := map[string]any{"name": name, "image": w.one("i", "j"), "env": append(w.some(
		map[string]any{"name": "A", "value": w.one("", "x")},
		map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}}),
		map[string]any{"name": "ALWAYS", "value": "x"})}
	w.maybe(c, "args", []any{"a", "b"}, []any{"b"}, []any{})
	w.maybe(c, "resources", map[string]any{"limits": map[string]any{"cpu": w.one("0.5", "500m", "1")}}, map[string]any{"requests": map[string]any{"memory": "1024Mi"}})
	w.maybe(c, "ports", w.some(map[string]any{"containerPort": 53, "protocol": "UDP"}, map[string]any{"containerPort": 53, "protocol": "TCP"}, map[string]any{"containerPort": 80}))
	w.maybe(c, "volumeMounts", w.some(map[string]any{"name": "v", "mountPath": "/a"}, map[string]any{"name": "v", "mountPath": "/b"}))
	w.maybe(c, "securityContext", map[string]any{"runAsUser": w.one(1, 2)}, map[string]any{"readOnlyRootFilesystem": true})
	return c
}

func (w generator) edits() map[string]any {
	labels := map[string]any{"theirs": w.one("theirs-1", "theirs-2")}
	w.maybe(labels, "l0", nil, "theirs")
	data := map[string]any{"theirs": "theirs"}
	w.maybe(data, "d0", nil, "theirs")
	spec := map[string]any{"minReadySeconds": w.one(7, 8)}
	w.maybe(spec, "replicas", 1)
	metadata := map[string]any{"labels": labels}
	return map[string]any{
		"configmap/a":  map[string]any{"metadata": metadata, "data": data},
		"service/a":    map[string]any{"metadata": metadata},
		"deployment/a": map[string]any{"metadata": metadata, "spec": spec},
	}
}
