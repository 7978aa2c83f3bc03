package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// Fault S4: a size in bytes does not bound the tree of a text.
func TestLimitValues(t *testing.T) {
	for _, c := range []struct {
		text   string
		values int
	}{
		{`null`, 1},
		{`{}`, 1},
		{` [ ] `, 1},
		{`{"a":1}`, 2},
		{`{"a":{"b":[]}}`, 3},
		{`[[[]],{},""]`, 5},
		{`[1,2,3]`, 4},
		{`{"a":"x,{[\",{\\","b,{":"é,\u00e9,"}`, 3},
		{`{"metadata":{"name":"x","labels":{"a":"b","c":"d"}},"spec":[true,null,{"n":1.5}]}`, 11},
		{"[" + strings.Repeat("{},", 4999) + "{}]", 5001},
		{strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 5000},
	} {
		if got := valuesIn(t, c.text); got != c.values {
			t.Fatalf("%.80s: the tree has %d values, the test expects %d", c.text, got, c.values)
		}
		if err := LimitValues([]byte(c.text), c.values); err != nil {
			t.Errorf("%.80s: has %d values: %v", c.text, c.values, err)
		}
		if err := LimitValues([]byte(c.text), c.values-1); err == nil || err.Error() != fmt.Sprintf("has more than %d JSON values", c.values-1) {
			t.Errorf("%.80s: has %d values, with a limit of %d: %v", c.text, c.values, c.values-1, err)
		}
	}
}

// FuzzLimitValues checks the count against the decoded tree.
func FuzzLimitValues(f *testing.F) {
	for _, text := range texts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		count := countValues(data, len(data)+1)
		if len(data) > 0 && count > len(data)/2+1 && json.Valid(data) {
			t.Errorf("%q: %d values in %d bytes", data, count, len(data))
		}
		// The tree has a duplicate name once.
		if !json.Valid(data) || !HasUniqueNames(data) {
			return
		}
		if want := valuesIn(t, string(data)); count != want {
			t.Errorf("%q: %d values, the tree has %d", data, count, want)
		}
	})
}

func valuesIn(t *testing.T, text string) int {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // which may be larger than a float64
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(fmt.Errorf("%.80s: %w", text, err))
	}
	var count func(any) int
	count = func(value any) int {
		n := 1
		switch value := value.(type) {
		case map[string]any:
			for _, member := range value {
				n += count(member)
			}
		case []any:
			for _, item := range value {
				n += count(item)
			}
		}
		return n
	}
	return count(tree)
}

func TestIndent(t *testing.T) {
	for text, want := range map[string]string{
		`{"a,[":[1,{"b":"\"{"}],"c":{}}`: "{\n  \"a,[\": [\n    1,\n    {\n      \"b\": \"\\\"{\"\n    }\n  ],\n  \"c\": {}\n}",
		`no JSON`:                        "",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000):                                 "",
		strings.Repeat("[", 99) + strings.Repeat("0,", 1<<18) + "0" + strings.Repeat("]", 99): "",
	} {
		got, indented := Indent([]byte(text))
		if indented != (want != "") || string(got) != cmp.Or(want, text) {
			t.Errorf("%.50s: %.200s, %t", text, got, indented)
		}
	}
	for _, text := range texts() {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(text)) != nil {
			continue
		}
		got, indented := Indent(compact.Bytes())
		if more := len(got) - compact.Len(); !indented || indentation(compact.Bytes()) < more/2 {
			t.Errorf("%s: %d bytes more, expected %d", text, more, indentation(compact.Bytes()))
		}
	}
}

func BenchmarkLimitValues(b *testing.B) {
	text := []byte(`{"children":[` + strings.Repeat(string(settings())+",", 1000) + `null]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		must.Succeed(b, LimitValues(text, len(text)/2))
	}
}

// settings returns a ConfigMap with a text.
func settings() []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"text":%q}}`, strings.Repeat("setpoint ", 30))
}

// texts returns JSON, and nearly JSON.
func texts() []string {
	return []string{
		`{}`, ` { } `, `[]`, `null`, `true`, `tru`, `nullx`, `""`, `"`, `"\"`, `{"a":1,}`, `[1,]`, `[,1]`, `{"a" 1}`, `{"a":}`, `{1:1}`, `{"a":1 "b":2}`,
		`{"metadata":{"name":"x","labels":{"a":"b"},"ownerReferences":[{"uid":"u","controller":true},null]},"spec":[[],{},[{}]]}`,
		`"\u0041\ud83d\ude00\/\b\f\n\r\t"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\u00g0"`, `"\x"`, `"\u00"`,
		"\"\x01\"", "\"\x1f234567\"", "\"1234567\x7f\"", "\"\xff\"", "\"é and €\"", "\"\xed\xa0\x80\"", "\"12345678\\\"12345678\"",
		`0`, `-0`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e`, `-`, `+1`, `123456789012345678901234567890`, `1 2`, `{}A`, ``, ` `,
		strings.Repeat("[", 99) + strings.Repeat("]", 99), strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9),
	}
}

func TestWholeNumbers(t *testing.T) {
	for from, want := range map[string]string{
		`{"a":2.0,"b":[1e3,-4.00,1.5],"c":"2.0","2.0":"1e3"}`: `{"a":2,"b":[1000,-4,1.5],"c":"2.0","2.0":"1e3"}`,
		`2.0`: `2`, `1e3`: `1000`, `1E+3`: `1000`, `-0.0`: `0`, `0e5`: `0`, `120e-1`: `12`, `1.50e1`: `15`, `1.5e3`: `1500`,
		`10e-2`: `10e-2`, `0.5`: `0.5`, `1e-1`: `1e-1`, `7`: `7`, `-7`: `-7`, `0.0e-3`: `0`, `100e-2`: `1`,
		`9223372036854775807.0`: `9223372036854775807`, `9223372036854775808.0`: `9223372036854775808.0`,
		`9007199254740993.0`: `9007199254740993`, `-9223372036854775808.0`: `-9223372036854775808`,
		`1e18`: `1000000000000000000`, `1e19`: `1e19`, `1e999999999`: `1e999999999`, `1e-999999999`: `1e-999999999`,
		`["a\\",2.0]`: `["a\\",2]`, `["a\"2.0",true,false,null]`: `["a\"2.0",true,false,null]`, ``: ``, `"2.0`: `"2.0`,
	} {
		if got := string(WholeNumbers([]byte(from))); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}

func FuzzWholeNumbers(f *testing.F) {
	for _, seed := range []string{`{"a":2.0}`, `[1e3,"1e3",-0.0]`, `120e-1`, `-.`, `1e`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := WholeNumbers([]byte(text))
		var before, after float64
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil || after != before {
			t.Errorf("%s became %s: %v", text, got, err)
		}
		if math.Trunc(before) == before && math.Abs(before) < 1<<53 && !json.Valid(got) {
			t.Errorf("%s became %s", text, got)
		}
	})
}

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
