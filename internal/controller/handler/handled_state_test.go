package handler

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const key = "setpoint.dev/handled-by-test"

func TestHandledState(t *testing.T) {
	for name, c := range map[string]struct {
		annotations string
		want        handledState
	}{
		"none":               {`{}`, handledState{}},
		"stripped":           {`null`, handledState{}},
		"whole":              {quoted(`{"a":{"seen":"x","tries":2,"since":5},"b":{"done":true}}`), handledState{"a": {Digest: "x", Attempts: 2, Since: 5}, "b": {Done: true}}},
		"not JSON":           {quoted(`{"a":`), handledState{}},
		"a list":             {quoted(`[1]`), handledState{}},
		"null":               {quoted(`null`), handledState{}},
		"wrong types":        {quoted(`{"a":{"seen":7}}`), handledState{}},
		"of a later release": {quoted(`{"a":{"seen":"x","more":{}}}`), handledState{"a": {Digest: "x"}}},
	} {
		o := parse(t, `{"kind":"Rate","metadata":{"name":"eur","uid":"u","annotations":`+c.annotations+`}}`)
		got := readHandledState(o, "metadata", "annotations", key)
		delete(got, uidEntry)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: read %v, want %v", name, got, c.want)
		}
	}
}

func quoted(text string) string {
	text = strings.Replace(text, `{"a":`, `{"~":{"seen":"`+uidDigest("u")+`"},"a":`, 1)
	data, _ := json.Marshal(text)
	return fmt.Sprintf(`{%q:%s}`, key, data)
}

func TestHandledStateIsSmall(t *testing.T) {
	text := handledState{"publish": {Digest: digest(map[string]any{"a": strings.Repeat("x", 10_000)})}}.String()
	if len(text) > 40 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// Digests are compared across processes and releases: they must not change.
func TestDigestsAreStable(t *testing.T) {
	o := parse(t, `{"kind":"Rate","apiVersion":"example.org/v1","metadata":{"name":"eur","labels":{"b":"1","a":"2"}},"spec":{"n":12345678901234567,"f":1.5,"list":[1,"x",null]}}`)
	if got, want := digest(watchableFields(o)), "AFSSM2CmfuLm"; got != want {
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
		if same := digest(h.watchedFields(parse(t, before))) == digest(h.watchedFields(after)); same != c.same {
			t.Errorf("%s: same is %v", name, same)
		}
	}
}

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"nothing":   {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, ``},
		"value":     {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `spec.a 1 2`},
		"added":     {`{"spec":{}}`, `{"spec":{"a":{"b":2}}}`, `spec.a  {"b":2}`},
		"removed":   {`{"spec":{"a":[1]}}`, `{"spec":{}}`, `spec.a [1] `},
		"item":      {`{"spec":{"c":[{"n":1,"i":"x"},{"n":2}]}}`, `{"spec":{"c":[{"n":1,"i":"y"}]}}`, `spec.c[0].i "x" "y"; spec.c[1] {"n":2} `},
		"type":      {`{"spec":{"a":1}}`, `{"spec":{"a":"1"}}`, `spec.a 1 "1"`},
		"in order":  {`{"spec":{"b":1,"a":1},"data":{"x":"1"}}`, `{"spec":{"b":2,"a":2},"data":{"x":"2"}}`, `data.x "1" "2"; spec.a 1 2; spec.b 1 2`},
		"status":    {`{"spec":{},"status":{"a":1}}`, `{"spec":{},"status":{"a":2}}`, ``},
		"label":     {`{"metadata":{"labels":{"a.b/c":"1"}}}`, `{"metadata":{"labels":{"a.b/c":"2"}}}`, `metadata.labels["a.b/c"] "1" "2"`},
		"the whole": {`{"spec":{"a":null}}`, `{"spec":{}}`, ``},
	} {
		var h Handler
		var lines []string
		for _, d := range h.Changes(parse(t, c.old), parse(t, c.new)) {
			lines = append(lines, fmt.Sprintf("%s %s %s", d.Path, d.From, d.To))
		}
		if got := strings.Join(lines, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMergePatches(t *testing.T) {
	for name, c := range map[string]struct{ first, second, combined, target, merged string }{
		"members": {`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`, `{"c":3}`, `{"a":1,"b":2,"c":3}`},
		"later":   {`{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`, `{}`, `{"a":{"x":1,"y":2}}`},
		"removal": {`{"a":1}`, `{"a":null}`, `{"a":null}`, `{"a":0,"b":1}`, `{"b":1}`},
		"nulls":   {`{"a":{"x":null}}`, `{"a":{"y":1}}`, `{"a":{"x":null,"y":1}}`, `{"a":{"x":5}}`, `{"a":{"y":1}}`},
		"lists":   {`{"a":[1]}`, `{"a":[2]}`, `{"a":[2]}`, `{"a":{"x":1}}`, `{"a":[2]}`},
	} {
		both := object.CombinePatches(decodeObject([]byte(c.first)), decodeObject([]byte(c.second)))
		if got := string(toJSON(both)); got != c.combined {
			t.Errorf("%s: combined %s, want %s", name, got, c.combined)
		}
		if got := string(toJSON(object.MergePatch(decodeObject([]byte(c.target)), both))); got != c.merged {
			t.Errorf("%s: merged %s, want %s", name, got, c.merged)
		}
	}
}

// The order of objects in a watch does not matter, nor do cached digests.
func TestOwnedDigest(t *testing.T) {
	a := parse(t, `{"kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}`)
	b := parse(t, `{"kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"1"}}`)
	changed := parse(t, `{"kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"2"}}`)
	var once, twice, other digestCache
	first := once.owned([]*object.Object{a, b})
	twice.owned([]*object.Object{a})
	if again := twice.owned([]*object.Object{b, a}); again != first {
		t.Errorf("got %s and %s", first, again)
	}
	if now := twice.owned([]*object.Object{a, changed}); now == first || now != other.owned([]*object.Object{changed, a}) {
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
		h := &handlerMemory{Handler: &Handler{Fields: c.fields}}
		before := basis{digest(h.watchedFields(o)), o}
		after := before.with(h.Handler, patchOf(h, []*pendingResponse{{call: call{handler: h}, response: c.response}}))
		if events := after.digest != before.digest; events != c.news {
			t.Errorf("%s: news %v", name, events)
		}
	}
}
