package trigger

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Digests are compared across processes and releases: they must not change.
func TestDigestsAreStable(t *testing.T) {
	o := parse(t, `{"kind":"Rate","apiVersion":"example.org/v1","metadata":{"name":"eur","labels":{"b":"1","a":"2"}},"spec":{"n":12345678901234567,"f":1.5,"list":[1,"x",null]}}`)
	if got, want := lasthandled.Digest(watchableFields(o)), "AFSSM2CmfuLm"; got != want {
		t.Errorf("the digest is %q, was %q", got, want)
	}
}

func TestWatchedFields(t *testing.T) {
	const before = `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","uid":"u","generation":1,"resourceVersion":"1","labels":{"l":"1"}},"spec":{"n":1,"m":{"x":1}},"status":{"s":1}}`
	for name, c := range map[string]struct {
		old, new string
		fields   [][]string
		same     bool
	}{
		"spec":                         {`"n":1`, `"n":2`, nil, false},
		"label":                        {`"l":"1"`, `"l":"2"`, nil, false},
		"annotation":                   {`"labels"`, `"annotations":{"x":"1"},"labels"`, nil, false},
		"status":                       {`"s":1`, `"s":2`, nil, true},
		"version":                      {`"resourceVersion":"1"`, `"resourceVersion":"2"`, nil, true},
		"finalizer":                    {`"labels"`, `"finalizers":["x"],"labels"`, nil, true},
		"owner":                        {`"labels"`, `"ownerReferences":[],"labels"`, nil, true},
		"our record":                   {`"labels"`, `"annotations":{"setpoint.dev/handled-by-x":"{}"},"labels"`, nil, true},
		"what kubectl notes":           {`"labels"`, `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"labels"`, nil, true},
		"ignored annotation":           {`"labels"`, `"annotations":{"own.dev/progress":"{}"},"labels"`, nil, true},
		"ignored under annotations":    {`"labels"`, `"annotations":{"own.dev/progress":"{}"},"labels"`, [][]string{{"metadata", "annotations"}}, true},
		"order of members":             {`"n":1,"m":{"x":1}`, `"m":{"x":1},"n":1`, nil, true},
		"field":                        {`"n":1`, `"n":2`, [][]string{{"spec", "n"}}, false},
		"another field":                {`"n":1`, `"n":2`, [][]string{{"spec", "m"}}, true},
		"below a field":                {`"x":1`, `"x":2`, [][]string{{"spec", "m"}}, false},
		"field of the status":          {`"s":1`, `"s":2`, [][]string{{"status", "s"}}, false},
		"field that appears":           {`"n":1`, `"n":1,"new":null`, [][]string{{"spec", "new"}}, true},
		"record under all annotations": {`"labels"`, `"annotations":{"setpoint.dev/handled-by-x":"{}"},"labels"`, [][]string{{"metadata", "annotations"}}, true},
	} {
		h := Handler{Fields: c.fields, IgnoredAnnotations: []string{"own.dev/"}}
		after := parse(t, strings.Replace(before, c.old, c.new, 1))
		if same := lasthandled.Digest(h.WatchedFields(parse(t, before))) == lasthandled.Digest(h.WatchedFields(after)); same != c.same {
			t.Errorf("%s: same is %v", name, same)
		}
	}
}

// The order of objects in a watch does not matter, nor do cached digests.
func TestOwnedDigest(t *testing.T) {
	a := parse(t, `{"kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}`)
	b := parse(t, `{"kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"1"}}`)
	changed := parse(t, `{"kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"2"}}`)
	var once, twice, other Pass
	first := once.DigestOwned([]*object.Object{a, b})
	twice.DigestOwned([]*object.Object{a})
	if again := twice.DigestOwned([]*object.Object{b, a}); again != first {
		t.Errorf("got %s and %s", first, again)
	}
	if now := twice.DigestOwned([]*object.Object{a, changed}); now == first || now != other.DigestOwned([]*object.Object{changed, a}) {
		t.Errorf("a change: got %s", now)
	}
}

// A response that changes watched fields affects the handlers that watch them, and no others.
func TestAfterResponse(t *testing.T) {
	o := parse(t, `{"kind":"Rate","metadata":{"name":"eur"},"spec":{"n":1},"status":{"s":1}}`)
	patch, status := &hook.HandlerResponse{Patch: []byte(`{"spec":{"n":2}}`)}, &hook.HandlerResponse{Status: []byte(`{"s":2}`)}
	for name, c := range map[string]struct {
		fields   [][]string
		response *hook.HandlerResponse
		news     bool
	}{
		"nothing":                 {nil, &hook.HandlerResponse{}, false},
		"a patch, all":            {nil, patch, true},
		"a patch, the field":      {[][]string{{"spec", "n"}}, patch, true},
		"a status, all":           {nil, status, false},
		"a status, another":       {[][]string{{"spec", "n"}}, status, false},
		"a status, it is a field": {[][]string{{"spec"}, {"status", "s"}}, status, true},
	} {
		h := &State{Handler: &Handler{Fields: c.fields}}
		before := seen{lasthandled.Digest(h.WatchedFields(o)), o}
		after := h.patched(before, patchOf(h, &Response{Call: Call{Handler: h}, Response: c.response}))
		if events := after.digest != before.digest; events != c.news {
			t.Errorf("%s: news %v", name, events)
		}
	}
}

