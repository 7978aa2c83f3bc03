package apply_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// generator makes random children of built-in kinds that are similar from turn to turn. It avoids
// what merge and server-side apply treat differently:
//
//   - Maps and items to which others add are always desired. The merge removes them with all their
//     content, the server keeps the fields of others.
//   - Others never set a field to the desired value. With server-side apply they would own it too, and
//     it would stay.
//   - Others do not add to atomic lists (commands, the rules of a network policy). The merge merges
//     those with named items.
//
// The order of items is not compared: the merge keeps the observed order, the server puts desired
// items first.
type generator struct{ *rand.Rand }

// maybe sets a member in two of three cases.
func (w generator) maybe(members map[string]any, name string, values ...any) {
	if w.IntN(3) > 0 {
		members[name] = values[w.IntN(len(values))]
	}
}

// some returns some of the items in their order.
func (w generator) some(items ...any) []any {
	return slices.DeleteFunc(items, func(any) bool { return w.IntN(3) == 0 })
}

func (w generator) texts(name string) map[string]any {
	texts := map[string]any{"always": "a"}
	for i := range 3 {
		w.maybe(texts, fmt.Sprint(name, i), "x", "y", "")
	}
	return texts
}

func (w generator) object(apiVersion, kind, name string, members map[string]any) json.RawMessage {
	metadata := map[string]any{"name": name, "labels": w.texts("l"), "annotations": w.texts("n")}
	members["apiVersion"], members["kind"], members["metadata"] = apiVersion, kind, metadata
	return encode(members)
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// response returns the children of one turn. Their names stay the same.
func (w generator) response() []json.RawMessage {
	return []json.RawMessage{
		w.object("v1", "ConfigMap", "a", map[string]any{"data": w.texts("d")}),
		w.object("v1", "Secret", "a", map[string]any{"data": map[string]any{"always": "YQ==", "k": w.text("eA==", "eQ==")}}),
		w.object("v1", "Service", "a", map[string]any{"spec": w.service()}),
		w.object("apps/v1", "Deployment", "a", map[string]any{"spec": w.deployment()}),
		w.object("networking.k8s.io/v1", "NetworkPolicy", "a", map[string]any{"spec": w.policy()}),
	}
}

func (w generator) text(values ...any) any { return values[w.IntN(len(values))] }

func (w generator) service() map[string]any {
	spec := map[string]any{"selector": w.texts("s")}
	port := map[string]any{"name": "web", "port": 80}
	w.maybe(port, "protocol", "TCP")
	w.maybe(port, "targetPort", 8080, "web")
	spec["ports"] = append(w.some(
		map[string]any{"name": "dns", "port": 53, "protocol": "UDP"},
		map[string]any{"name": "dns-tcp", "port": 53, "protocol": "TCP"}), port)
	w.maybe(spec, "sessionAffinity", "None", "ClientIP")
	w.maybe(spec, "publishNotReadyAddresses", true, false)
	return spec
}

func (w generator) deployment() map[string]any {
	spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}}
	w.maybe(spec, "replicas", 0, 1, 2)
	w.maybe(spec, "paused", true, false)
	w.maybe(spec, "revisionHistoryLimit", 3, 4)
	w.maybe(spec, "strategy", map[string]any{"type": "Recreate"}, map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": w.text(1, "25%")}})
	template := map[string]any{"containers": append(w.some(w.container("side")), w.container("main")), "volumes": append(w.some(w.volume("v1"), w.volume("v2")), w.volume("v0"))}
	w.maybe(template, "nodeSelector", map[string]any{"disk": w.text("ssd", "hdd")})
	w.maybe(template, "terminationGracePeriodSeconds", 5, 30)
	w.maybe(template, "tolerations", []any{map[string]any{"key": "k", "operator": w.text("Exists", "Equal")}}, []any{})
	spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": template}
	return spec
}

func (w generator) volume(name string) map[string]any {
	volume := map[string]any{"name": name}
	switch w.IntN(3) {
	case 0:
		volume["emptyDir"] = map[string]any{}
	case 1:
		volume["configMap"] = map[string]any{"name": w.text("x", "y")}
	default:
		volume["downwardAPI"] = map[string]any{"items": []any{map[string]any{"path": "labels", "fieldRef": map[string]any{"fieldPath": "metadata.labels"}}}}
	}
	return volume
}

func (w generator) container(name string) map[string]any {
	c := map[string]any{"name": name, "image": w.text("i", "j"), "env": append(w.some(
		map[string]any{"name": "A", "value": w.text("", "x")},
		map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}}),
		map[string]any{"name": "ALWAYS", "value": "x"})}
	w.maybe(c, "args", []any{"a", "b"}, []any{"b"}, []any{})
	w.maybe(c, "resources", map[string]any{"limits": map[string]any{"cpu": w.text("0.5", "500m", "1")}}, map[string]any{"requests": map[string]any{"memory": "1024Mi"}})
	w.maybe(c, "ports", w.some(map[string]any{"containerPort": 53, "protocol": "UDP"}, map[string]any{"containerPort": 53, "protocol": "TCP"}, map[string]any{"containerPort": 80}))
	w.maybe(c, "volumeMounts", w.some(map[string]any{"name": "v0", "mountPath": "/a"}, map[string]any{"name": "v0", "mountPath": "/b", "readOnly": w.text(true, false)}))
	w.maybe(c, "securityContext", map[string]any{"runAsUser": w.text(1, 2)}, map[string]any{"readOnlyRootFilesystem": true})
	w.maybe(c, "stdin", true, false)
	return c
}

