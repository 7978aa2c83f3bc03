package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`

var modes = []codec.Decoding{codec.Strict, codec.StrictOptional, codec.Loose, codec.LooseOptional}

// decodeCase is a response, and what it is in some modes of decoding.
type decodeCase struct {
	name           string
	modes          []codec.Decoding
	response, want string
}

// eachMode checks each case in each of its modes.
func eachMode(t *testing.T, cases []decodeCase, check func(t *testing.T, c decodeCase, mode codec.Decoding)) {
	t.Helper()
	for _, c := range cases {
		for _, mode := range c.modes {
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) { check(t, c, mode) })
		}
	}
}

func TestDecodeSyncResponse(t *testing.T) {
	lax := []codec.Decoding{codec.StrictOptional, codec.Loose, codec.LooseOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	published := []codec.Decoding{codec.LooseOptional}
	eachMode(t, []decodeCase{
		{"no children", modes, `{"children":[]}`, ``},
		{"whole", modes, `{"status":{"ready":1},"children":[` + pod + `],"resyncAfterSeconds":5,"finalized":true}`,
			`status={"ready":1} children=` + pod + ` resync=5s finalized`},
		{"spaced", modes, " {\n\t\"status\" : { \"ready\": 1 } , \"children\" : [ ] }\r\n ", `status={ "ready": 1 }`},
		{"children as written", modes, `{"children":[{ "metadata": {"x":[{}],"name":"a"}, "kind":"Pod", "apiVersion":"v1" }]}`,
			`children={ "metadata": {"x":[{}],"name":"a"}, "kind":"Pod", "apiVersion":"v1" }`},
		{"escaped names", modes, `{"childr\u0065n":[{"\u006bind":"Pod","apiVersion":"v1","metadata":{"n\u0061me":"a"}}]}`,
			`children={"\u006bind":"Pod","apiVersion":"v1","metadata":{"n\u0061me":"a"}}`},
		{"free-form content", modes, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","Name":1},"Kind":null,"spec":7,"status":[]}]}`,
			`children={"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","Name":1},"Kind":null,"spec":7,"status":[]}`},
		{"null fields", modes, `{"children":[],"status":null,"resyncAfterSeconds":null,"finalized":null}`, ``},
		{"empty status", modes, `{"children":[],"status":{}}`, `status={}`},
		{"two children of one name", modes, `{"children":[` + pod + `,` + pod + `]}`, `children=` + pod + `;` + pod},
		{"fractional resync", modes, `{"children":[],"resyncAfterSeconds":0.25}`, `resync=250ms`},
		{"endless resync", modes, `{"children":[],"resyncAfterSeconds":1e999}`, `resync=8760h0m0s`},
		{"vanishing resync", modes, `{"children":[],"resyncAfterSeconds":1e-999}`, ``},
		{"negative resync", lax, `{"resyncAfterSeconds":-1}`, ``},
		{"children left out", lax, `{"status":{"ready":1}}`, `status={"ready":1}`},
		{"children null", lax, `{"children":null}`, ``},
		{"nothing", lax, `{}`, ``},
		{"unknown field beside children", loose, `{"childern":1,"children":[],"X":{"a":[1]}}`, ``},
		{"unknown field beside null", loose, `{"children":null,"X":1}`, ``},
		{"field twice", loose, `{"children":[],"status":{"a":1},"status":{"b":1},"finalized":true,"finalized":false}`, `status={"b":1}`},
		// The last of two lists wins, as docs/hooks.md documents.
		{"children twice", loose, `{"children":[` + pod + `],"children":[]}`, ``},
		{"children twice, the last longer", loose, `{"children":[],"children":[` + pod + `]}`, `children=` + pod},
		{"children, then null", loose, `{"children":[` + pod + `],"children":null}`, ``},
		// Unknown fields that do not resemble the list.
		{"fields of its own", published, `{"response":"done","finalized":true}`, `finalized`},
		{"error", published, `{"error":"boom"}`, ``},
		{"field of a child twice", loose, `{"children":[{"apiVersion":"v1","kind":"Pod","kind":"Job","metadata":{"name":"a"}}]}`,
			`children={"apiVersion":"v1","kind":"Pod","kind":"Job","metadata":{"name":"a"}}`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		checkResponse(t, c.response, codec.Wire{Decoding: mode}, c.want)
	})
}

// formatResponse formats a response in one line.
func formatResponse(r *hook.Response) string {
	var parts []string
	if r.Status != nil {
		parts = append(parts, "status="+string(r.Status))
	}
	for i, child := range r.Children {
		if i == 0 {
			parts = append(parts, "children="+string(child))
			continue
		}
		parts[len(parts)-1] += ";" + string(child)
	}
	if r.ResyncAfter != 0 {
		parts = append(parts, "resync="+r.ResyncAfter.String())
	}
	if r.Finalized {
		parts = append(parts, "finalized")
	}
	return strings.Join(append(parts, formatExtensions(r)...), " ")
}

