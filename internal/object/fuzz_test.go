package object_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// unusualObjects returns objects that are valid, or nearly so.
func unusualObjects() []string {
	return []string{
		pod,
		`{}`, ` { } `, `null`, `[]`, `{"metadata":null}`, `{"metadata":{"labels":null,"annotations":null,"ownerReferences":null,"finalizers":null}}`,
		`{"metadata":{"m\u0061nagedFields":[1],"n\u0061me":"\u0061\ud83d\ude00"}}`,
		`{"metadata":{"name":"a","managedFields":[]},"metadata":{"name":"b","managedFields":[1]}}`,
		`{"metadata":{"labels":{"a":"1","a":"2"},"resourceVersion":"1","resourceVersion":"2"}}`,
		`{"metadata":{"labels":{"a":null,"\u0062":"\u0063","d":"\"","e":"f"},"ownerReferences":[{"controller":true,"name":"\u0061","uid":"\u0062c"}]}}`,
		`{"metadata":{"labels" : { "a" : "1" , "b" : "" } , "managedFields":[], "ownerReferences":[{"controller":true,"name":"n","uid":"u"}]}}`,
		`{"metadata":{"generation":12345678901234567890}}`, `{"metadata":{"generation":1e3}}`, `{"metadata":{"resourceVersion":"18446744073709551615"}}`,
		`{"spec":1e999,"n":-0,"big":123456789012345678901234567890.5}`,
		`{"a":"}","b":"{","c":"\"","d":"\\"}`,
		`{"metadata":{"ownerReferences":[null,{"controller":true},{"controller":true,"uid":"u"}]}}`,
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	}
}

// FuzzParse checks that parsed objects are valid JSON, independent of the input, and parse to
// the same again.
func FuzzParse(f *testing.F) {
	for _, text := range unusualObjects() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		input := bytes.Clone(data)
		o, err := object.ParseAs(input, "v1", "Pod")
		if err != nil {
			return
		}
		before := objectText(o)
		for i := range input {
			input[i] = '#'
		}
		if after := objectText(o); before != after {
			t.Errorf("the object changes with its input from %s to %s", before, after)
		}
		if !json.Valid(o.JSON()) {
			t.Fatalf("made of %q: %q", data, o.JSON())
		}
		again, err := object.Parse(o.JSON())
		if err != nil || bytes.Contains(data, []byte("anagedFields")) {
			return
		}
		if !bytes.Equal(again.JSON(), o.JSON()) || objectText(again) != before || again.Digest() != o.Digest() || again.IntentDigest() != o.IntentDigest() {
			t.Errorf("read again, %s is %s", o.JSON(), again.JSON())
		}
	})
}

// objectText returns all metadata of an object in one line.
func objectText(o *object.Object) string {
	owner, owned := o.Controller()
	text, _ := json.Marshal([]any{o.APIVersion(), o.Kind(), o.Namespace(), o.Name(), o.UID(), o.Version(), o.Generation(),
		slices.Collect(o.Labels().All()), owner, owned, o.Finalizers(), o.Deleting(), string(o.JSON())})
	return string(text)
}

// FuzzWith checks that With sets and removes one member and nothing else.
func FuzzWith(f *testing.F) {
	for _, text := range unusualObjects() {
		f.Add([]byte(text), "status", "x", `{"a":[1]}`)
		f.Add([]byte(text), "metadata", "la\"bels", `"v"`)
		f.Add([]byte(text), "metadata", "labels", `null`)
	}
	f.Fuzz(func(t *testing.T, data []byte, first, second, value string) {
		o, err := object.Parse(data)
		_, notText := jsontext.AppendQuote(nil, first+second)
		if err != nil || notText != nil || !jsontext.Value(value).IsValid() || !jsontext.Value(data).IsValid() {
			return
		}
		set, err := o.With([]byte(value), first, second)
		if err != nil {
			return
		}
		if !json.Valid(set.JSON()) {
			t.Fatalf("%s with %q.%q=%s is %s", data, first, second, value, set.JSON())
		}
		checkSet(t, o, set, []string{first, second}, value)
		removed, err := set.With(nil, first, second)
		if err != nil || removed.Field(first, second) != nil {
			t.Errorf("%s without %q.%q is %v (%v)", set.JSON(), first, second, removed, err)
		}
	})
}

func checkSet(t *testing.T, before, after *object.Object, path []string, value string) {
	t.Helper()
	want := strings.Trim(value, " \t\r\n")
	if want == "null" {
		want = ""
	}
	dropped := slices.Equal(path, []string{"metadata", "managedFields"})
	if got := string(after.Field(path...)); got != want && !dropped {
		t.Errorf("%s: %q is %s after it was set to %s", before.JSON(), path, got, want)
	}
	for _, other := range []string{"apiVersion", "kind", "spec", "status"} {
		if other != path[0] && !bytes.Equal(before.Field(other), after.Field(other)) {
			t.Errorf("%s: with %q set, %s changed to %s", before.JSON(), path, other, after.Field(other))
		}
	}
}
