package testcase

import (
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
	"reflect"
	"strings"
	"testing"
)

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(text, err)
	}
	return value
}

func TestCompare(t *testing.T) {
	for name, test := range map[string]struct{ expect, got, want string }{
		"equal":                        {`{"status": {"a": 1}}`, `{"status": {"a": 1}}`, ""},
		"a field that is not expected": {`{"status": {}}`, `{"status": {}, "children": [{"kind": "Pod"}]}`, ""},
		"empty and absent":             {`{"children": [], "status": {}, "message": "", "resyncAfterSeconds": 0, "finalized": false}`, `{}`, ""},
		"numbers in two forms":         {`{"status": {"a": 1.0}}`, `{"status": {"a": 1}}`, ""},
		"a call at once":               {`{"retryAfterSeconds": 1e-9}`, `{"retryAfterSeconds": 0.001}`, ""},
		"another value":                {`{"status": {"a": 1}}`, `{"status": {"a": 2}}`, "-   a: 1\n+   a: 2\n"},
		"one that is missing":          {`{"status": {"a": 1}}`, `{}`, "- status:\n-   a: 1\n"},
		"children in another order": {
			`{"children": [{"kind": "Pod", "metadata": {"name": "b"}}, {"kind": "Pod", "metadata": {"name": "a"}}]}`,
			`{"children": [{"kind": "Pod", "metadata": {"name": "a"}}, {"kind": "Pod", "metadata": {"name": "b"}}]}`, "",
		},
		"writes in another order":   {`{"delete": ["a", "b"]}`, `{"delete": ["b", "a"]}`, "- - a\n"},
		"the type of an event":      {`{"events": [{"reason": "A"}]}`, `{"events": [{"type": "Normal", "reason": "A"}]}`, ""},
		"a part of an error":        {`{"error": "no such"}`, `{"error": "there is no such image"}`, ""},
		"another error":             {`{"error": "no such"}`, `{"error": "denied"}`, "- error: no such\n+ error: denied\n"},
		"an error that is missing":  {`{"error": "no such"}`, `{}`, "- error: no such\n"},
		"an error without an error": {`{"error": ""}`, `{"error": "denied"}`, "+ error: denied\n"},
		"an unexpected error":       {`{"status": {}}`, `{"error": "denied"}`, "+ error: denied\n"},
		"a hook that is not called": {`{"status": {}}`, `{"called": false}`, "+ called: false\n"},
	} {
		c := &Case{spec: spec{Expect: decode[expect](t, test.expect)}}
		got, err := c.compare(decode[fields](t, test.got))
		if err != nil || !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
}

// TestExpectation compares what --update writes.
func TestExpectation(t *testing.T) {
	for name, test := range map[string]struct{ expect, got, want string }{
		"all without an expectation":   {`{}`, `{"children": [], "status": {"a": 1}}`, `{"children": [], "status": {"a": 1}}`},
		"the fields that it has":       {`{"status": {"a": 1}}`, `{"children": [], "status": {"a": 2}}`, `{"status": {"a": 2}}`},
		"one that is empty now":        {`{"children": [{"kind": "Pod"}], "message": "a"}`, `{"status": {}}`, `{"children": [], "message": ""}`},
		"an error in place of a state": {`{"status": {"a": 1}}`, `{"error": "denied"}`, `{"error": "denied"}`},
		"a state in place of an error": {`{"error": "denied"}`, `{"status": {"a": 1}}`, `{"status": {"a": 1}}`},
	} {
		c := &Case{spec: spec{Expect: decode[expect](t, test.expect)}}
		text := must.Get(json.Marshal(c.expectation(decode[fields](t, test.got)))).In(t)
		if got := decode[any](t, string(text)); !reflect.DeepEqual(got, decode[any](t, test.want)) {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}

func TestObjects(t *testing.T) {
	for text, want := range map[string]string{
		`[{"a": 1}, {"b": 2}]`: `[{"a": 1},{"b": 2}]`,
		`{"Pod.v1": {"default/b": {"b": 2}, "default/a": {"a": 1}}, "ConfigMap.v1": {"c": {"c": 3}}}`: `[{"c": 3},{"a": 1},{"b": 2}]`,
	} {
		got, err := json.Marshal(decode[objects](t, text))
		if err != nil || string(got) != strings.ReplaceAll(want, ": ", ":") {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`3`, `"a"`, `{"Pod.v1": [{}]}`} {
		var all objects
		if err := json.Unmarshal([]byte(text), &all); err == nil || !strings.Contains(err.Error(), "a list of objects, or groups of objects such as") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
