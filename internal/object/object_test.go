package object_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u-1",` +
	`"resourceVersion":"41","generation":3,"labels":{"tier":"front","app":"web"},"annotations":{"a":"b"},` +
	`"managedFields":[{"manager":"x"}],"finalizers":["keep"],"ownerReferences":[` +
	`{"apiVersion":"v1","kind":"Node","name":"n","uid":"o-0"},` +
	`{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o-1","controller":true}]},` +
	`"spec":{"image":"a"},"status":{"phase":"Running"}}`

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

func TestParseReadsMetadata(t *testing.T) {
	o := parse(t, pod)
	owner, owned := o.Controller()
	if !owned || !o.ControlledBy("o-1") || o.ControlledBy("o-0") {
		t.Errorf("owned: %v, by %v", owned, owner)
	}
	got := []any{o.APIVersion(), o.Kind(), o.Namespace(), o.Name(), o.UID(), o.Version(), o.Generation(),
		slices.Collect(o.Labels().All()), o.Finalizers(), owner, o.Deleting(), o.Ref().String()}
	want := []any{"v1", "Pod", "shop", "web", "u-1", uint64(41), int64(3),
		[]object.Label{{Key: "tier", Value: "front"}, {Key: "app", Value: "web"}}, []string{"keep"},
		object.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "o-1"}, false, "Pod shop/web"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseDropsManagedFields(t *testing.T) {
	for text, want := range map[string]string{
		`{"metadata":{"managedFields":[{"a":1}],"name":"x"}}`:            `{"metadata":{"name":"x"}}`,
		`{"metadata":{"name":"x","managedFields":[{"a":1}]}}`:            `{"metadata":{"name":"x"}}`,
		`{"metadata":{"managedFields":[]}}`:                              `{"metadata":{}}`,
		`{"metadata":{"a":1,"managedFields":[{"a":"}"}],"name":"x"}}`:    `{"metadata":{"a":1,"name":"x"}}`,
		"  {\"metadata\": { \"managedFields\": [] , \"name\": \"x\" }} ": `{"metadata": { "name": "x" }}`,
		`{"spec":{"managedFields":[1]},"metadata":{"name":"x"}}`:         `{"spec":{"managedFields":[1]},"metadata":{"name":"x"}}`,
	} {
		if got := string(parse(t, text).JSON()); got != want {
			t.Errorf("Parse(%s) keeps %s, want %s", text, got, want)
		}
	}
}

// Fault M6: managedFields are available beside the JSON, and stay when other fields are set.
func TestParseWithManagedFields(t *testing.T) {
	const entries = `[{"manager":"x","fieldsV1":{"f:a:b":{}}}]`
	for text, want := range map[string]string{
		`{"metadata":{"managedFields":` + entries + `,"name":"x"}}`:                `{"metadata":{"name":"x","managedFields":` + entries + `}}`,
		`{"metadata":{"name":"x", "managedFields" : ` + entries + ` }}`:            `{"metadata":{"name":"x","managedFields":` + entries + `}}`,
		`{"metadata":{"name":"x","uid":"\u0041","managedFields":` + entries + `}}`: `{"metadata":{"name":"x","uid":"\u0041","managedFields":` + entries + `}}`,
		`{"metadata":{"name":"x"}}`:                                                `{"metadata":{"name":"x"}}`,
	} {
		o := must.Get(object.ParseWithManagedFields([]byte(text), "", "")).In(t)
		if got := string(o.JSONWithManagedFields()); got != want {
			t.Errorf("ParseWhole(%s) keeps %s, want %s", text, got, want)
		}
		bare := parse(t, text)
		if got, want := string(o.JSON()), string(bare.JSON()); got != want || o.Digest() != bare.Digest() || o.UID() != bare.UID() {
			t.Errorf("JSON of ParseWhole(%s) is %s, want %s", text, got, want)
		}
		if !bytes.Equal(bare.JSONWithManagedFields(), bare.JSON()) {
			t.Errorf("Parse(%s) keeps %s", text, bare.JSONWithManagedFields())
		}
		edited := must.Get(o.With([]byte("1"), "spec")).In(t)
		if got, want := string(edited.JSONWithManagedFields()), strings.TrimSuffix(want, "}")+`,"spec":1}`; got != want {
			t.Errorf("with a spec: %s, want %s", got, want)
		}
	}
}

func TestDigestChangesWithContent(t *testing.T) {
	base := parse(t, pod)
	for name, c := range map[string]struct {
		old, new       string
		digest, intent bool
	}{
		"resource version": {`"41"`, `"42"`, false, false},
		"managed fields":   {`"manager":"x"`, `"manager":"longer","time":"now"`, false, false},
		"status":           {"Running", "Failed", true, false},
		"label":            {`"app":"web"`, `"app":"api"`, true, true},
		"annotation":       {`"a":"b"`, `"a":"c"`, true, true},
		"generation":       {`"generation":3`, `"generation":4`, true, true},
		"deletion":         {`"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, true, true},
	} {
		changed := parse(t, strings.Replace(pod, c.old, c.new, 1))
		if moved := changed.Digest() != base.Digest(); moved != c.digest {
			t.Errorf("%s: digest moved: %v, want %v", name, moved, c.digest)
		}
		if moved := changed.IntentDigest() != base.IntentDigest(); moved != c.intent {
			t.Errorf("%s: intent moved: %v, want %v", name, moved, c.intent)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                   "must be an object, is a list",
		`{"kind":7}`:                           "kind: must be a string",
		`{"metadata":{"labels":{"a":1}}}`:      "metadata.labels.a: must be a string",
		`{"metadata":{"ownerReferences":{}}}`:  "metadata.ownerReferences: must be a list",
		`{"metadata":{"finalizers":[1]}}`:      "metadata.finalizers[0]: must be a string",
		`{"metadata":{"generation":"1"}}`:      "metadata.generation: must be an integer",
		`{"metadata":{"resourceVersion":"x"}}`: `metadata.resourceVersion: resource version "x" is no integer`,
		`{"metadata":{"name":"x"}`:             "unexpected EOF",
		`{} {}`:                                "more than one JSON value",
		`{}A`:                                  "more than one JSON value",
		``:                                     "EOF",
		`null`:                                 "must be an object, is null",
		strings.Repeat(`{"a":`, 20000):         "exceeded max depth",
	} {
		_, err := object.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestParseAsSetsTypeOfListItems(t *testing.T) {
	const whole = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"x"}}`
	for text, want := range map[string]string{
		`{"metadata":{"name":"x"}}`:                            whole,
		`{"apiVersion":"apps/v1","metadata":{"name":"x"}}`:     whole,
		`{"kind":"Deployment"}`:                                `{"apiVersion":"apps/v1","kind":"Deployment"}`,
		"{" + strings.Repeat(" ", 60) + `"kind":"Deployment"}`: `{"apiVersion":"apps/v1","kind":"Deployment"}`,
		`{ }`:                                `{"kind":"Deployment","apiVersion":"apps/v1"}`,
		`{"kind":"Scale","apiVersion":"v2"}`: `{"kind":"Scale","apiVersion":"v2"}`,
	} {
		o := must.Get(object.ParseAs([]byte(text), "apps/v1", "Deployment")).In(t)
		if got := string(o.JSON()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestDigestIgnoresOrigin checks that the digest does not depend on how an object was read or
// created.
func TestDigestIgnoresOrigin(t *testing.T) {
	base := parse(t, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"7","uid":"u"},"spec":{}}`)
	for name, text := range map[string]string{
		"managed fields before": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","managedFields":[{"a":1}],"resourceVersion":"8","uid":"u"},"spec":{}}`,
		"managed fields after":  `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"100","managedFields":[{"a":1}] , "uid":"u"},"spec":{}}`,
		"managed fields last":   `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"8","uid":"u", "managedFields":[]},"spec":{}}`,
		"item of a list":        `{"metadata":{"name":"x","managedFields":[{"a":1}],"resourceVersion":"8","uid":"u"},"spec":{}}`,
	} {
		o := must.Get(object.ParseAs([]byte(strings.Replace(text, `, "uid"`, `,"uid"`, 1)), "v1", "Pod")).In(t)
		if o.Digest() != base.Digest() {
			t.Errorf("%s: another digest of %s", name, o.JSON())
		}
		same, err := o.With([]byte(`"u"`), "metadata", "uid")
		if err != nil || same.Digest() != base.Digest() {
			t.Errorf("%s: set to what it was, it has another digest: %s", name, same.JSON())
		}
	}
}

func TestWith(t *testing.T) {
	for name, c := range map[string]struct {
		text, value string
		path        []string
		want        string
	}{
		"replaces":          {`{"a":1,"status":{"x":1},"b":2}`, `{"y":2}`, []string{"status"}, `{"a":1,"status":{"y":2},"b":2}`},
		"appends":           {`{"a":1}`, `{}`, []string{"status"}, `{"a":1,"status":{}}`},
		"fills an empty":    {`{}`, `1`, []string{"a"}, `{"a":1}`},
		"makes the way":     {`{"a":1}`, `"v"`, []string{"metadata", "labels", "k"}, `{"a":1,"metadata":{"labels":{"k":"v"}}}`},
		"fills a null":      {`{"metadata":{"labels":null}}`, `"v"`, []string{"metadata", "labels", "k"}, `{"metadata":{"labels":{"k":"v"}}}`},
		"removes":           {`{"a":1,"b":2,"c":3}`, ``, []string{"b"}, `{"a":1,"c":3}`},
		"removes the first": {`{"a":1,"b":2}`, ``, []string{"a"}, `{"b":2}`},
		"removes nothing":   {`{"a":1}`, ``, []string{"x", "y"}, `{"a":1}`},
		"escaped name":      {`{"\u0061":1}`, `2`, []string{"a"}, `{"\u0061":2}`},
	} {
		var value []byte
		if c.value != "" {
			value = []byte(c.value)
		}
		o, err := parse(t, c.text).With(value, c.path...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(o.JSON()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if _, err := parse(t, `{"spec":[1]}`).With([]byte("1"), "spec", "a"); err == nil {
		t.Error("setting a member of a list is no error")
	}
}

func TestField(t *testing.T) {
	o := parse(t, pod)
	if got := string(o.Field("spec", "image")); got != `"a"` {
		t.Errorf("spec.image = %s", got)
	}
	if got := o.Field("spec", "nothing", "there"); got != nil {
		t.Errorf("a missing field = %s", got)
	}
}

func TestResourcePath(t *testing.T) {
	deployments := object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Namespaced: true}
	nodes := object.Resource{Version: "v1", Plural: "nodes"}
	for got, want := range map[string]string{
		deployments.Path("shop", "web"): "/apis/apps/v1/namespaces/shop/deployments/web",
		deployments.Path("", ""):        "/apis/apps/v1/deployments",
		nodes.Path("ignored", "n"):      "/api/v1/nodes/n",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSortedIsInTheOrderOfTheWire(t *testing.T) {
	parts := []string{"a", "a-", "a-b", "a0", "a.b", "ab", "b", "team", "team-1"}
	var all object.Sorted
	for i := range len(parts) * len(parts) {
		o := parse(t, `{"metadata":{"namespace":"`+parts[i/len(parts)]+`","name":"`+parts[i%len(parts)]+`"}}`)
		if all.Put(o) != nil || all.Put(o) != o {
			t.Errorf("%s was there, or is not", o.Ref())
		}
	}
	if !slices.IsSortedFunc(all, func(a, b *object.Object) int { return strings.Compare(a.Ref().String(), b.Ref().String()) }) {
		t.Errorf("the order is %v", all)
	}
	for _, namespace := range parts {
		if of := all.In(namespace); len(of) != len(parts) || of[0].Namespace() != namespace || of[len(of)-1].Namespace() != namespace {
			t.Errorf("in %s: %v", namespace, of)
		}
	}
	if o := all[0]; len(all.In("tea")) > 0 || all.Remove(o) != o || all.Remove(o) != nil {
		t.Error("an object of no namespace, or one that is not removed")
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(strings.Replace(pod, `"image":"a"`, `"image":"`+strings.Repeat("a", 1200)+`"`, 1))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		must.Get(object.Parse(text)).In(b)
	}
}

// Fault H11: there is one parser of field paths.
func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		"spec":          "spec",
		"spec.template": "spec|template",
		`metadata.annotations["example.com/note"]`: "metadata|annotations|example.com/note",
		`metadata.labels['a.b/c'].x`:               "refused: leads into a string",
		`spec["a.b"].c["d"]["e"]`:                  "spec|a.b|c|d|e",
		`["spec"].x`:                               "spec|x",
		"metadata.annotations.example.com/note":    `refused: "metadata.annotations.example.com/note" leads into a string; quote a name that contains dots: metadata.annotations["example.com/note"]`,
		"":                                         "refused: field path is empty",
		"spec..x":                                  "refused: a name is missing",
		".spec":                                    "refused: a name is missing",
		"spec.":                                    "refused: a name is missing",
		"spec.a[0]":                                "refused: list items cannot be selected",
		`spec["a`:                                  "refused: a bracket is not closed",
		`spec["a"`:                                 "refused: a bracket is not closed",
		`spec[""]`:                                 "refused: a bracket is not closed, or empty",
		`spec["a"]b`:                               `refused: "b" follows a bracket`,
		"spec.a]":                                  `refused: "]" follows a bracket`,
	} {
		path, err := object.ParsePath(text)
		if _, problem, refused := strings.Cut(want, "refused: "); refused {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%s: %v %v, want %s", text, path, err, want)
			}
			continue
		}
		if err != nil || strings.Join(path, "|") != want {
			t.Errorf("%s: %v %v, want %s", text, path, err, want)
		}
		joined := ""
		for _, name := range path {
			joined = object.JoinPath(joined, name)
		}
		if again, err := object.ParsePath(joined); err != nil || !slices.Equal(again, path) {
			t.Errorf("%s is written %s, which reads %v %v", text, joined, again, err)
		}
		for field, rule := range pathRules(t) {
			if !rule.MatchString(text) {
				t.Errorf("%s refuses %s", field, text)
			}
		}
	}
}

// The API server rejects invalid paths, too.
func TestSchemasRejectInvalidPaths(t *testing.T) {
	for _, text := range []string{"", "spec..x", ".spec", "spec.", "spec.a[0]", `spec["a`, `spec["a"`, `spec[""]`, `spec["a"]b`, "spec.a]"} {
		if _, err := object.ParsePath(text); err == nil {
			t.Errorf("%s is parsed", text)
		}
		for field, rule := range pathRules(t) {
			if rule.MatchString(text) {
				t.Errorf("%s accepts %s", field, text)
			}
		}
	}
}

// pathRules returns the patterns in the CRDs, by the fields with paths.
func pathRules(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	rules := map[string]*regexp.Regexp{}
	for field, file := range map[string]string{
		"fieldPaths": "../../config/crd/setpoint.dev_compositecontrollers.yaml",
		"fields":     "../../config/crd/setpoint.dev_handlercontrollers.yaml",
	} {
		text := must.Get(os.ReadFile(file)).In(t)
		var crd any
		must.Succeed(t, yaml.Unmarshal(text, &crd))
		pattern := itemPattern(crd, field)
		if pattern == "" {
			t.Fatalf("%s has no pattern for the items of %s", file, field)
		}
		rules[field] = regexp.MustCompile(pattern)
	}
	return rules
}

// firstRulePattern returns the pattern of the first rule of a list.
func firstRulePattern(rules any) string {
	list, _ := rules.([]any)
	if len(list) == 0 {
		return ""
	}
	rule, _ := list[0].(map[string]any)
	text, _ := rule["rule"].(string)
	pattern, _ := strings.CutPrefix(text, `self.matches(r"`)
	return strings.TrimSuffix(pattern, `")`)
}

// itemPattern returns the pattern of the items of a list field.
func itemPattern(tree any, field string) string {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			if found := itemPattern(item, field); found != "" {
				return found
			}
		}
	case map[string]any:
		if list, is := tree[field].(map[string]any); is {
			if items, is := list["items"].(map[string]any); is {
				return firstRulePattern(items["x-kubernetes-validations"])
			}
		}
		for _, member := range tree {
			if found := itemPattern(member, field); found != "" {
				return found
			}
		}
	}
	return ""
}
