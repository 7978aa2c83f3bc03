package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// difference is what a change of a typed object comes to.
func difference(raw, before, after []byte) ([]byte, error) {
	object, err := Rebase(raw, before, after)
	if object == nil || err != nil {
		return nil, err
	}
	return patchTo(raw, object)
}

// patchTo is the patch from one object to another.
func patchTo(raw, changed []byte) ([]byte, error) {
	return For(&hook.ReviewRequest{Object: raw}, &hook.ReviewResponse{Object: changed})
}

// Whole numbers become integers in all forms of changes, and one that is the same is no change.
func TestWholeNumbersOfReviews(t *testing.T) {
	request := &hook.ReviewRequest{Object: []byte(`{"spec":{"a":1,"b":2,"c":0.5}}`)}
	for name, c := range map[string]struct {
		response hook.ReviewResponse
		want     string
	}{
		"patch":     {hook.ReviewResponse{Patch: []byte(`{"spec":{"a":4e0,"b":2.0,"c":1.5}}`)}, `[{"op":"replace","path":"/spec/a","value":4},{"op":"replace","path":"/spec/c","value":1.5}]`},
		"jsonPatch": {hook.ReviewResponse{JSONPatch: []byte(`[{"op":"replace","path":"/spec/a","value":1e3}]`)}, `[{"op":"replace","path":"/spec/a","value":1000}]`},
		"object":    {hook.ReviewResponse{Object: []byte(`{"spec":{"a":3.0,"b":2.0,"c":0.5}}`)}, `[{"op":"replace","path":"/spec/a","value":3}]`},
	} {
		if got, err := For(request, &c.response); string(got) != c.want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestDifference(t *testing.T) {
	for name, c := range map[string]struct{ raw, before, after, want string }{
		"nothing":                     {`{"a":1}`, `{"a":1}`, `{"a":1}`, ``},
		"nothing, but a type's zeros": {`{"a":1}`, `{"a":1,"b":{}}`, `{"a":1,"b":{}}`, ``},
		"a field more":                {`{"x":1}`, `{}`, `{"a":1}`, `[{"op":"add","path":"/a","value":1}]`},
		"another value":               {`{"a":1,"x":1}`, `{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`},
		"a field less":                {`{"a":1,"x":1}`, `{"a":1}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		"a parent that is not there": {`{}`, `{"s":{"t":null}}`, `{"s":{"t":null,"l":{"a":"b"}}}`,
			`[{"op":"add","path":"/s","value":{"l":{"a":"b"}}}]`},
		"a parent that is null": {`{"s":null}`, `{"s":{}}`, `{"s":{"a":1}}`,
			`[{"op":"replace","path":"/s","value":{"a":1}}]`},
		"changed although not there":   {`{}`, `{"a":0}`, `{"a":1}`, `[{"op":"add","path":"/a","value":1}]`},
		"taken out although not there": {`{}`, `{"a":0,"b":{"c":1}}`, `{"b":{}}`, ``},
		"there although not written":   {`{"a":0}`, `{}`, `{"a":1}`, `[{"op":"replace","path":"/a","value":1}]`},
		"an element more":              {`{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"a"}]}`, `{"l":[{"name":"a"},{"name":"b"}]}`, `[{"op":"add","path":"/l/1","value":{"name":"b"}}]`},
		"an element before":            {`{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"a"}]}`, `{"l":[{"name":"b"},{"name":"a"}]}`, `[{"op":"add","path":"/l/0","value":{"name":"b"}}]`},
		"an element less":              {`{"l":[{"name":"a"},{"name":"b","x":1}]}`, `{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"b"}]}`, `[{"op":"remove","path":"/l/0"}]`},
		"within an element":            {`{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"a"}]}`, `{"l":[{"name":"a","i":"v"}]}`, `[{"op":"add","path":"/l/0/i","value":"v"}]`},
		"within one without a name":    {`{"l":[{"r":{"x":1,"a":1}}]}`, `{"l":[{"r":{"a":1}}]}`, `{"l":[{"r":{"a":2}}]}`, `[{"op":"replace","path":"/l/0/r/a","value":2}]`},
		"another of that place":        {`{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"a"}]}`, `{"l":[{"name":"b"}]}`, `[{"op":"remove","path":"/l/0/x"},{"op":"replace","path":"/l/0/name","value":"b"}]`},
		"the other way round": {`{"l":[{"name":"a","x":1},{"name":"b","x":2}]}`, `{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"b"},{"name":"a"}]}`,
			`[{"op":"replace","path":"/l/0/name","value":"b"},{"op":"replace","path":"/l/0/x","value":2},{"op":"replace","path":"/l/1/name","value":"a"},{"op":"replace","path":"/l/1/x","value":1}]`},
		"a list that is not there":   {`{}`, `{"l":null}`, `{"l":["a"]}`, `[{"op":"add","path":"/l","value":["a"]}]`},
		"a list of another length":   {`{"l":[1]}`, `{"l":[1,2]}`, `{"l":[1,2,3]}`, `[{"op":"add","path":"/l/1","value":2},{"op":"add","path":"/l/2","value":3}]`},
		"a word more":                {`{"l":["a"]}`, `{"l":["a"]}`, `{"l":["a","b"]}`, `[{"op":"add","path":"/l/1","value":"b"}]`},
		"a name to be escaped":       {`{"m":{"x":"y"}}`, `{"m":{"x":"y"}}`, `{"m":{"x":"y","a/b~c\"d":"e"}}`, `[{"op":"add","path":"/m/a~1b~0c"d","value":"e"}]`},
		"numbers beyond a float":     {`{"a":9007199254740993}`, `{"a":9007199254740993}`, `{"a":9007199254740992}`, `[{"op":"replace","path":"/a","value":9007199254740992}]`},
		"an object becomes a number": {`{"a":{"x":1}}`, `{"a":{}}`, `{"a":1}`, `[{"op":"replace","path":"/a","value":1}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(difference([]byte(c.raw), []byte(c.before), []byte(c.after))).In(t)
			if plain := strings.ReplaceAll(string(got), `\"`, `"`); plain != c.want {
				t.Errorf("got  %s\nwant %s", plain, c.want)
			}
			if got != nil {
				applied(t, []byte(c.raw), got)
			}
		})
	}
}

func TestEqualValues(t *testing.T) {
	for _, c := range [][2]string{
		{`{"a":"é<\n"}`, `{ "a" : "\u00e9\u003c\u000a" }`},
		{`{"a":1.5,"b":[true,null]}`, "{\n\"b\":[ true , null ],\"a\":1.5}"},
		{`{"l":[{"name":"a","x":1}]}`, `{"l": [{"x": 1, "name": "a"}]}`},
	} {
		if got, err := patchTo([]byte(c[0]), []byte(c[1])); got != nil || err != nil {
			t.Errorf("%s and %s: %s, %v", c[0], c[1], got, err)
		}
	}
}

func TestDiffDepthIsBounded(t *testing.T) {
	deep := func(inner string) []byte {
		return []byte(strings.Repeat(`{"a":`, 5000) + inner + strings.Repeat("}", 5000))
	}
	patch, err := patchTo(deep("1"), deep("2"))
	if err != nil || strings.Count(string(patch[:300]), "/a") != maxDepth {
		t.Errorf("%.300s, %v", patch, err)
	}
}

// TestDiffRandom makes documents into others by their difference.
func TestDiffRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		from := map[string]any{"m": randomValue(random, 4), "n": randomValue(random, 3)}
		to := map[string]any{"m": edited(random, from["m"]), "n": edited(random, from["n"])}
		raw, object := encoded(t, from), encoded(t, to)
		patch := must.Get(patchTo(raw, object)).In(t)
		if patch == nil {
			patch = []byte("[]")
		}
		if got := applied(t, raw, patch); !same(t, got, object) {
			t.Fatalf("%d: %s\nto   %s\nby   %s\ngave %s", i, raw, object, patch, got)
		}
	}
}

// TestDifferenceRandom changes pods by a type that does not know all their fields.
func TestDifferenceRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		raw, unknown := randomPod(t, random)
		var pod corev1.Pod
		decodeInto(t, raw, &pod)
		before := encoded(t, pod)
		taken := mutate(random, &pod)
		after := encoded(t, pod)
		patch := must.Get(difference(raw, before, after)).In(t)
		if patch == nil {
			if !bytes.Equal(before, after) {
				t.Fatalf("no patch from %s to %s", before, after)
			}
			continue
		}
		got := applied(t, raw, patch)
		var again corev1.Pod
		decodeInto(t, got, &again)
		if !reflect.DeepEqual(again, pod) && !same(t, encoded(t, again), after) {
			t.Fatalf("%d: raw   %s\nafter %s\npatch %s\ngave  %s", i, raw, after, patch, got)
		}
		if left := strings.Count(string(got), `"unknown"`); !taken && left != unknown {
			t.Fatalf("%d: of %d fields that the type does not know, %d are left\nraw   %s\npatch %s\ngave  %s", i, unknown, left, raw, patch, got)
		}
	}
}

func randomPod(t *testing.T, random *rand.Rand) (raw []byte, unknown int) {
	t.Helper()
	strange := func(m map[string]any) map[string]any {
		if random.IntN(2) == 0 {
			m["unknown"] = random.IntN(100)
			unknown++
		}
		return m
	}
	var containers []any
	for i := range 1 + random.IntN(3) {
		var env, mounts, sources []any
		for j := range random.IntN(4) {
			env = append(env, strange(map[string]any{"name": fmt.Sprint("E", j), "value": "v"}))
			mounts = append(mounts, strange(map[string]any{"name": "data", "mountPath": fmt.Sprint("/", j)}))
			sources = append(sources, strange(map[string]any{"configMapRef": strange(map[string]any{"name": fmt.Sprint("m", j)})}))
		}
		containers = append(containers, strange(map[string]any{
			"name": fmt.Sprint("c", i), "image": "i", "env": env, "volumeMounts": mounts, "envFrom": sources,
		}))
	}
	spec := strange(map[string]any{"containers": containers, "hostNetwork": false})
	metadata := strange(map[string]any{"name": "p", "labels": map[string]any{"a": "b"}})
	return encoded(t, strange(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})), unknown
}

// mutate does up to three things to a pod, and says whether one of them takes
// something out of it.
func mutate(random *rand.Rand, pod *corev1.Pod) (taken bool) {
	for range random.IntN(4) {
		c := &pod.Spec.Containers[random.IntN(len(pod.Spec.Containers))]
		switch random.IntN(10) {
		case 0:
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("new", random.Uint32())})
		case 1:
			c.Image += "x"
		case 2:
			slices.Reverse(pod.Spec.Containers)
		case 3:
			c.Env = append([]corev1.EnvVar{{Name: fmt.Sprint("N", random.Uint32())}}, c.Env...)
		case 4:
			pod.Labels["x/y"] = "z"
		case 5:
			c.SecurityContext = &corev1.SecurityContext{Privileged: new(bool)}
		case 6:
			pod.Spec.HostNetwork = !pod.Spec.HostNetwork
		case 7:
			for i := range c.EnvFrom {
				c.EnvFrom[i].Prefix += "P"
			}
		case 8:
			c.VolumeMounts, taken = nil, true
		case 9:
			pod.Spec.Containers, taken = pod.Spec.Containers[:1], true
		}
	}
	return taken
}

func randomValue(random *rand.Rand, depth int) any {
	switch kind := random.IntN(8); {
	case depth == 0 || kind < 3:
		return []any{nil, true, false, "", "a/b~c\"", json.Number("1.5"), json.Number("12345678901234567890")}[random.IntN(7)]
	case kind < 6:
		m := map[string]any{}
		for range random.IntN(22) {
			m[[]string{"name", "a", "b/c", "d~e", "é"}[random.IntN(5)]+strings.Repeat("x", random.IntN(6))] = randomValue(random, depth-1)
		}
		return m
	}
	l := []any{}
	for range random.IntN(5) {
		l = append(l, randomValue(random, depth-1))
	}
	return l
}

// edited is a value like another.
func edited(random *rand.Rand, value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range value {
			if random.IntN(6) > 0 {
				out[name] = edited(random, inner)
			}
		}
		if random.IntN(3) == 0 {
			out["added"] = randomValue(random, 1)
		}
		return out
	case []any:
		out := []any{}
		for _, inner := range value {
			if random.IntN(6) > 0 {
				out = append(out, edited(random, inner))
			}
		}
		if random.IntN(3) == 0 {
			out = slices.Insert(out, random.IntN(len(out)+1), randomValue(random, 2))
		}
		return out
	}
	if random.IntN(6) == 0 {
		return randomValue(random, 1)
	}
	return value
}

func TestPatchFor(t *testing.T) {
	raw := `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}}}`
	for name, c := range map[string]struct {
		response  hook.ReviewResponse
		raw, want string
		wantErr   string
	}{
		"nothing":              {raw: raw},
		"the same object":      {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}}`)}},
		"an object":            {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}, want: `[{"op":"remove","path":"/metadata"}]`},
		"an object of another": {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(`{"apiVersion":"v1","kind":"Job"}`)}, wantErr: `object: kind must stay "Pod", is "Job"`},
		"an object of none":    {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(`{}`)}, wantErr: `object: apiVersion must stay "v1"`},
		"no object":            {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(`[]`)}, wantErr: `object: must be an object`},
		"a merge patch":        {raw: raw, response: hook.ReviewResponse{Patch: json.RawMessage(`{"metadata":{"labels":{"a":null,"c":"d"},"annotations":{"x":"y","z":null}},"spec":null}`)}, want: `[{"op":"add","path":"/metadata/annotations","value":{"x":"y"}},{"op":"remove","path":"/metadata/labels/a"},{"op":"add","path":"/metadata/labels/c","value":"d"}]`},
		"an empty merge patch": {raw: raw, response: hook.ReviewResponse{Patch: json.RawMessage(`{"metadata":{"labels":{"a":"b","z":null}}}`)}},
		"no merge patch":       {raw: raw, response: hook.ReviewResponse{Patch: json.RawMessage(`[]`)}, wantErr: "patch: must be an object"},
		"a JSON patch":         {raw: raw, response: hook.ReviewResponse{JSONPatch: json.RawMessage(`[{"op":"remove","path":"/metadata"}]`)}, want: `[{"op":"remove","path":"/metadata"}]`},
		"two of them":          {raw: raw, response: hook.ReviewResponse{Object: json.RawMessage(raw), Patch: json.RawMessage(`{}`)}, wantErr: "mutually exclusive"},
		"of a deletion":        {response: hook.ReviewResponse{Patch: json.RawMessage(`{"a":1}`)}, wantErr: "DELETE has no object"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &hook.ReviewRequest{Operation: hook.OperationDelete}
			if c.raw != "" {
				r.Object = json.RawMessage(c.raw)
			}
			got, err := For(r, &c.response)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error %v, want %q", err, c.wantErr)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func applied(t *testing.T, raw, patch []byte) []byte {
	t.Helper()
	return must.Get(must.Get(jsonpatch.DecodePatch(patch)).In(t).Apply(raw)).In(t)
}

func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	decodeInto(t, a, &x)
	decodeInto(t, b, &y)
	return reflect.DeepEqual(x, y)
}

func decodeInto(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	return must.Get(json.Marshal(value)).In(t)
}
