package codec_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// formatExtensions formats the fields that Metacontroller lacks.
func formatExtensions(r *hook.Response) []string {
	var parts []string
	for name, values := range map[string]map[string]*string{"annotations": r.Annotations, "labels": r.Labels} {
		if values != nil {
			parts = append(parts, name+"="+formatStringMap(values))
		}
	}
	slices.Sort(parts)
	for _, e := range r.Events {
		parts = append(parts, fmt.Sprintf("event=%s/%s/%s", e.Type, e.Reason, e.Message))
	}
	for _, c := range r.Conditions {
		parts = append(parts, fmt.Sprintf("condition=%s/%s/%s/%s", c.Type, c.Status, c.Reason, c.Message))
	}
	if r.Message != "" {
		parts = append(parts, "message="+r.Message)
	}
	if r.LogicVersion != "" {
		parts = append(parts, "logicVersion="+r.LogicVersion)
	}
	return parts
}

func formatStringMap(values map[string]*string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := "(gone)"
		if values[key] != nil {
			value = *values[key]
		}
		parts = append(parts, key+":"+value)
	}
	return strings.Join(parts, ",")
}

func TestDecodeExtensions(t *testing.T) {
	known := []codec.Decoding{codec.Strict, codec.Loose}
	loose := []codec.Decoding{codec.Loose}
	eachMode(t, []decodeCase{
		{"message", known, `"message":"3 of 5 \u0063ats \"are\" home"`, `message=3 of 5 cats "are" home`},
		{"logic version", known, `"logicVersion":"1.4.2"`, `logicVersion=1.4.2`},
		{"no logic version", known, `"logicVersion":null`, ``},
		{"null", known, `"message":null,"events":null,"conditions":null`, ``},
		{"empty", known, `"message":"","events":[],"conditions":[]`, ``},
		{"events", known, `"events":[{"type":"Warning","reason":"Hungry","message":"no food"},{"reason":"Fed"}]`,
			`event=Warning/Hungry/no food event=Normal/Fed/`},
		{"event with nulls", known, `"events":[{"type":null,"reason":"Fed","message":null}]`, `event=Normal/Fed/`},
		{"conditions", known, `"conditions":[{"type":"Ready","status":"True","reason":"AllHome","message":"m"},{"type":"example.com/Fed","status":"Unknown","reason":"x:y,Z_9"}]`,
			`condition=Ready/True/AllHome/m condition=example.com/Fed/Unknown/x:y,Z_9/`},
		{"condition as metav1 writes it", known,
			`"conditions":[{"type":"Ready","status":"False","observedGeneration":3,"lastTransitionTime":null,"reason":"Hungry","message":""}]`,
			`condition=Ready/False/Hungry/`},
		{"unknown fields within", loose, `"events":[{"reason":"Fed","count":3}],"conditions":[{"type":"A","status":"True","reason":"B","severity":""}]`,
			`event=Normal/Fed/ condition=A/True/B/`},
		{"field twice", loose, `"events":[{"reason":"A"}],"events":[{"reason":"B"}],"conditions":[{"type":"A","status":"True","reason":"A"}],"conditions":[],"message":"a","message":null`,
			`event=Normal/B/`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		for _, form := range controllerTypes {
			checkResponse(t, beside(form, c.response), codec.Wire{ControllerType: form, Decoding: mode}, c.want)
		}
	})
}

var controllerTypes = []hook.ControllerType{hook.Composite, hook.Decorator}

// beside returns a response with no children and these fields.
func beside(form hook.ControllerType, fields string) string {
	if form == hook.Decorator {
		return `{"attachments":[],` + fields + `}`
	}
	return `{"children":[],` + fields + `}`
}

func checkResponse(t *testing.T, response string, w codec.Wire, want string) {
	t.Helper()
	resp := must.Get(codec.DecodeSyncResponse([]byte(response), w)).In(t)
	if got := formatResponse(resp); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeExtensionsMalformed(t *testing.T) {
	known := []codec.Decoding{codec.Strict, codec.Loose}
	strict := []codec.Decoding{codec.Strict}
	upstream := []codec.Decoding{codec.StrictOptional}
	long := strings.Repeat("R", 1025)
	eachMode(t, []decodeCase{
		{"message no text", known, `"message":{"a":1}`, `message: must be a string, is an object`},
		{"logic version of two lines", known, `"logicVersion":"a\nb"`, `logicVersion: must be printable ASCII, has '\n'`},
		{"logic version with an escape", known, `"logicVersion":"\u001b[31m"`, `logicVersion: must be printable ASCII, has '\x1b'`},
		{"logic version that reverses text", known, "\"logicVersion\":\"1\u202e2\"", `logicVersion: must be printable ASCII, has '\u202e'`},
		{"logic version too long", known, `"logicVersion":"` + strings.Repeat("1", 129) + `"`, `logicVersion: must not be longer than 128 bytes, has 129`},
		{"events no list", known, `"events":{}`, `events: must be a list, is an object`},
		{"event null", known, `"events":[null]`, `events[0]: must be an object, is null`},
		{"too many events", known, `"events":[` + strings.Repeat(`{"reason":"A"},`, 100) + `{"reason":"A"}]`, `events[99]: more than 100 items`},
		{"event type", known, `"events":[{"reason":"A"},{"type":"Error","reason":"A"}]`, `events[1].type: must be Normal or Warning, is "Error"`},
		{"event reason missing", known, `"events":[{"message":"hi"}]`, `events[0].reason: required`},
		{"event reason in words", known, `"events":[{"reason":"No food"}]`, `events[0].reason: "No food": must be a word in CamelCase, such as QuotaExceeded`},
		{"event message no text", known, `"events":[{"reason":"A","message":5}]`, `events[0].message: must be a string, is a number`},
		{"event field unknown", strict, `"events":[{"reasn":"A"}]`, `events[0].reasn: unknown field; did you mean "reason"?`},
		{"condition type missing", known, `"conditions":[{"status":"True","reason":"A"}]`, `conditions[0].type: required`},
		{"condition type odd", known, `"conditions":[{"type":"is it?","status":"True","reason":"A"}]`, `conditions[0].type: "is it?": must be a word in CamelCase, such as Ready`},
		{"condition type twice", known, `"conditions":[{"type":"A","status":"True","reason":"A"},{"type":"A","status":"True","reason":"A"}]`, `conditions[1].type: "A" is given twice`},
		{"condition status a boolean", known, `"conditions":[{"type":"A","status":true,"reason":"A"}]`, `conditions[0].status: must be a string, is a boolean`},
		{"condition status odd", known, `"conditions":[{"type":"A","status":"true","reason":"A"}]`, `conditions[0].status: must be True, False or Unknown, is "true"`},
		{"condition status missing", known, `"conditions":[{"type":"A","reason":"A"}]`, `conditions[0].status: required`},
		{"condition reason missing", known, `"conditions":[{"type":"A","status":"True","reason":""}]`, `conditions[0].reason: required`},
		{"condition reason long", known, `"conditions":[{"type":"A","status":"True","reason":"` + long + `"}]`,
			`conditions[0].reason: "` + long[:60] + `…": must be a word in CamelCase, such as QuotaExceeded`},
		{"condition field unknown", strict, `"conditions":[{"type":"A","state":"True"}]`, `conditions[0].state: unknown field; did you mean "status"?`},
		{"message to upstream", upstream, `"message":"hi"`, `message: unknown field`},
		{"events to upstream", upstream, `"events":[]`, `events: unknown field`},
		{"conditions to upstream", upstream, `"conditions":[]`, `conditions: unknown field`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		for _, form := range controllerTypes {
			checkMalformed(t, beside(form, c.response), codec.Wire{ControllerType: form, Decoding: mode}, c.want)
		}
	})
}
