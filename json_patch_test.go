package setpoint

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

func TestPatches(t *testing.T) {
	for name, c := range map[string]struct{ before, after, patch, status string }{
		"nothing":              {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, ``, ``},
		"a field":              {`{"kind":"X","spec":{"a":1,"b":[1]}}`, `{"kind":"X","spec":{"a":2,"b":[1]}}`, `{"spec":{"a":2}}`, ``},
		"a long number":        {`{"spec":{"a":12345678901234567}}`, `{"spec":{"a":12345678901234568}}`, `{"spec":{"a":12345678901234568}}`, ``},
		"the status":           {`{"spec":{"a":1},"status":{"a":1,"b":2}}`, `{"spec":{"a":1},"status":{"a":1,"c":3}}`, ``, `{"b":null,"c":3}`},
		"the first status":     {`{"spec":{}}`, `{"spec":{},"status":{"a":1}}`, ``, `{"a":1}`},
		"no status any more":   {`{"status":{"a":1}}`, `{}`, ``, `{"a":null}`},
		"both":                 {`{"spec":{"a":1},"status":{"a":1}}`, `{"spec":{"a":2},"status":{"a":2}}`, `{"spec":{"a":2}}`, `{"a":2}`},
		"the same, elsewhere":  {`{"spec":{"a":{"x":1}}}`, `{"spec":{"b":{"x":1}}}`, `{"spec":{"a":null,"b":{"x":1}}}`, ``},
		"no labels any more":   {`{"metadata":{"name":"x","labels":{"l":"1"}}}`, `{"metadata":{"name":"x"}}`, `{"metadata":{"labels":{"l":null}}}`, ``},
		"a member of the root": {`{"data":{"a":"1"}}`, `{}`, `{"data":null}`, ``},
	} {
		patch, status, err := mergePatches([]byte(c.before), []byte(c.after))
		if err != nil || string(patch) != c.patch || string(status) != c.status {
			t.Errorf("%s: got %s and %s, %v", name, patch, status, err)
		}
	}
	for name, c := range map[string]struct{ before, after string }{
		"another name": {`{"metadata":{"name":"x"}}`, `{"metadata":{"name":"y"}}`},
		"another kind": {`{"kind":"X"}`, `{}`},
		"no object":    {`{"kind":"X"}`, `null`},
	} {
		if patch, status, err := mergePatches([]byte(c.before), []byte(c.after)); err == nil {
			t.Errorf("%s: got %s and %s", name, patch, status)
		}
	}
}

// rated is a type that does not know all of its objects.
type rated struct {
	Status struct {
		Rate string `json:"rate,omitempty"`
	} `json:"status"`
}

func TestStatusOfAParentIsWhole(t *testing.T) {
	for name, c := range map[string]struct{ status, rate, want string }{
		"kept":              {`,"status":{"rate":"1","more":[1]}`, "1", `{"rate":"1","more":[1]}`},
		"changed":           {`,"status":{"rate":"1","more":[1]}`, "2", `{"more":[1],"rate":"2"}`},
		"removed":           {`,"status":{"rate":"1","more":[1]}`, "", `{"more":[1]}`},
		"the first":         {``, "2", `{"rate":"2"}`},
		"the first of null": {`,"status":null`, "2", `{"rate":"2"}`},
		"none":              {``, "", ``},
		"none of null":      {`,"status":null`, "", ``},
	} {
		app := New("rates")
		rates := Compose[rated](app, Kind("example.com/v1", "Rate"))
		rates.Sync(func(_ context.Context, f *ComposeContext[rated]) error {
			f.Parent.Status.Rate = c.rate
			return nil
		})
		parent := json.RawMessage(`{"apiVersion":"example.com/v1","kind":"Rate","metadata":{"name":"eur"}` + c.status + `}`)
		got, err := rates.hook(rates.sync).Call(t.Context(), &hook.Request{Parent: parent})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got.Status) != c.want {
			t.Errorf("%s: got %s, want %s", name, got.Status, c.want)
		}
	}
}
