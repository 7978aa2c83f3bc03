package hook_test

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// Each file has a request and its expected wire form.
func TestHandlerRequestVectors(t *testing.T) {
	type vector struct {
		Request hook.HandlerRequest
		Wire    json.RawMessage
	}
	eachVector(t, "handler", func(t *testing.T, v vector) {
		checkWire(t, v.Request.AppendJSON([]byte("before ")), append([]byte("before "), v.Wire...))
	})
}

// Encoding allocates the buffer once, regardless of object size. Sorting groups takes
// the other allocation.
func TestHandlerRequestAllocatesOnce(t *testing.T) {
	n := &hook.HandlerRequest{
		Object:  fmtObject("tom", 100_000),
		Changes: []hook.FieldChange{{Path: "spec.currency", From: json.RawMessage(`"USD"`), To: json.RawMessage(`"CHF"`)}},
		Owned:   []hook.Group{{APIVersion: "v1", Kind: "ConfigMap", Objects: []hook.Entry{{Namespace: "home", Name: "a", Object: fmtObject("a", 1000)}}}},
	}
	var wire []byte
	if allocations := testing.AllocsPerRun(10, func() { wire = n.AppendJSON(nil) }); allocations > 2 {
		t.Errorf("%v allocations for %d bytes", allocations, len(wire))
	}
}