func (w generator) policy() map[string]any {
	spec := map[string]any{"podSelector": map[string]any{}}
	w.maybe(spec, "policyTypes", []any{"Ingress"}, []any{"Ingress", "Egress"})
	w.maybe(spec, "ingress", []any{}, []any{map[string]any{"ports": []any{map[string]any{"port": w.text(80, 81)}}}})
	return spec
}

// edits returns edits of others: they add fields, and change fields that are not theirs.
func (w generator) edits() map[string]map[string]any {
	labels := map[string]any{"theirs": w.text("theirs-1", "theirs-2")}
	w.maybe(labels, "l0", nil, "theirs")
	data := map[string]any{"theirs": "theirs"}
	w.maybe(data, "d0", nil, "theirs")
	spec := map[string]any{}
	w.maybe(spec, "minReadySeconds", 7, 8)
	w.maybe(spec, "replicas", 5)
	edits := map[string]map[string]any{"configmaps/a": {"data": data}, "deployments/a": {"spec": spec}, "services/a": {}}
	for _, edit := range edits {
		edit["metadata"] = map[string]any{"labels": maps.Clone(labels)}
	}
	return edits
}

// add adds items of others to lists with named items.
func (k *testController) add(w generator) {
	d := k.objects["deployments/a"].DeepCopy()
	spec := d.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	added := map[string]any{"name": "theirs", "image": w.text("theirs-1", "theirs-2")}
	spec["containers"] = withItem(spec["containers"], added)
	for _, c := range spec["containers"].([]any) {
		if c := c.(map[string]any); c["name"] == "main" {
			c["env"] = withItem(c["env"], map[string]any{"name": "THEIRS", "value": w.text("theirs-1", "theirs-2")})
		}
	}
	k.editAs("others", "deployments/a", map[string]any{"spec": d.Object["spec"]})
}

func withItem(list any, item map[string]any) []any {
	items, _ := list.([]any)
	items = slices.DeleteFunc(items, func(i any) bool { return i.(map[string]any)["name"] == item["name"] })
	return append(items, item)
}

var (
	seeds     = flag.Uint64("seeds", 6, "how many random stories each property is tried with")
	firstSeed = flag.Uint64("first", 1, "the seed of the first story; 0 is a random one")
)

// seeded runs a property with random cases. A failure names the seed.
func seeded(t *testing.T, property func(w generator, seed uint64)) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	for seed := first; seed < first+*seeds; seed++ {
		property(generator{rand.New(rand.NewPCG(seed, 0))}, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Both strategies have the same result for a sequence of desired objects and edits.
func TestMergeAgreesWithServerSideApply(t *testing.T) {
	seeded(t, func(w generator, seed uint64) {
		merged := newTestController(t, "metacontroller.k8s.io/last-applied-configuration", w.IntN(2) == 0)
		served := newTestController(t, "setpoint.dev/applied-fields", true)
		merged.setRules(rules(plan.InPlace, plan.Merge))
		served.setRules(rules(plan.InPlace, plan.ServerSide))
		for turn := range 4 {
			response, edits, edited := w.response(), w.edits(), w.Uint64()
			for _, k := range []*testController{merged, served} {
				k.reconcile(response)
				for key, edit := range edits {
					k.editAs("others", key, edit)
				}
				k.add(generator{rand.New(rand.NewPCG(edited, 0))})
				k.reconcile(response)
			}
			if where, same := alike(merged, served); !same {
				t.Errorf("seed %d, turn %d: %s\nmerged:\n%s\nserved:\n%s\nwish: %s", seed, turn, where, merged.show(), served.show(), response)
				return
			}
		}
	})
}

// alike compares the objects of two clusters.
func alike(a, b *testController) (difference string, same bool) {
	for i, left := range a.observed() {
		right := b.observed()[i]
		if x, y := normalize(left.JSON()), normalize(right.JSON()); x != y {
			return left.Ref().String() + "\n" + x + "\n" + y, false
		}
	}
	return "", true
}

// normalize returns the fields of an object in canonical order, without system fields and empty
// values.
func normalize(text []byte) string {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	metadata := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation"} {
		delete(metadata, name)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.Contains(key, "/") })
	return string(encode(tidy(fields)))
}

func tidy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(name string, below any) bool {
			v[name] = tidy(below)
			return v[name] == nil
		})
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = tidy(v[i])
		}
		if len(v) == 0 {
			return nil
		}
		if _, named := v[0].(map[string]any); named {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return value
}