func TestConflictingFields(t *testing.T) {
	const seen = `{"a":{"b":1,"c":1},"list":[1],"text":"x"}`
	for _, c := range []struct{ patch, now, want string }{
		{`{"a":{"b":2}}`, `{"a":{"b":1,"c":2},"list":[1],"text":"x"}`, ""},
		{`{"a":{"b":2}}`, `{"a":{"b":3,"c":1},"list":[1],"text":"x"}`, "spec.a.b"},
		{`{"a":{"b":3}}`, `{"a":{"b":3,"c":1},"list":[1],"text":"x"}`, ""},
		{`{"a":{"b":2}}`, `{"list":[1],"text":"x"}`, "spec.a.b"},
		{`{"a":{"b":2}}`, `{"a":7,"list":[1],"text":"x"}`, "spec.a"},
		{`{"a":null}`, `{"a":{"b":1,"c":2},"list":[1],"text":"x"}`, "spec.a"},
		{`{"list":[1,2],"text":"y"}`, `{"a":{"b":1,"c":1},"list":[3],"text":"z"}`, "spec.list spec.text"},
		{`{"new":{"x":1}}`, `{"a":{"b":1,"c":1},"list":[1],"text":"x","new":{"y":1}}`, ""},
	} {
		of := func(spec string) *object.Object {
			return must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"Rate","metadata":{"name":"eur"},"spec":` + spec + `}`))).In(t)
		}
		got := ConflictingFields(&hook.HandlerResponse{Patch: json.RawMessage(`{"spec":` + c.patch + `}`)}, of(seen), of(c.now), true)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s: %v, want %s", c.patch, c.now, got, c.want)
		}
	}
}

// Fault H11: hooks and Go programs watch the same fields.
func TestParseField(t *testing.T) {
	for text, want := range map[string]string{
		"spec":                                   "spec",
		"spec.currency":                          "spec|currency",
		`data["config.cfg"]`:                     "data|config.cfg",
		`['odd.name'].x["y.z"].w`:                "odd.name|x|y.z|w",
		`metadata.annotations["a.b/c"]`:          "metadata|annotations|a.b/c",
		"metadata.labels":                        "metadata|labels",
		"status.phase":                           "status|phase",
		"":                                       "field path is empty",
		"spec..x":                                "a name is missing",
		"spec.":                                  "a name is missing",
		".spec":                                  "a name is missing",
		"spec.containers[0].image":               "list items cannot be selected",
		`data["config.cfg`:                       "a bracket is not closed",
		`data[""]`:                               "a bracket is not closed, or empty",
		`data["a"]b`:                             `"b" follows a bracket`,
		"metadata":                               "changes with every write",
		"metadata.resourceVersion":               "changes with every write",
		"metadata.labels.example.com/a":          `leads into a string; quote a name that contains dots: metadata.labels["example.com/note"]`,
		"kind":                                   "never changes",
		"metadata.annotations.a b":               "metadata|annotations|a b",
		`data["quoted ] inside"]["another.one"]`: "data|quoted ] inside|another.one",
	} {
		path, err := ParseField(text)
		if got := strings.Join(path, "|"); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}

// Own bookkeeping is no other state of an object.
func TestStateDigest(t *testing.T) {
	p := Rules{Finalizer: "setpoint.dev/test", ReplacedFinalizers: []string{"old/one"}}
	digestOf := func(text string) string {
		o := must.Get(object.Parse([]byte(text))).In(t)
		return p.stateDigest(o)
	}
	plain := digestOf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","resourceVersion":"1"}}`)
	if plain != digestOf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","resourceVersion":"2","generation":3,"managedFields":[],`+
		`"finalizers":["old/one","setpoint.dev/test"],"annotations":{"setpoint.dev/handled-by-test":"x"}},"status":{"setpointHandledBy":{"test":"x"}}}`) {
		t.Error("own bookkeeping changes the state")
	}
	for _, other := range []string{
		`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","finalizers":["other"]}}`,
		`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"status":{"phase":"x"}}`,
		`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
	} {
		if digestOf(other) == plain {
			t.Errorf("%s is the same state", other)
		}
	}
}
