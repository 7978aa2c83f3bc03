package object_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestMembers(t *testing.T) {
	var got []string
	err := object.Members([]byte(" { \"a\" : [1, {}], \"b\\n\":\"x\" , \"\" :null}\n"), func(quoted, value []byte) error {
		got = append(got, string(object.Unquoted(quoted))+"="+string(value))
		return nil
	})
	if err != nil || strings.Join(got, "|") != "a=[1, {}]|b\n=\"x\"|=null" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestElements(t *testing.T) {
	var got []string
	err := object.Elements([]byte(` [ 1,"a" , {"b":[]},null ] `), func(value []byte) error {
		got = append(got, string(value))
		return nil
	})
	if err != nil || strings.Join(got, "|") != `1|"a"|{"b":[]}|null` {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMembersErrors(t *testing.T) {
	for data, want := range map[string]string{
		"":                 "empty",
		"  ":               "empty",
		"null":             "must be an object, is null",
		"[]":               "must be an object, is a list",
		`"a"`:              "must be an object, is a string",
		"}":                "invalid character '}'",
		"{":                "unexpected EOF",
		`{"a"`:             "unexpected EOF",
		`{"a":1,}`:         "invalid character ','",
		`{"a":01}`:         "invalid character '1'",
		`{"a":1}{}`:        "more than one JSON value",
		`{"a":1} x`:        "more than one JSON value",
		`{"a":1]`:          "invalid character ']'",
		`{1:1}`:            "member name must be a string",
		"{\"a\":\"\xff\"}": "invalid UTF-8",
		`{"a":"\ud800"}`:   "invalid surrogate pair",
	} {
		err := object.Members([]byte(data), func(_, _ []byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}

func TestMembersStopOnError(t *testing.T) {
	stop := errors.New("stop")
	if err := object.Members([]byte(`{"a":1,"b":2}`), func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := object.Elements([]byte(`[1,2]`), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// FuzzMembers checks that without an error the data is valid and all members were passed.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":null}],"c":"\u00e9"}`, `[1,"a",{}]`, `{`, `{"a":1,}`, `[1 2]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, elements := 0, 0
		if object.Members(data, func(_, _ []byte) error { members++; return nil }) == nil {
			var all map[string]json.RawMessage
			if err := json.Unmarshal(data, &all); err != nil || len(all) > members {
				t.Errorf("%q: %d members, %v", data, members, err)
			}
		}
		if object.Elements(data, func([]byte) error { elements++; return nil }) == nil {
			var all []json.RawMessage
			if err := json.Unmarshal(data, &all); err != nil || len(all) != elements {
				t.Errorf("%q: %d elements, %v", data, elements, err)
			}
		}
	})
}
