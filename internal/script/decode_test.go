package script

import (
	"encoding/json"
	"errors"
	"github.com/setpoint-dev/setpoint/internal/must"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// goValues are those of encoding/json, with objects as pointers.
type goValues struct{}

func (goValues) Null() any                       { return nil }
func (goValues) Bool(is bool) any                { return is }
func (goValues) Number(text []byte) (any, error) { return strconv.ParseFloat(string(text), 64) }
func (goValues) String(text []byte) (any, error) {
	return string(text), nil
}
func (goValues) Array() (any, error) { return &[]any{}, nil }
func (goValues) Append(array any, _ int, v any) error {
	a := array.(*[]any)
	*a = append(*a, plain(v))
	return nil
}
func (goValues) Object() (any, error) { return map[string]any{}, nil }
func (goValues) Set(object any, key []byte, v any) error {
	object.(map[string]any)[string(key)] = plain(v)
	return nil
}

func plain(v any) any {
	if array, is := v.(*[]any); is {
		return *array
	}
	return v
}

func TestDecode(t *testing.T) {
	for _, text := range []string{
		`null`, ` true `, `false`, `0`, `-1.5e+10`, `""`, `[]`, `{}`, "{ \"a\" :\t[ 1 , {\"b\" : \"c\"} ]\r\n, \"\":[[],[{}]] }",
		`"\"\\\/\b\f\n\r\t é \u00e9 \ud83d\ude00 😀"`, `{"\u0061\n":"b","c":"\u0000d"}`, `{"a":1,"a":2}`,
	} {
		var want any
		must.Succeed(t, json.Unmarshal([]byte(text), &want))
		got, err := Decode([]byte(text), 10, goValues{})
		if err != nil || !reflect.DeepEqual(plain(got), want) {
			t.Errorf("%s: got %#v, %v, want %#v", text, plain(got), err, want)
		}
	}
}

func TestDecodeHalvesOfPairs(t *testing.T) {
	got, err := Decode([]byte(`"\ud800a\udfff\ud83d\ude00"`), 1, goValues{})
	if want := "\xed\xa0\x80a\xed\xbf\xbf😀"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		``: "the JSON ends too early", `{`: "the JSON ends too early", `{"a"`: "the JSON ends too early", `"a`: "the JSON ends too early",
		`"\`: "the JSON ends too early", `"\u12`: "the JSON ends too early", `[1`: "the JSON ends too early", `tru`: `unexpected 't' at offset 0 of the JSON`,
		`[1 2]`: `unexpected '2' at offset 3 of the JSON`, `{a`: `unexpected 'a' at offset 1 of the JSON`, `{"a",`: `unexpected ',' at offset 4 of the JSON`,
		`1 1`: `unexpected '1' at offset 2 of the JSON`, `"\x"`: `unexpected 'x' at offset 2 of the JSON`, `"\u00zz"`: `unexpected '0' at offset 3 of the JSON`,
		`-`: "invalid syntax", `[,]`: `unexpected ',' at offset 1 of the JSON`, `[1,]`: `unexpected ']' at offset 3 of the JSON`,
		`[[[[]]]]`: ErrTooDeep.Error(), `{"a":{"b":{"c":{}}}}`: ErrTooDeep.Error(),
	} {
		if _, err := Decode([]byte(text), 3, goValues{}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Decode([]byte(`[[[]],[[]]]`), 3, goValues{}); errors.Is(err, ErrTooDeep) {
		t.Error("levels beside each other are too many")
	}
}
