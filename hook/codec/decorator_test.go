package codec_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
)

func TestDecodeDecorator(t *testing.T) {
	lax := []codec.Decoding{codec.StrictOptional, codec.Loose, codec.LooseOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	eachMode(t, []decodeCase{
		{"no attachments", modes, `{"attachments":[]}`, ``},
		{"whole", modes, `{"labels":{"a":"1"},"annotations":{"b":"2"},"status":{"ready":1},"attachments":[` + pod + `],"resyncAfterSeconds":5,"finalized":true}`,
			`status={"ready":1} children=` + pod + ` resync=5s finalized annotations=b:2 labels=a:1`},
		{"null removes", modes, `{"attachments":[],"labels":{"a":null,"b":""},"annotations":{"x":null}}`, `annotations=x:(gone) labels=a:(gone),b:`},
		{"none at all", modes, `{"attachments":[],"labels":null,"annotations":{}}`, ``},
		{"empty status is a status", modes, `{"attachments":[],"status":{}}`, `status={}`},
		{"null status is none", modes, `{"attachments":[],"status":null}`, ``},
		{"odd but good marks", modes, `{"attachments":[],"labels":{"a.b/C_d":"1.x-Y"},"annotations":{"A.b/c":"any ü\u0074hing\n"}}`,
			"annotations=A.b/c:any üthing\n labels=a.b/C_d:1.x-Y"},
		{"attachments left out", lax, `{"labels":{"a":"1"}}`, `labels=a:1`},
		{"attachments null", lax, `{"attachments":null}`, ``},
		{"marks twice", loose, `{"attachments":[],"labels":{"a":"1","a":"2"},"labels":{"b":"3","b":null}}`, `labels=b:(gone)`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		checkResponse(t, c.response, codec.Wire{ControllerType: hook.Decorator, Decoding: mode}, c.want)
	})
}

func TestDecodeDecoratorMalformed(t *testing.T) {
	strict := []codec.Decoding{codec.Strict}
	known := []codec.Decoding{codec.Strict, codec.StrictOptional}
	loose := []codec.Decoding{codec.Loose, codec.LooseOptional}
	eachMode(t, []decodeCase{
		{"attachments missing", strict, `{}`, `attachments: required; return [] for none`},
		{"attachments misspelt", known, `{"attachment":[]}`, `attachment: unknown field; did you mean "attachments"?`},
		{"attachments misspelt", loose, `{"attachment":[]}`, `attachment: unknown field, and attachments is missing; did you mean "attachments"?; return [] for none`},
		{"children instead", known, `{"children":[]}`, `children: unknown field; did you mean "attachments"?`},
		{"children instead", loose, `{"children":[]}`, `children: unknown field, and attachments is missing; did you mean "attachments"?; return [] for none`},
		{"attachments twice", known, `{"attachments":[],"attachments":[]}`, `attachments: given twice`},
		{"attachment without name", modes, `{"attachments":[{"apiVersion":"v1","kind":"Pod"}]}`, `attachments[0].metadata.name: required`},
		{"labels a list", modes, `{"attachments":[],"labels":["a"]}`, `labels: must be an object, is a list`},
		{"label a number", modes, `{"attachments":[],"labels":{"a/b":1}}`, `labels["a/b"]: must be a string, is a number`},
		{"annotation an object", modes, `{"attachments":[],"annotations":{"a":{}}}`, `annotations.a: must be a string, is an object`},
		{"label twice", known, `{"attachments":[],"labels":{"a":"1","a":null}}`, `labels.a: given twice`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		checkMalformed(t, c.response, codec.Wire{ControllerType: hook.Decorator, Decoding: mode}, c.want)
	})
}

// The decoder rejects what the API server would reject, with the API server's messages.
func TestDecodeDecoratorRejectsInvalidLabels(t *testing.T) {
	for name, response := range map[string]string{
		"label key":        `{"attachments":[],"labels":{"a b":"1"}}`,
		"label key empty":  `{"attachments":[],"labels":{"":null}}`,
		"label value":      `{"attachments":[],"labels":{"a":"not so"}}`,
		"annotation key":   `{"attachments":[],"annotations":{"a/b/c":"1"}}`,
		"key to be gone":   `{"attachments":[],"annotations":{"ü":null}}`,
		"label value long": `{"attachments":[],"labels":{"a":"0123456789012345678901234567890123456789012345678901234567890123"}}`,
	} {
		for _, mode := range modes {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				checkMalformed(t, response, codec.Wire{ControllerType: hook.Decorator, Decoding: mode}, "")
			})
		}
	}
}

// Users own the metadata of composite parents, so hooks cannot set it.
func TestDecodeCompositeHasNoLabels(t *testing.T) {
	for field, want := range map[string]string{
		`"labels":{}`:         `labels: unknown field`,
		`"annotations":null`:  `annotations: unknown field`,
		`"attachments":[1,2]`: `attachments: unknown field; did you mean "children"?`,
	} {
		for _, mode := range []codec.Decoding{codec.Strict, codec.StrictOptional} {
			checkMalformed(t, beside(hook.Composite, field), codec.Wire{Decoding: mode}, want)
		}
		checkResponse(t, beside(hook.Composite, field), codec.Wire{Decoding: codec.Loose}, "")
	}
}

// Without declared children, a response without the list loses nothing.
func TestDecodeNoChildren(t *testing.T) {
	lax := []codec.Decoding{codec.Loose, codec.LooseOptional}
	eachMode(t, []decodeCase{
		{"left out", modes, `{"labels":{"a":"1"}}`, `labels=a:1`},
		{"null", modes, `{"attachments":null}`, ``},
		{"finalized alone", modes, `{"finalized":true}`, `finalized`},
		{"a field of its own", lax, `{"response":"deleted"}`, ``},
		{"fields of its own", lax, `{"msg":"deleted","finalized":true}`, `finalized`},
		{"children of the other form", lax, `{"children":[],"finalized":true}`, `finalized`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		checkResponse(t, c.response, codec.Wire{ControllerType: hook.Decorator, Decoding: mode, NoChildren: true}, c.want)
	})
	for _, mode := range []codec.Decoding{codec.Strict, codec.StrictOptional} {
		checkMalformed(t, `{"msg":"deleted"}`, codec.Wire{ControllerType: hook.Decorator, Decoding: mode, NoChildren: true}, `msg: unknown field`)
	}
}
