package object

import (
	"encoding/json"
	"math"
	"testing"
)

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