func TestDecodeSyncResponseMalformed(t *testing.T) {
	strict := []codec.Decoding{codec.Strict}
	known := []codec.Decoding{codec.Strict, codec.StrictOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	composite := []codec.Decoding{codec.Loose}
	eachMode(t, []decodeCase{
		{"empty", modes, ``, `empty`},
		{"blank", modes, " \n", `empty`},
		{"not an object", modes, `[]`, `must be an object, is a list`},
		{"null", modes, `null`, `must be an object, is null`},
		{"text", modes, `"ok"`, `must be an object, is a string`},
		{"web page", modes, `<html>`, `invalid character '<' at start of value at byte 0`},
		{"cut short", modes, `{"children":[` + pod + `,{"apiVersion":"v1"`, `children[1]: cut short after 88 bytes`},
		{"cut short in a value", modes, `{"children":[],"status":{"a":tr`, `status.a: cut short after 31 bytes`},
		{"more than one", modes, `{"children":[]}{}`, `more than one JSON value`},
		{"trailing garbage", modes, `{"children":[]} x`, `invalid character 'x' at start of value at byte 16`},
		{"stray comma", modes, "{\n \"children\": [\n  ,]}", `children: invalid character ',' at start of value at byte 19`},
		{"invalid UTF-8", modes, "{\"children\":[],\"status\":{\"a\":\"\xff\"}}", `status.a: invalid UTF-8 at byte 30`},
		{"too deep", modes, `{"status":` + strings.Repeat(`{"a":`, 20000) + `0`, ``},

		{"children an object", modes, `{"children":{}}`, `children: must be a list ([] for none), is an object`},
		{"children a string", modes, `{"children":"none"}`, `children: must be a list ([] for none), is a string`},
		{"child null", modes, `{"children":[null]}`, `children[0]: must be an object, is null`},
		{"child a number", modes, `{"children":[` + pod + `,7]}`, `children[1]: must be an object, is a number`},
		{"child without apiVersion", modes, `{"children":[{"kind":"Pod","metadata":{"name":"a"}}]}`, `children[0].apiVersion: required`},
		{"child without kind", modes, `{"children":[` + pod + `,` + pod + `,{"apiVersion":"v1","metadata":{"name":"a"}}]}`, `children[2].kind: required`},
		{"child with kind null", modes, `{"children":[{"apiVersion":"v1","kind":null,"metadata":{"name":"a"}}]}`, `children[0].kind: must be a string, is null`},
		{"child with empty kind", modes, `{"children":[{"apiVersion":"v1","kind":"","metadata":{"name":"a"}}]}`, `children[0].kind: must not be empty`},
		{"child without metadata", modes, `{"children":[{"apiVersion":"v1","kind":"Pod"}]}`, `children[0].metadata.name: required`},
		{"child with metadata null", modes, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":null}]}`, `children[0].metadata: must be an object, is null`},
		{"child without name", modes, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}]}`, `children[0].metadata.name: required`},
		{"child with numeric name", modes, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}]}`, `children[0].metadata.name: must be a string, is a number`},
		{"child with Kind", modes, `{"children":[{"apiVersion":"v1","Kind":"Pod","metadata":{"name":"a"}}]}`, `children[0].kind: required`},
		{"nothing but a list", modes, `[` + pod + `]`, `must be an object, is a list`},

		{"status a list", modes, `{"children":[],"status":[]}`, `status: must be an object, is a list`},
		{"resync a string", modes, `{"children":[],"resyncAfterSeconds":"5"}`, `resyncAfterSeconds: must be a number, is a string`},
		{"resync negative", strict, `{"children":[],"resyncAfterSeconds":-0.5}`, `resyncAfterSeconds: must not be negative`},
		{"resync NaN", modes, `{"children":[],"resyncAfterSeconds":NaN}`, `resyncAfterSeconds: invalid character 'N' at start of value at byte 36`},
		{"finalized a string", modes, `{"children":[],"finalized":"true"}`, `finalized: must be true or false, is a string`},

		{"children left out", strict, `{"status":{}}`, `children: required; return [] for none`},
		{"children null", strict, `{"children":null}`, `children: must be a list ([] for none), is null`},
		{"children misspelt", known, `{"childern":[]}`, `childern: unknown field; did you mean "children"?`},
		{"children in capitals", known, `{"Children":[]}`, `Children: unknown field; did you mean "children"?`},
		{"unknown field", known, `{"children":[],"note":"hi"}`, `note: unknown field`},
		{"odd unknown field", known, `{"a.b/c":1}`, `["a.b/c"]: unknown field`},
		{"children misspelt", loose, `{"childs":[],"status":{}}`, `childs: unknown field, and children is missing; did you mean "children"?; return [] for none`},
		{"children misspelt beside others", loose, `{"Children":[],"status":{}}`, `Children: unknown field, and children is missing; did you mean "children"?; return [] for none`},
		{"part of the name", loose, `{"desiredChildren":[]}`, `desiredChildren: unknown field, and children is missing; did you mean "children"?; return [] for none`},
		{"second of two misspelt", []codec.Decoding{codec.LooseOptional}, `{"note":1,"childern":[]}`, `childern: unknown field, and children is missing; did you mean "children"?; return [] for none`},
		{"field without a name", composite, `{"":[]}`, `[""]: unknown field, and children is missing; return [] for none`},
		{"resync misspelt", known, `{"children":[],"resyncAfter":1}`, `resyncAfter: unknown field; did you mean "resyncAfterSeconds"?`},
		{"error in place of a response", composite, `{"error":"boom"}`, `error: unknown field, and children is missing; return [] for none`},
		{"field twice", known, `{"children":[],"status":{},"status":{}}`, `status: given twice`},
		{"field twice in a child", known, `{"children":[{"apiVersion":"v1","kind":"Pod","kind":"Pod","metadata":{"name":"a"}}]}`, `children[0].kind: given twice`},
		{"label twice in a child", known, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a/b":"1","a/b":"2"}}}]}`, `children[0].metadata.labels["a/b"]: given twice`},
		{"children twice", known, `{"children":[` + pod + `],"children":[]}`, `children: given twice`},
		{"name of a child taken back", loose, `{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"metadata":{}}]}`, `children[0].metadata.name: required`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		checkMalformed(t, c.response, codec.Wire{Decoding: mode}, c.want)
	})
}

func checkMalformed(t *testing.T, response string, w codec.Wire, want string) {
	t.Helper()
	resp, err := codec.DecodeSyncResponse([]byte(response), w)
	if resp != nil {
		t.Errorf("got response %s", formatResponse(resp))
	}
	checkMalformedError(t, err, want)
}

// Errors stay short for any response.
func TestDecodeSyncResponseErrorIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, response := range []string{
		`{"` + long + `":1}`,
		`{"children":[{"` + long + `":{"` + long + `":`,
		`{"children":[` + long,
	} {
		for _, mode := range modes {
			_, err := codec.DecodeSyncResponse([]byte(response), codec.Wire{Decoding: mode})
			if mode == codec.LooseOptional && err == nil && strings.HasSuffix(response, ":1}") {
				continue // The field does not resemble the list.
			}
			if err == nil || len(err.Error()) > 400 {
				t.Errorf("%s: error of %d bytes", mode, len(fmt.Sprint(err)))
			}
		}
	}
}

