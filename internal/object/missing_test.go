package object

import (
	"encoding/json"
	"testing"
)

func TestMissing(t *testing.T) {
	for _, c := range []struct{ want, have, missing, first string }{
		{`{"a":1}`, `{"a":2}`, `null`, ""},
		{`{"a":1,"b":null}`, `{"a":2,"c":1}`, `null`, ""},
		{`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"c":3}}`, `{"a":1,"b":{"d":2}}`, "a"},
		{`{"b":{"c":1,"d":2}}`, `{"b":{"c":3}}`, `{"b":{"d":2}}`, "b.d"},
		{`{"b":{"c":1}}`, `{"b":"text"}`, `null`, ""},
		{`{"b":{"c":1}}`, `{}`, `{"b":{"c":1}}`, "b"},
	} {
		want, _ := Decode([]byte(c.want))
		have, _ := Decode([]byte(c.have))
		missing, first := Missing(want, have)
		if text, _ := json.Marshal(missing); string(text) != c.missing || first != c.first {
			t.Errorf("%s in %s: %s at %q, want %s at %q", c.want, c.have, text, first, c.missing, c.first)
		}
	}
}
