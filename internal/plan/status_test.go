package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestStatus(t *testing.T) {
	custom := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Status: true, Custom: true}
	builtin := object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Status: true}
	without := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Custom: true}
	const unchanged = "unchanged"
	for name, c := range map[string]struct {
		resource              object.Resource
		have, response, wants string
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
			response := &hook.Response{}
			if c.response != "" && c.response != "null" {
				response.Status = json.RawMessage(c.response)
			}
			parent := parse(t, text)
			overlaid := must.Get(new(Planner).OverlayResponse(parent, c.resource, response, time.Time{})).In(t)
			got := string(overlaid.Field("status"))
			if overlaid == parent {
				got = unchanged
			}
			if got != c.wants {
				t.Errorf("got %s, want %s", got, c.wants)
			}
			again, err := new(Planner).OverlayResponse(overlaid, c.resource, response, time.Time{})
			if err != nil || again != overlaid {
				t.Errorf("laid over once more, it changes: %s, %v", again.JSON(), err)
			}
		})
	}
}

func TestStatusRefuses(t *testing.T) {
	custom := object.Resource{Status: true, Custom: true}
	if _, err := new(Planner).OverlayResponse(parse(t, `{"metadata":{"name":"a"}}`), custom, &hook.Response{Status: json.RawMessage(`[1]`)}, time.Time{}); err == nil {
		t.Error("a list is taken for a status")
	}
}

func TestDecorate(t *testing.T) {
	value := func(s string) *string { return &s }
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	resource := object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
	have := parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"old":"1","theirs":"2"}},"status":{"phase":"Running"}}`)
	ready := []hook.Condition{{Type: "Ready", Status: "True", Reason: "Fine", Message: "all is well"}}
	for name, c := range map[string]struct {
		response hook.Response
		want     string
	}{
		"nothing said": {hook.Response{}, string(have.JSON())},
		"labels and annotations": {
			hook.Response{Labels: map[string]*string{"old": nil, "new": value("3"), "none": nil}, Annotations: map[string]*string{"a": value("b")}},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"new":"3","theirs":"2"},"annotations":{"a":"b"}},"status":{"phase":"Running"}}`,
		},
		"last label": {
			hook.Response{Labels: map[string]*string{"old": nil, "theirs": nil}},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"phase":"Running"}}`,
		},
		// Fault M12: the status of a built-in kind was replaced.
		"status of a built-in kind": {
			hook.Response{Status: json.RawMessage(`{"a":1}`)},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"old":"1","theirs":"2"}},"status":{"a":1,"phase":"Running"}}`,
		},
		"empty status of a built-in kind": {hook.Response{Status: json.RawMessage(`{}`)}, string(have.JSON())},
		"condition and message": {
			hook.Response{Conditions: ready, Message: "hello"},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"old":"1","theirs":"2"}},"status":{"conditions":[` +
				`{"lastTransitionTime":"2026-01-01T01:00:00Z","message":"all is well","reason":"Fine","status":"True","type":"Ready"}],` +
				`"message":"hello","phase":"Running"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			family := &Planner{Mark: Mark{Key: DecoratorMark, Value: "d"}}
			overlaid, err := family.OverlayResponse(have, resource, &c.response, at(1))
			if err != nil || string(overlaid.JSON()) != c.want {
				t.Fatalf("got  %s, %v\nwant %s", overlaid.JSON(), err, c.want)
			}
			if again, err := family.OverlayResponse(overlaid, resource, &c.response, at(2)); err != nil || again != overlaid {
				t.Errorf("laid over once more, it changes: %s, %v", again.JSON(), err)
			}
		})
	}
}

func TestDecoratedCustomResource(t *testing.T) {
	resource := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Status: true, Custom: true}
	for name, c := range map[string]struct{ have, response, want string }{
		"replaced": {`{"phase":"Open"}`, `{"a":1}`, `{"a":1}`},
		"emptied":  {`{"phase":"Open"}`, `{}`, `{}`},
		"silent":   {`{"phase":"Open"}`, ``, `{"phase":"Open"}`},
		// Fault M2: an empty status counted as none.
		"begun":    {``, `{}`, `{}`},
		"not said": {``, ``, ``},
	} {
		text := `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a"}}`
		if c.have != "" {
			text = text[:len(text)-1] + `,"status":` + c.have + `}`
		}
		response := &hook.Response{}
		if c.response != "" {
			response.Status = json.RawMessage(c.response)
		}
		family := &Planner{Mark: Mark{Key: DecoratorMark, Value: "d"}}
		overlaid, err := family.OverlayResponse(parse(t, text), resource, response, time.Time{})
		if err != nil || string(overlaid.Field("status")) != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, overlaid.Field("status"), err, c.want)
		}
		if again, err := family.OverlayResponse(overlaid, resource, response, time.Time{}); err != nil || again != overlaid {
			t.Errorf("%s: laid over once more, it changes: %s, %v", name, again.JSON(), err)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	resource := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Status: true, Custom: true}
	parent := parse(t, `{"metadata":{"name":"a","generation":2},"status":{"conditions":[`+
		`{"type":"Ready","status":"True","lastTransitionTime":"2025-01-01T00:00:00Z"},{"type":"Theirs","status":"True"}]}}`)
	response := &hook.Response{Status: json.RawMessage(`{}`), Conditions: []hook.Condition{{Type: "Ready", Status: "True", Reason: "New"}, {Type: "Added", Status: "False", Reason: "No"}}}
	overlaid, err := new(Planner).OverlayResponse(parent, resource, response, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	want := `{"conditions":[` +
		`{"lastTransitionTime":"2025-01-01T00:00:00Z","message":"","observedGeneration":2,"reason":"New","status":"True","type":"Ready"},` +
		`{"status":"True","type":"Theirs"},` +
		`{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":2,"reason":"No","status":"False","type":"Added"}],"observedGeneration":2}`
	if err != nil || string(overlaid.Field("status")) != want {
		t.Errorf("got  %s, %v\nwant %s", overlaid.Field("status"), err, want)
	}
}

// An untyped status may have a field conditions that is none of Kubernetes: it stays the author's.
func TestConditionsOfTheAuthor(t *testing.T) {
	for status, want := range map[string]string{
		`{"a":1}`:                            `{"a":1,"conditions":[{"lastTransitionTime":"0001-01-01T00:00:00Z","message":"","reason":"","status":"True","type":"Synced"}]}`,
		`{"conditions":"sunny"}`:             `{"conditions":"sunny"}`,
		`{"conditions":{"Synced":"yes"}}`:    `{"conditions":{"Synced":"yes"}}`,
		`{"conditions":["sunny", {"a": 1}]}`: `{"conditions":["sunny", {"a": 1}]}`,
	} {
		parent := parse(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books"},"status":`+status+`}`)
		got, err := SetOwnConditions(parent, parent, StatusReport{State: Synced}, nil, time.Time{})
		if err != nil || string(got.Field("status")) != want {
			t.Errorf("%s: got %s, %v", status, got.Field("status"), err)
		}
	}
}
