package expression

import (
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
	"strings"
	"testing"
)

const pod = `{
	"apiVersion": "v1", "kind": "Pod",
	"metadata": {"name": "web-0", "labels": {"app": "web", "tier": "\u0061"}, "generation": 3, "annotations": {}},
	"spec": {"replicas": 3, "ratio": 0.5, "big": 9007199254740993, "none": null, "paused": true},
	"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}], "ready": 2}
}`

func TestCompile(t *testing.T) {
	for source, want := range map[string]string{
		``:                               "1:1: Syntax error: mismatched input '<EOF>'",
		`object.spec.replicas ==`:        "1:24: Syntax error",
		"object.spec.a == 1 &&\n objekt": "2:2: undeclared reference to 'objekt'",
		`object.spec.f("a")`:             "1:14: undeclared reference to 'f'",
		`"a"`:                            "1:1: must return a bool, returns a string",
		`{'a': 1}`:                       "1:1: must return a bool, returns a map(string, int)",
		`object.spec.name.matches("(")`:  "1:26: invalid matches argument",
		`duration("1 hour") == object`:   "1:10: invalid duration argument",
		`object.a.all(x, x) && object.`:  "1:30: Syntax error",
		`quantity("1Gi") == object`:      "1:9: undeclared reference to 'quantity'",
	} {
		_, err := Compile(source, "object")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

func TestEvaluate(t *testing.T) {
	for source, want := range map[string]string{
		// What JSON holds.
		`object.spec.replicas == 3`:                 "true",
		`object.spec.ratio < 1`:                     "true",
		`object.spec.big == 9007199254740993`:       "true",
		`object.metadata.labels.tier == 'a'`:        "true",
		`object.metadata.labels['app'] == "web"`:    "true",
		`object.spec.none == null`:                  "true",
		`object.spec.paused`:                        "true",
		`object.status.conditions[1].type == "Old"`: "true",
		`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`:   "true",
		`object.status == parent.status`:                                                "true",
		`object.spec == parent.status`:                                                  "false",
		`size(object.status.conditions) == 2 && size(object.metadata.annotations) == 0`: "true",
		`children.all(c, c.kind == "Pod") && size(children) == 2`:                       "true",
		`reason in ["Create", "Update"]`:                                                "true",
		`oldObject == null || object.spec != oldObject.spec`:                            "true",
		// What is absent.
		`has(object.status.missing)`:                              "false",
		`has(object.spec.none)`:                                   "true",
		`has(object.status.missing) && object.status.missing > 1`: "false",
		`object.?status.?missing.orValue(0) == 0`:                 "true",
		`object.?status.?ready.orValue(0) == 2`:                   "true",
		`"app" in object.metadata.labels`:                         "true",
		`object.status.missing == 1`:                              "no such key: missing; has() tells whether a field is set",
		`object.status.missing == 1 || object.spec.replicas == 3`: "true",
		`oldObject.spec.replicas == 1`:                            "no such key: spec; has() tells whether a field is set",
		`object.status.conditions[5].type == "Old"`:               "index out of bounds: 5",
		`object.spec.replicas == "3"`:                             "false",
		`object.spec.replicas > "3"`:                              "no such overload",
		`object.spec.replicas`:                                    "returned a int, not a bool",
		`malformed.a == 1`:                                        "jsontext: ",
		// The libraries.
		`object.metadata.name.split("-")[1] == "0"`:          "true",
		`"%s-%d".format(["web", 0]) == object.metadata.name`: "true",
		`["a", "b"].join("-").replace("-", "+") == "a+b"`:    "true",
		`sets.contains([1, 2], [object.status.ready])`:       "true",
		`[3, 1, 2].sort() == [1, 2, 3] && lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2]`: "true",
		`math.greatest(object.spec.replicas, object.status.ready) == 3`:                                                              "true",
		`object.metadata.labels.exists(k, v, k == "app" && v == "web")`:                                                              "true",
		`timestamp("2026-01-02T03:04:05Z") < timestamp("2027-01-02T03:04:05Z")`:                                                      "true",
		`object.metadata.name.matches("^web-[0-9]+$")`:                                                                               "true",
	} {
		if got := evaluated(t, source); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestLimits shows that no expression takes more than its share of time and memory, whatever it reads.
func TestLimits(t *testing.T) {
	for source, want := range map[string]string{
		`large.list.all(a, large.list.all(b, large.list.all(c, a + b + c >= 0)))`: "exceeded",
		`large.list.all(i, large.list.sort().size() > 0)`:                         "exceeded",
		`large.list.all(i, large.list.sortBy(e, -e)[0] == 1)`:                     "exceeded",
		`large.list.all(i, large.list == large.list)`:                             "exceeded",
		`large.list.all(i, large.text.size() > 0)`:                                "exceeded",
		`large.list.all(i, large.text + large.text != "")`:                        "exceeded",
		`large.list.all(i, large.text.split("").size() > 0)`:                      "exceeded",
		`large.list.all(i, !large.text.matches("(x+)+y"))`:                        "exceeded",
		`large.list.map(i, large.text).join(large.text) == ""`:                    "exceeded",
		`large.list.map(i, large.list).flatten().size() > 0`:                      "exceeded",
		`large.list.distinct().size() > 0`:                                        "exceeded",
		`sets.contains(large.list, large.list)`:                                   "exceeded",
		`"%s%s%s".format([large.text, large.text, large.text]) == ""`:             "exceeded",
		`large.text.replace("", large.text) == ""`:                                "exceeded",
		`large.text.replace("x", large.text, 5) == ""`:                            "exceeded",
		`lists.range(object.spec.big).size() > 0`:                                 "lists_range: its arguments are too large",
		`[[1, 2]]` + strings.Repeat(`.map(x, x + x)`, 40) + `.all(x, x == x)`:     "exceeded",
		`[[1, 2]]` + strings.Repeat(`.map(x, [x, x])`, 40) + `.all(x, x == x)`:    "exceeded",
		`lists.range(9999999).size() > 0`:                                         "lists_range: its arguments are too large",
		// What stays within the limit.
		`([1, 2] + [3]).map(x, x + 1) + [5] == [2, 3, 4, 5]`: "true",
		`large.list.sort()[0] == 1`:                          "true",
		`3 in large.list`:                                    "false",
		`large.list.slice(0, 10).all(i, i == 1)`:             "true",
	} {
		if got := evaluated(t, source); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

func TestReady(t *testing.T) {
	object := func(metadata, status string) json.RawMessage {
		return json.RawMessage(`{"metadata":` + metadata + `,"status":` + status + `}`)
	}
	const isReady = `{"conditions": [{"type": "Old", "status": "True"}, {"type": "Ready", "status": "True"}]}`
	for _, test := range []struct {
		object json.RawMessage
		want   bool
	}{
		{object(`{}`, isReady), true},
		{object(`{}`, `{"conditions": [{"type": "Available", "status": "True"}]}`), true},
		{object(`{"deletionTimestamp": "2026-01-01T00:00:00Z"}`, isReady), false},
		{object(`{}`, `{"conditions": [{"type": "Ready", "status": "False"}]}`), false},
		{object(`{}`, `{"conditions": 3}`), false},
		{object(`{}`, `{}`), false},
		{json.RawMessage(`{}`), false},
		{json.RawMessage(`null`), false},
	} {
		evaluate := must.Get(CompileInvariant("ready(object)", "object")).In(t)
		if got, err := evaluate(map[string]any{"object": test.object}); err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", test.object, got, err, test.want)
		}
	}
}

func evaluated(t *testing.T, source string) string {
	t.Helper()
	evaluate, err := Compile(source, "object", "oldObject", "parent", "children", "reason", "large", "malformed")
	if err != nil {
		return err.Error()
	}
	result, err := evaluate(map[string]any{
		"object": json.RawMessage(pod), "oldObject": nil, "parent": json.RawMessage(pod),
		"children": []json.RawMessage{json.RawMessage(pod), json.RawMessage(pod)}, "reason": "Update",
		"large": large, "malformed": json.RawMessage(`{"a":`),
	})
	if err != nil {
		return err.Error()
	}
	if result {
		return "true"
	}
	return "false"
}

// large is as large as an object of the API server can be.
var large = json.RawMessage(`{"text":"` + strings.Repeat("x", 1_000_000) + `","list":[1` + strings.Repeat(",1", 100_000) + `]}`)

func BenchmarkEvaluate(b *testing.B) {
	evaluate := must.Get(Compile(`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`, "object")).In(b)
	// Of 4 KiB, as a pod is.
	full := json.RawMessage(strings.Replace(pod, `"annotations": {}`, `"annotations": {"a": "`+strings.Repeat("x", 1000)+`"}, "list": [`+strings.Repeat(`{"name": "one", "value": "two", "port": 80},`, 70)+`{}]`, 1))
	b.ReportAllocs()
	for b.Loop() {
		if ready, err := evaluate(map[string]any{"object": full}); err != nil || !ready {
			b.Fatal(ready, err)
		}
	}
}
