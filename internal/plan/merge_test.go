package plan

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// TestMerge reads observed.yaml, applied.yaml and desired.yaml, and compares the result with
// merged.yaml.
func TestMerge(t *testing.T) {
	eachVector(t, "testdata/merge/*.txtar", func(t *testing.T, files map[string][]byte) string {
		observed, applied, desired := treeOf(t, files["observed.yaml"]), treeOf(t, files["applied.yaml"]), treeOf(t, files["desired.yaml"])
		before := jsonOf(t, []any{observed, applied, desired})
		merged := string(must.Get(yaml.Marshal(merger{keys: object.ChildKeys}.merge(observed, applied, desired))).In(t))
		if after := jsonOf(t, []any{observed, applied, desired}); after != before {
			t.Errorf("the inputs were changed to %s", after)
		}
		return merged
	})
}

// Empty values that were applied and are absent were dropped by the server.
func TestIgnoreEmpty(t *testing.T) {
	for name, c := range map[string]struct{ observed, applied, desired, merged string }{
		"dropped": {
			`{}`, `{env: [], labels: {}, value: "", tty: false, n: 0}`, `{env: [], labels: {}, value: "", tty: false, n: 0.0}`, `{}`},
		"never applied": {
			`{}`, `{}`, `{env: [], labels: {}}`, `{env: [], labels: {}}`},
		"applied as something else": {
			`{}`, `{env: [{name: a}], tty: true, s: ""}`, `{env: [], tty: false, s: x}`, `{env: [], tty: false, s: x}`},
		"in items of lists": {
			`{env: [{name: A}]}`, `{env: [{name: A, value: ""}]}`, `{env: [{name: A, value: ""}]}`, `{env: [{name: A}]}`},
		"not dropped but changed": {
			`{tty: true, n: 1}`, `{tty: false, n: 0}`, `{tty: false, n: 0}`, `{tty: false, n: 0}`},
	} {
		got := merger{keys: object.ChildKeys, ignoreEmpty: true}.merge(
			treeOf(t, []byte(c.observed)), treeOf(t, []byte(c.applied)), treeOf(t, []byte(c.desired)))
		if fieldPath := object.FirstDifference(got, treeOf(t, []byte(c.merged))); fieldPath != "" {
			t.Errorf("%s: got %s, want %s", name, jsonOf(t, got), c.merged)
		}
	}
}

// A kind with a CRD gets an apply for a change that is an update of a built-in kind: the cache may have a
// default that the CRD has no longer, and an update would write it. So does one whose CRD cannot be read, and one of an
// aggregated API.
func TestUpdateInsteadOfApply(t *testing.T) {
	const created = `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"town","labels":{"a":"1"}},"spec":{"replicas":1}}`
	const wanted = `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"town","labels":{"a":"2"}},"spec":{"replicas":2}}`
	of := func(group, kind string) object.Resource {
		return object.Resource{Group: group, Version: "v1", Plural: "all", Kind: kind, Namespaced: true}
	}
	for _, c := range []struct {
		resource object.Resource
		update   bool
	}{
		{object.Resource{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true, Status: true, Custom: true}, false},
		{of("example.org", "Web"), false},
		{of("snapshot.storage.k8s.io", "VolumeSnapshot"), false},
		{of("apps", "Deployment"), true},
	} {
		f := plannerOf(t, nil)
		rule := Rule{Resource: c.resource, Method: InPlace, Strategy: ServerSide}
		desired := func(format string) []Child {
			return []Child{{Object: parse(t, fmt.Sprintf(format, c.resource.APIVersion(), c.resource.Kind)), Rule: rule}}
		}
		first := must.Get(f.Changes(nil, desired(created), nil)).In(t)
		observed := applyPlan(t, nil, first)
		p := must.Get(f.Changes(observed, desired(wanted), nil)).In(t)
		if all := p.Actions(); len(all) != 1 || all[0].Verb != Apply || (all[0].Update != nil) != c.update {
			t.Errorf("%s: planned %s, the test expects one apply, by an update: %v", c.resource, describe(t, p), c.update)
		}
	}
}

