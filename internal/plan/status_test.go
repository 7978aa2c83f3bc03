package plan

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestStatus(t *testing.T) {
	custom := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Status: true, Custom: true}
	builtin := object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Status: true}
	without := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Custom: true}
	const unchanged = "unchanged"
	for name, c := range map[string]struct {
		resource           object.Resource
		have, reply, wants string
	}{
		"custom, first":                {custom, ``, `{"a":1}`, `{"a":1,"observedGeneration":7}`},
		"custom, replaced whole":       {custom, `{"b":2}`, `{"a":1}`, `{"a":1,"observedGeneration":7}`},
		"custom, same":                 {custom, `{"observedGeneration":7,"a":1}`, `{"a":1.0}`, unchanged},
		"custom, none":                 {custom, `{"b":2}`, ``, `{"observedGeneration":7}`},
		"custom, null":                 {custom, `{"b":2}`, `null`, `{"observedGeneration":7}`},
		"custom, none and none yet":    {custom, ``, ``, `{"observedGeneration":7}`},
		"custom, none and same":        {custom, `{"observedGeneration":7}`, ``, unchanged},
		"custom, generation is ours":   {custom, ``, `{"observedGeneration":3}`, `{"observedGeneration":7}`},
		"custom, older generation":     {custom, `{"observedGeneration":6}`, `{}`, `{"observedGeneration":7}`},
		"custom, nulls are no members": {custom, ``, `{"a":null,"b":{"c":null},"d":[null]}`, `{"b":{},"d":[null],"observedGeneration":7}`},
		"custom, not an object before": {custom, `[1]`, `{"a":1}`, `{"a":1,"observedGeneration":7}`},
		"no subresource":               {without, `{"b":2}`, `{"a":1}`, unchanged},
		"built in, none":               {builtin, `{"b":2}`, ``, unchanged},
		"built in, null":               {builtin, `{"b":2}`, `null`, unchanged},
		"built in, empty":              {builtin, ``, `{}`, unchanged},
		"built in, first":              {builtin, ``, `{"a":1}`, `{"a":1}`},
		"built in, others' stay":       {builtin, `{"b":2,"c":{"x":1}}`, `{"a":1,"c":{"z":1}}`, `{"a":1,"b":2,"c":{"x":1,"z":1}}`},
		"built in, null removes":       {builtin, `{"b":2,"c":{"x":1}}`, `{"b":null,"c":{"x":null}}`, `{"c":{}}`},
		"built in, null of nothing":    {builtin, `{"b":2}`, `{"a":null}`, unchanged},
		"built in, others' conditions stay": {builtin, `{"conditions":[{"type":"Theirs","status":"True"},{"type":"Ours","status":"True"}]}`,
			`{"conditions":[{"type":"Ours","status":"False"}]}`,
			`{"conditions":[{"status":"True","type":"Theirs"},{"status":"False","type":"Ours"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","generation":7,"resourceVersion":"5"}}`
			if c.have != "" {
				text = text[:len(text)-1] + `,"status":` + c.have + `}`
			}
			var reply json.RawMessage
			if c.reply != "" {
				reply = json.RawMessage(c.reply)
			}
			parent := parse(t, text)
			laid, err := Status(parent, c.resource, reply)
			if err != nil {
				t.Fatal(err)
			}
			got := string(laid.Field("status"))
			if laid == parent {
				got = unchanged
			}
			if got != c.wants {
				t.Errorf("got %s, want %s", got, c.wants)
			}
			again, err := Status(laid, c.resource, reply)
			if err != nil || again != laid {
				t.Errorf("laid over once more, it changes: %s, %v", again.JSON(), err)
			}
		})
	}
}

func TestStatusRefuses(t *testing.T) {
	custom := object.Resource{Status: true, Custom: true}
	if _, err := Status(parse(t, `{"metadata":{"name":"a"}}`), custom, json.RawMessage(`[1]`)); err == nil {
		t.Error("a list is taken for a status")
	}
}