// Appending to a child must not overwrite the next one.
func TestDecodeSyncResponseChildrenAreApart(t *testing.T) {
	resp := must.Get(codec.DecodeSyncResponse([]byte(`{"status":{},"children":[`+pod+`,`+pod+`]}`), codec.Wire{Decoding: codec.Strict})).In(t)
	_ = append(resp.Status, "######"...)
	_ = append(resp.Children[0], "######"...)
	if got := string(resp.Children[1]); got != pod {
		t.Errorf("neighbour was overwritten: %s", got)
	}
}

// A byte order mark before a response is no part of it, in all kinds of responses.
func TestByteOrderMark(t *testing.T) {
	const mark = "\ufeff"
	for _, mode := range modes {
		_, sync := codec.DecodeSyncResponse([]byte(mark+`{"children":[]}`), codec.Wire{Decoding: mode})
		_, customize := codec.DecodeCustomizeResponse([]byte(mark+`{"relatedResources":[]}`), mode)
		_, handler := codec.DecodeHandlerResponse([]byte(mark+`{}`), mode)
		_, review := codec.DecodeReviewResponse([]byte(mark+`{"allowed":true}`), mode)
		if err := errors.Join(sync, customize, handler, review); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := codec.DecodeSyncResponse([]byte(mark+mark+`{"children":[]}`), codec.Wire{Decoding: mode}); err == nil {
			t.Errorf("%s: two marks are accepted", mode)
		}
	}
}

func TestResyncIsNeverNegative(t *testing.T) {
	for _, seconds := range []string{"1e308", "-1e308", "9223372036.854775807", "9223372037", "0.0000000001"} {
		resp := must.Get(codec.DecodeSyncResponse([]byte(`{"children":[],"resyncAfterSeconds":`+seconds+`}`), codec.Wire{Decoding: codec.Loose})).In(t)
		if resp.ResyncAfter < 0 || resp.ResyncAfter > 365*24*time.Hour {
			t.Errorf("%s seconds became %v", seconds, resp.ResyncAfter)
		}
	}
}

func BenchmarkDecodeSyncResponse(b *testing.B) {
	child := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"x"}},"data":{"v":"%01000d"}}`, 0)
	response := []byte(`{"status":{"ready":1},"children":[` + strings.Repeat(child+",", 9) + child + `]}`)
	for _, mode := range modes {
		b.Run(mode.String(), func(b *testing.B) {
			b.SetBytes(int64(len(response)))
			b.ReportAllocs()
			for b.Loop() {
				must.Get(codec.DecodeSyncResponse(response, codec.Wire{Decoding: mode})).In(b)
			}
		})
	}
}