func TestMissingField(t *testing.T) {
	for name, c := range map[string]struct{ observed, desired, want string }{
		"all there, and more":         {`{data: {k: v, theirs: x}, metadata: {labels: {app: x, theirs: x}}}`, `{data: {k: v}, metadata: {labels: {app: x}}}`, ""},
		"another value":               {`{data: {k: w}}`, `{data: {k: v}}`, "data.k"},
		"another label":               {`{metadata: {labels: {app: z}}}`, `{metadata: {labels: {app: x}}}`, "metadata.labels.app"},
		"missing":                     {`{spec: {}}`, `{spec: {replicas: 0}}`, "spec.replicas"},
		"another type":                {`{spec: [a]}`, `{spec: {a: b}}`, "spec"},
		"defaults in items":           {`{ports: [{port: 80, protocol: TCP}]}`, `{ports: [{port: 80}]}`, ""},
		"another item":                {`{ports: [{port: 80}, {port: 81}]}`, `{ports: [{port: 80}]}`, "ports"},
		"another order":               {`{env: [{name: B}, {name: A}]}`, `{env: [{name: A}, {name: B}]}`, "env[0].name"},
		"more in items without a key": {`{rules: [{from: [], to: []}]}`, `{rules: [{from: []}]}`, "rules[0].to"},
		"values":                      {`{args: [a, b]}`, `{args: [a, c]}`, "args[1]"},
		"numbers":                     {`{n: 1}`, `{n: 1.0}`, ""},
		"others' finalizers":          {`{metadata: {finalizers: [b, a]}}`, `{metadata: {finalizers: [a]}}`, ""},
		"a finalizer":                 {`{metadata: {finalizers: [b]}}`, `{metadata: {finalizers: [a]}}`, "metadata.finalizers"},
		"others' owners":              {`{metadata: {ownerReferences: [{uid: p, name: p}, {uid: o, name: o}]}}`, `{metadata: {ownerReferences: [{uid: o}]}}`, ""},
		"an owner":                    {`{metadata: {ownerReferences: [{uid: p}]}}`, `{metadata: {ownerReferences: [{uid: o}]}}`, "metadata.ownerReferences"},
	} {
		observed, desired := treeOf(t, []byte(c.observed)).(map[string]any), treeOf(t, []byte(c.desired)).(map[string]any)
		if got := missingField(observed, desired); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestHasLeftovers(t *testing.T) {
	for name, c := range map[string]struct {
		stored, applied string
		want            bool
	}{
		"as applied":           {`{spec: {l: [{name: a, x: 1}]}}`, `{spec: {l: [{name: a}]}}`, false},
		"one more":             {`{spec: {l: [{name: a}, {name: b}]}}`, `{spec: {l: [{name: a}]}}`, true},
		"one more within":      {`{spec: {l: [{name: a, m: [1, 2]}]}}`, `{spec: {l: [{name: a, m: [1]}]}}`, true},
		"a list not applied":   {`{spec: {l: [1], k: v}}`, `{spec: {k: v}}`, false},
		"one less":             {`{spec: {l: []}}`, `{spec: {l: [1]}}`, false},
		"others' owners":       {`{metadata: {ownerReferences: [{uid: a}, {uid: b}]}}`, `{metadata: {ownerReferences: [{uid: a}]}}`, false},
		"it is another by now": {`{spec: {l: {}}}`, `{spec: {l: [1]}}`, false},
	} {
		stored, applied := parse(t, jsonOf(t, treeOf(t, []byte(c.stored)))), parse(t, jsonOf(t, treeOf(t, []byte(c.applied))))
		if got, err := HasLeftovers(applied, stored); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// A merge with the field set of what was applied has the same result as one with the values, as
// long as the desired object is the same.
func TestFieldSetIsEnoughForAMerge(t *testing.T) {
	seeded(t, 3000, func(t *testing.T, g generator) {
		desired := g.object(4)
		observed := g.objectLike(desired)
		whole := merger{keys: object.ChildKeys}.objects(observed, desired, desired)
		outlined := merger{keys: object.ChildKeys, valuesOmitted: true}.objects(observed, objectFieldSet(desired, false), desired)
		if fieldPath := object.FirstDifference(whole, outlined); fieldPath != "" {
			t.Errorf("%s differs\nobserved, desired: %s\nwhole:    %s\noutlined: %s", fieldPath,
				jsonOf(t, []any{observed, desired}), jsonOf(t, whole), jsonOf(t, outlined))
		}
	})
}

func TestMergeByFieldSetIsIdempotent(t *testing.T) {
	seeded(t, 3000, func(t *testing.T, g generator) {
		desired := g.object(4)
		checkIdempotentByFieldSet(t, g.objectLike(desired), g.objectLike(desired), desired)
	})
}

func checkIdempotentByFieldSet(t *testing.T, observed, applied, desired map[string]any) {
	t.Helper()
	m := merger{keys: object.ChildKeys, valuesOmitted: true}
	merged := m.objects(observed, objectFieldSet(applied, false), desired)
	again := m.objects(merged, objectFieldSet(desired, false), desired)
	if fieldPath := object.FirstDifference(merged, again); fieldPath != "" {
		t.Errorf("merged again by outline, %s differs\nobserved, applied, desired: %s", fieldPath, jsonOf(t, []any{observed, applied, desired}))
	}
}

// Fields that were applied and are no longer desired are removed.
func TestFieldSetKnowsWhatToRemove(t *testing.T) {
	read := func(text string) map[string]any {
		return must.Get(object.Decode([]byte(text))).In(t)
	}
	observed := read(`{"data":{"a":"1","b":"2","theirs":"3"},"env":[{"name":"A","value":"x"},{"name":"B"},{"name":"THEIRS"}]}`)
	applied := read(`{"data":{"a":"1","b":"2"},"env":[{"name":"A","value":"x"},{"name":"B"}]}`)
	desired := read(`{"data":{"a":"1"},"env":[{"name":"A"}]}`)
	merged := merger{keys: object.ChildKeys, valuesOmitted: true}.objects(observed, objectFieldSet(applied, false), desired)
	want := `{"data":{"a":"1","theirs":"3"},"env":[{"name":"A"},{"name":"THEIRS"}]}`
	if got := jsonOf(t, merged); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFieldSetHasNoValues(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Secret","stringData":{"password":"s3cret"}}`:                              `{"kind":{},"stringData":{"password":{}}}`,
		`{"env":[{"name":"A","value":"s3cret"}]}`:                                           `{"env":[{"name":"A","value":{}}]}`,
		`{"ports":[{"containerPort":80,"protocol":"TCP","hostPort":1}]}`:                    `{"ports":[{"containerPort":80,"hostPort":{},"protocol":"TCP"}]}`,
		`{"args":["--password","s3cret"]}`:                                                  `{"args":[{},{}]}`,
		`{"items":[{"name":"a","token":"s3cret"},{"name":"a"}]}`:                            `{"items":[{"name":{},"token":{}},{"name":{}}]}`,
		`{"name":"s3cret","spec":{"path":"s3cret","list":[{"name":{"x":"s3cret"}}]},"n":1}`: `{"n":{},"name":{},"spec":{"list":[{"name":{"x":{}}}],"path":{}}}`,
	} {
		fields := must.Get(object.Decode([]byte(text))).In(t)
		got := jsonOf(t, fieldSet(fields))
		if got != want || strings.Contains(got, "s3cret") {
			t.Errorf("outline of %s is %s, want %s", text, got, want)
		}
	}
}

// Equal hashes mean equal field sets, whatever the values.
func TestFieldSetHash(t *testing.T) {
	seeded(t, 2000, func(t *testing.T, g generator) {
		a := g.object(4)
		b := g.objectLike(a)
		if fieldSetHash(a) != fieldSetHash(b) {
			return
		}
		if fieldPath := object.FirstDifference(objectFieldSet(a, false), objectFieldSet(b, false)); fieldPath != "" {
			t.Errorf("one hash, but %s differs in %s", fieldPath, jsonOf(t, []any{a, b}))
		}
	})
	const desired = `{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`
	for text, same := range map[string]bool{
		`{"n":2.5,"data":{"a":""},"args":["z","y"],"ports":[{"targetPort":"web","port":80.0},{"port":81}]}`: true,
		`{"data":{"a":"s3cret"},"args":["x"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`:       false,
		`{"data":{"b":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":82}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80},{"port":81,"targetPort":1}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}]}`:         false,
	} {
		one, err := object.Decode([]byte(desired))
		other, err2 := object.Decode([]byte(text))
		if err != nil || err2 != nil || (fieldSetHash(one) == fieldSetHash(other)) != same {
			t.Errorf("one hash as %s: %v, %v, want %v", text, err, err2, same)
		}
	}
}

// Two ports of a Service with one number and different protocols are two; in a CRD, whose schema is not known, one.
func TestOverlayOfPorts(t *testing.T) {
	for api, c := range map[string]struct{ have, want, overlaid string }{
		"v1":             {`[{"port":53,"protocol":"UDP"}]`, `[{"port":53}]`, `[{"port":53,"protocol":"UDP"},{"port":53}]`},
		"example.org/v1": {`[{"port":443,"protocol":"HTTP"}]`, `[{"port":443}]`, `[{"port":443,"protocol":"HTTP"}]`},
	} {
		of := func(ports string) *object.Object {
			return parse(t, fmt.Sprintf(`{"apiVersion":%q,"kind":"Service","metadata":{"name":"a"},"spec":{"ports":%s}}`, api, ports))
		}
		if got := string(must.Get(Overlay(of(c.have), of(c.want))).In(t).Field("spec", "ports")); got != c.overlaid {
			t.Errorf("%s: got %s, want %s", api, got, c.overlaid)
		}
	}
}

// A null removes what the server has set on the port, also if the response leaves its protocol open.
func TestRemoveNullsOfPorts(t *testing.T) {
	have := treeOf(t, []byte(`ports: [{port: 53, protocol: UDP, nodePort: 30000}]`))
	if !RemoveNulls(have, treeOf(t, []byte(`ports: [{port: 53, nodePort: null}]`))) || strings.Contains(jsonOf(t, have), "nodePort") {
		t.Errorf("got %s", jsonOf(t, have))
	}
}
