package object_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/must"
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

// The built-in groups are those of client-go, and none of a CRD or of an aggregated API server.
func TestBuiltInGroups(t *testing.T) {
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if !object.IsBuiltInGroup(version.Group) {
			t.Errorf("%s is not built in", version.Group)
		}
	}
	for _, group := range []string{"example.org", "gateway.networking.k8s.io", "snapshot.storage.k8s.io", "metrics.k8s.io", "k8s.io", "metrics"} {
		if object.IsBuiltInGroup(group) || scheme.Scheme.IsGroupRegistered(group) {
			t.Errorf("%s is built in", group)
		}
	}
}

func TestEqualScalars(t *testing.T) {
	for _, c := range []struct {
		a, b any
		same bool
	}{
		{int64(1), int64(1), true},
		{int64(1), int64(2), false},
		{int64(1), 1.0, true},
		{int64(1), 1.5, false},
		{1.5, 1.5, true},
		{1.5, 2.5, false},
		// Both are the same float64.
		{int64(9007199254740992), int64(9007199254740993), false},
		{int64(-9007199254740992), int64(-9007199254740993), false},
		{int64(9007199254740993), int64(9007199254740993), true},
		{int64(9223372036854775807), int64(9223372036854775806), false},
		{int64(9007199254740992), 9007199254740992.0, true},
		{int64(1), "1", false},
		{int64(0), nil, false},
		{int64(1), true, false},
		{"a", "a", true},
		{"a", "b", false},
		{nil, nil, true},
		{"a", map[string]any{}, false},
		{nil, []any{}, false},
	} {
		if object.EqualScalars(c.a, c.b) != c.same || object.EqualScalars(c.b, c.a) != c.same {
			t.Errorf("%#v and %#v: the test expects %v", c.a, c.b, c.same)
		}
	}
}

// settings returns a ConfigMap of 1.5 KB as API servers send it, with or without an owner.
func settings(i int, owned bool) []byte {
	owner := ""
	if owned {
		owner = fmt.Sprintf(`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Shop","name":"shop-%06d",`+
			`"uid":"7c1f9c6e-0d8b-4d39-9b0e-%012d","controller":true,"blockOwnerDeletion":true}],`, i, i)
	}
	return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%06d","namespace":"town",`+
		`"uid":"0b6d7f5e-52c6-4b4b-8f0e-%012d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z",`+
		`"labels":{"app":"shop"},%s"managedFields":[{"manager":"setpoint","operation":"Update","apiVersion":"v1",`+
		`"time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:text":{}}}}]},"data":{"text":%q}}`,
		i, i, 1000+i, owner, strings.Repeat("setpoint ", 133))
}

// TestObjectsAreSmall limits the memory of a cached object in addition to its JSON.
func TestObjectsAreSmall(t *testing.T) {
	const many = 4000
	for _, c := range []struct {
		name  string
		owned bool
		limit int
	}{{"orphan", false, 210}, {"owned", true, 210}} {
		texts := make([][]byte, many)
		for i := range texts {
			texts[i] = settings(i, c.owned)
		}
		kept, json := make([]*object.Object, many), 0
		before := heap()
		for i, text := range texts {
			o := must.Get(object.Parse(text)).In(t)
			kept[i], json = o, json+cap(append([]byte(nil), o.JSON()...)) // As the allocator rounds it.
		}
		each := (heap() - before - json) / many
		t.Logf("%s: %d bytes besides %d of JSON", c.name, each, json/many)
		if each > c.limit {
			t.Errorf("%s: %d bytes besides the JSON; the limit is %d", c.name, each, c.limit)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(texts)
	}
}

// heap returns the memory in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func BenchmarkParseConfigMap(b *testing.B) {
	text := settings(1, true)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(object.Parse(text)).In(b)
	}
}
