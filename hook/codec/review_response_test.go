package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Each file has a request and its expected wire form.
func TestReviewRequestVectors(t *testing.T) {
	type vector struct {
		Review hook.ReviewRequest
		Wire   json.RawMessage
	}
	eachVector(t, "review", func(t *testing.T, v vector) {
		checkWire(t, codec.AppendReviewRequest([]byte("before "), &v.Review), append([]byte("before "), v.Wire...))
	})
}

func TestDecodeReviewResponse(t *testing.T) {
	loose := []codec.Decoding{codec.Loose}
	eachMode(t, []decodeCase{
		{"allowed", modes, `{"allowed":true}`, `allowed`},
		{"null fields", modes, `{"allowed":true,"message":null,"reason":null,"code":null,"object":null,"patch":null,"jsonPatch":null,"warnings":null,"auditAnnotations":null,"events":null}`, `allowed`},
		{"empty fields", modes, `{"allowed":true,"message":"","jsonPatch":[],"warnings":[],"auditAnnotations":{},"events":[]}`, `allowed`},
		{"denied", modes, `{"message":"no tag","allowed":false}`, `denied: no tag`},
		{"denied in detail", modes, `{"allowed":false,"message":"no tag","reason":"Invalid","code":422}`, `denied: no tag Invalid 422`},
		{"object", modes, `{"allowed":true,"object": {"apiVersion":"v1"} }`, `allowed object={"apiVersion":"v1"}`},
		{"patch", modes, `{"allowed":true,"patch":{"metadata":{"labels":{"a":null}}}}`, `allowed patch={"metadata":{"labels":{"a":null}}}`},
		{"JSON patch", modes, `{"allowed":true,"jsonPatch": [ {"op":"add","path":"/a","value":[1]}, {"op":"test","path":"","value":1}] }`,
			`allowed jsonPatch=[ {"op":"add","path":"/a","value":[1]}, {"op":"test","path":"","value":1}]`},
		{"warnings and events", modes, `{"allowed":true,"warnings":["a","b"],"auditAnnotations":{"x.y/z":"1"},"events":[{"reason":"Seen"},` +
			`{"type":"Warning","reason":"Odd","message":"m","object":{"apiVersion":"v1","kind":"Pod","namespace":"n","name":"p","uid":"u"}}]}`,
			`allowed warnings=[a b] audit=map[x.y/z:1] event={{Normal Seen }     } event={{Warning Odd m} v1 Pod n p u}`},
		{"unknown field beside", loose, `{"allowed":true,"X":{"a":[1]}}`, `allowed`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		v := must.Get(codec.DecodeReviewResponse([]byte(c.response), mode)).In(t)
		if got := formatReviewResponse(v); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	})
}

// formatReviewResponse formats a response in one line.
func formatReviewResponse(v *hook.ReviewResponse) string {
	parts := []string{"allowed"}
	if d := v.Denial; d != nil {
		parts = []string{"denied:", d.Message}
		if d.Code != 0 {
			parts = append(parts, d.Reason, fmt.Sprint(d.Code))
		}
	}
	add := func(name string, value any) {
		if text := fmt.Sprint(value); !slices.Contains([]string{"", "[]", "map[]"}, text) {
			parts = append(parts, name+"="+text)
		}
	}
	add("object", string(v.Object))
	add("patch", string(v.Patch))
	add("jsonPatch", string(v.JSONPatch))
	add("warnings", v.Warnings)
	add("audit", v.AuditAnnotations)
	for _, e := range v.Events {
		add("event", e)
	}
	return strings.Join(parts, " ")
}

// An invalid response allows no change.
func TestDecodeReviewResponseMalformed(t *testing.T) {
	for _, c := range []struct {
		response string
		mode     codec.Decoding
		want     string
	}{
		{``, codec.Strict, `malformed response: empty`},
		{`null`, codec.Loose, `malformed response: must be an object, is null`},
		{`{}`, codec.Loose, `malformed response: allowed: required: true or false`},
		{`{"alowed":true}`, codec.Strict, `malformed response: alowed: unknown field; did you mean "allowed"?`},
		{`{"alowed":true}`, codec.Loose, `malformed response: alowed: unknown field, and allowed is missing; did you mean "allowed"?`},
		{`{"allowed":null}`, codec.Loose, `malformed response: allowed: must be true or false, is null`},
		{`{"allowed":"true"}`, codec.Loose, `malformed response: allowed: must be true or false, is a string`},
		{`{"allowed":false,"allowed":true}`, codec.Loose, `malformed response: allowed: given twice`},
		{`{"allowed":true} x`, codec.Loose, `malformed response: invalid character 'x' at start of value at byte 17`},
		{`{"allowed":false}`, codec.Strict, `malformed response: message: required for allowed: false: say what is wrong and how to fix it`},
		{`{"allowed":false,"message":"m","patch":{}}`, codec.Strict, `malformed response: patch: only for allowed: true; a denied change is not stored`},
		{`{"allowed":true,"message":"m"}`, codec.Strict, `malformed response: message: only for allowed: false; to warn the user, return warnings`},
		{`{"allowed":true,"reason":"Invalid"}`, codec.Strict, `malformed response: reason: only for allowed: false`},
		{`{"allowed":true,"code":400}`, codec.Strict, `malformed response: code: only for allowed: false`},
		{`{"allowed":false,"message":"m","code":200}`, codec.Strict, `malformed response: code: must be an HTTP error status, 400 to 599`},
		{`{"allowed":true,"object":{},"patch":{}}`, codec.Strict, `malformed response: patch: not allowed with object: set only one of them`},
		{`{"allowed":true,"object":[]}`, codec.Strict, `malformed response: object: must be an object, is a list`},
		{`{"allowed":true,"jsonPatch":{}}`, codec.Strict, `malformed response: jsonPatch: must be a list of operations, is an object`},
		{`{"allowed":true,"jsonPatch":[{"path":"/a"}]}`, codec.Strict, `malformed response: jsonPatch[0].op: required`},
		{`{"allowed":true,"jsonPatch":[{"op":"set","path":"/a"}]}`, codec.Strict, `malformed response: jsonPatch[0].op: must be add, remove, replace, move, copy or test, is "set"`},
		{`{"allowed":true,"jsonPatch":[{"op":"remove"}]}`, codec.Loose, `malformed response: jsonPatch[0].path: required`},
		{`{"allowed":true,"jsonPatch":[{"op":"add","path":"/a"}]}`, codec.Strict, `malformed response: jsonPatch[0].value: required for add`},
		{`{"allowed":true,"jsonPatch":[{"op":"move","path":"/a","from":1}]}`, codec.Strict, `malformed response: jsonPatch[0].from: must be a string, is a number`},
		{`{"allowed":true,"jsonPatch":[{"op":"copy","path":"/a"}]}`, codec.Strict, `malformed response: jsonPatch[0].from: required for copy`},
		{`{"allowed":true,"jsonPatch":[{"op":"add","path":"a"}]}`, codec.Strict, `malformed response: jsonPatch[0].path: "a": must be a JSON pointer, such as /metadata/labels`},
		{`{"allowed":true,"warnings":"a"}`, codec.Strict, `malformed response: warnings: must be a list, is a string`},
		{`{"allowed":true,"warnings":[1]}`, codec.Strict, `malformed response: warnings[0]: must be a string, is a number`},
		{`{"allowed":true,"events":[{}]}`, codec.Strict, `malformed response: events[0].reason: required`},
		{`{"allowed":true,"events":[{"reason":"A","object":{"kind":"Pod"}}]}`, codec.Strict, `malformed response: events[0].object.apiVersion: required`},
	} {
		v, err := codec.DecodeReviewResponse([]byte(c.response), c.mode)
		if _, malformed := errors.AsType[*hook.MalformedError](err); !malformed || v != nil || err.Error() != c.want {
			t.Errorf("%s: got %v, %v\nwant %s", c.response, v, err, c.want)
		}
	}
}
