package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestDecodeCustomizeResponse(t *testing.T) {
	lax := []codec.Decoding{codec.StrictOptional, codec.Loose, codec.LooseOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	eachMode(t, []decodeCase{
		{"none", modes, `{"relatedResources":[]}`, `null`},
		{"left out", lax, `{}`, `null`},
		{"null", lax, `{"relatedResources":null}`, `null`},
		{"everything of a kind", modes, `{"relatedResources":[{"apiVersion":"v1","resource":"nodes"}]}`, `[{"apiVersion":"v1","resource":"nodes"}]`},
		{"nulls", modes, `{"relatedResources":[{"apiVersion":"v1","resource":"nodes","namespace":null,"names":null,"labelSelector":null,"namespaceSelector":null}]}`,
			`[{"apiVersion":"v1","resource":"nodes"}]`},
		{"names", modes, `{"relatedResources":[{"apiVersion":"v1","resource":"secrets","namespace":"a","names":["b","\u0063"]}]}`,
			`[{"apiVersion":"v1","resource":"secrets","namespace":"a","names":["b","c"]}]`},
		{"selectors", modes, `{"relatedResources":[{"apiVersion":"v1","resource":"pods",` +
			`"labelSelector":{"matchLabels":{"a":"1","b":""},"matchExpressions":[{"key":"c","operator":"In","values":["x","y"]},{"key":"d","operator":"Exists"}]},` +
			`"namespaceSelector":{}}]}`,
			`[{"apiVersion":"v1","resource":"pods","labelSelector":{"matchLabels":{"a":"1","b":""},"matchExpressions":[{"key":"c","operator":"In","values":["x","y"]},{"key":"d","operator":"Exists"}]},"namespaceSelector":{}}]`},
		{"selector with nulls", modes, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","labelSelector":{"matchLabels":null,"matchExpressions":null}}]}`,
			`[{"apiVersion":"v1","resource":"pods","labelSelector":{}}]`},
		{"unknown fields", loose, `{"x":1,"relatedResources":[{"apiVersion":"v1","resource":"pods","comment":{}}]}`, `[{"apiVersion":"v1","resource":"pods"}]`},
		{"misspelt but narrow", loose, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","nmaes":["a"],"namespace":"b"}]}`,
			`[{"apiVersion":"v1","resource":"pods","namespace":"b"}]`},
		{"twice", loose, `{"relatedResources":[{"apiVersion":"v1","resource":"pods"}],"relatedResources":[{"apiVersion":"v1","resource":"nodes"}]}`, `[{"apiVersion":"v1","resource":"nodes"}]`},
		{"field twice", loose, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["a"],"names":["b"],"labelSelector":{},"labelSelector":null}]}`,
			`[{"apiVersion":"v1","resource":"pods","names":["b"]}]`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		resp := must.Get(codec.DecodeCustomizeResponse([]byte(c.response), mode)).In(t)
		checkWire(t, formatRules(t, resp), []byte(c.want))
	})
}

func formatRules(t *testing.T, resp *hook.CustomizeResponse) []byte {
	t.Helper()
	return must.Get(json.Marshal(resp.Related)).In(t)
}

// An empty list of names must not select all objects.
func TestEmptyNamesStayEmpty(t *testing.T) {
	for response, want := range map[string]bool{`"names":[]`: true, `"names":null`: false, `"namespace":"a"`: false} {
		resp := must.Get(codec.DecodeCustomizeResponse([]byte(`{"relatedResources":[{"apiVersion":"v1","resource":"pods",`+response+`}]}`), codec.Strict)).In(t)
		if got := resp.Related[0].Names != nil; got != want {
			t.Errorf("%s: names given: %v, want %v", response, got, want)
		}
	}
}

func TestDecodeCustomizeResponseMalformed(t *testing.T) {
	strict := []codec.Decoding{codec.Strict}
	known := []codec.Decoding{codec.Strict, codec.StrictOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	composite := []codec.Decoding{codec.Loose}
	rule := func(fields string) string {
		return `{"relatedResources":[{"apiVersion":"v1","resource":"nodes"},{"apiVersion":"v1","resource":"pods",` + fields + `}]}`
	}
	eachMode(t, []decodeCase{
		{"empty", modes, ``, `empty`},
		{"left out", strict, `{}`, `relatedResources: required; return [] for none`},
		{"null", strict, `{"relatedResources":null}`, `relatedResources: must be a list ([] for none), is null`},
		{"misspelt", known, `{"relatedResource":[]}`, `relatedResource: unknown field; did you mean "relatedResources"?`},
		{"misspelt", loose, `{"related":[]}`, `related: unknown field, and relatedResources is missing; did you mean "relatedResources"?; return [] for none`},
		{"an object", modes, `{"relatedResources":{}}`, `relatedResources: must be a list ([] for none), is an object`},
		{"twice", known, `{"relatedResources":[],"relatedResources":[]}`, `relatedResources: given twice`},
		{"rule null", modes, `{"relatedResources":[null]}`, `relatedResources[0]: must be an object, is null`},
		{"no apiVersion", modes, `{"relatedResources":[{"resource":"pods"}]}`, `relatedResources[0].apiVersion: required`},
		{"no resource", modes, `{"relatedResources":[{"apiVersion":"v1"}]}`, `relatedResources[0].resource: required`},
		{"names no list", modes, rule(`"names":"a"`), `relatedResources[1].names: must be a list, is a string`},
		{"name null", modes, rule(`"names":["a",null]`), `relatedResources[1].names[1]: must be a string, is null`},
		{"namespace no text", modes, rule(`"namespace":7`), `relatedResources[1].namespace: must be a string, is a number`},
		{"selector a list", modes, rule(`"labelSelector":[]`), `relatedResources[1].labelSelector: must be an object, is a list`},
		{"label no text", modes, rule(`"labelSelector":{"matchLabels":{"a/b":true}}`), `relatedResources[1].labelSelector.matchLabels["a/b"]: must be a string, is a boolean`},
		{"label null", modes, rule(`"labelSelector":{"matchLabels":{"a":null}}`), `relatedResources[1].labelSelector.matchLabels.a: must be a string, is null`},
		{"values no list", modes, rule(`"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"In","values":"x"}]}`),
			`relatedResources[1].namespaceSelector.matchExpressions[0].values: must be a list, is a string`},
		{"unknown field", known, rule(`"kind":"Pod"`), `relatedResources[1].kind: unknown field`},
		{"misspelt selector", known, rule(`"labelSelecter":{}`), `relatedResources[1].labelSelecter: unknown field; did you mean "labelSelector"?`},
		{"misspelt selector", loose, rule(`"labelSelecter":{}`), `relatedResources[1].labelSelecter: unknown field, and no other field limits the selection; did you mean "labelSelector"?`},
		{"misspelt selector before a comment", loose, rule(`"labelSelecter":{},"comment":""`),
			`relatedResources[1].labelSelecter: unknown field, and no other field limits the selection; did you mean "labelSelector"?`},
		{"misspelt labels", known, rule(`"labelSelector":{"matchLabel":{}}`), `relatedResources[1].labelSelector.matchLabel: unknown field; did you mean "matchLabels"?`},
		{"misspelt labels", loose, rule(`"labelSelector":{"matchLabel":{}}`),
			`relatedResources[1].labelSelector.matchLabel: unknown field, and no other field limits the selection; did you mean "matchLabels"?`},
		{"misspelt requirement", known, rule(`"labelSelector":{"matchExpressions":[{"key":"a","op":"In"}]}`), `relatedResources[1].labelSelector.matchExpressions[0].op: unknown field`},
		{"field twice", known, rule(`"names":[],"names":[]`), `relatedResources[1].names: given twice`},
		{"cut short", modes, `{"relatedResources":[{"apiVersion":"v1"`, `relatedResources[0]: cut short after 39 bytes`},
		{"reply of another hook", composite, `{"children":[],"status":{}}`, `children: unknown field, and relatedResources is missing; return [] for none`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		resp, err := codec.DecodeCustomizeResponse([]byte(c.response), mode)
		if resp != nil {
			t.Errorf("got rules %s", formatRules(t, resp))
		}
		checkMalformedError(t, err, c.want)
	})
}

func BenchmarkDecodeCustomizeResponse(b *testing.B) {
	rule := `{"apiVersion":"v1","resource":"configmaps","namespace":"a","labelSelector":{"matchLabels":{"app":"x"}},"names":["a","b"]}`
	response := []byte(`{"relatedResources":[` + strings.Repeat(rule+",", 9) + rule + `]}`)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(codec.DecodeCustomizeResponse(response, codec.Strict)).In(b)
	}
}

// checkMalformedError expects a MalformedError containing want.
func checkMalformedError(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*hook.MalformedError](err); !ok {
		t.Fatalf("got error %v, want a malformed one", err)
	}
	got := strings.TrimPrefix(err.Error(), "malformed response: ")
	if want != "" && got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
