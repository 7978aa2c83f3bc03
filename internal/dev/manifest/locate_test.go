package manifest

import (
	"errors"
	"testing"
)

func TestLocate(t *testing.T) {
	all := read(t, `apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: setpoint.dev/v1alpha1
kind: HandlerController
metadata: {name: second}
spec:
  resource:
    # All of them.
    resource: pods
  handlers:
  - name: a
  - name: b
    inline:
      source: |
        one
        two
  - inline: {source: "one"}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {a: b}}
`)
	for _, c := range []struct {
		document int
		message  string
		want     int
	}{
		{1, "spec.handlers[1].inline.source:2:5: SyntaxError", 18},
		{1, `HandlerController "second" is invalid: spec.handlers[1].inline: Invalid value`, 15},
		{1, "spec.handlers[2].inline.source:1:1: SyntaxError", 19},
		{1, `strict decoding error: unknown field "spec.resource.other"`, 9},
		{1, ".spec.resource.resource: field not declared in schema", 11},
		{1, "spec.handlers[7].name: required", 12},
		{1, "forbidden", 5},
		{0, "spec.a: required", 1},
		{2, "spec.a: required", 21},
	} {
		if got := all[c.document].Locate(errors.New(c.message)).Line; got != c.want {
			t.Errorf("%s: line %d, want %d", c.message, got, c.want)
		}
	}
}
