package starlark

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/scripttest"
)

func call(t *testing.T, sources, request string) string {
	t.Helper()
	return scripttest.Call(t, Engine{}, script.Files{Entry: "sync.star"}, sources, request)
}

func TestCalls(t *testing.T) {
	for name, test := range map[string]struct{ source, request, want string }{
		"a dict":        {"def sync(request):\n  return {'status': {'name': request['parent']['name']}}", `{"parent":{"name":"é"}}`, `{"status":{"name":"é"}}`},
		"a struct":      {"def sync(r): return struct(b = 1, a = struct())", `{}`, `{"a":{},"b":1}`},
		"a lambda":      {"sync = lambda r: {'a': (1, [r])}", `{"b":null}`, `{"a":[1,[{"b":null}]]}`},
		"numbers":       {"def sync(r): return {'r': r, 'half': 3 / 2, 'whole': 4 / 2}", `{"a":9223372036854775807,"b":1.50,"c":1e3}`, `{"r":{"a":9223372036854775807,"b":1.5,"c":1000},"half":1.5,"whole":2}`},
		"strings":       {`def sync(r): return {'a': '<&> " \\ \n \x01 é 😀 ' + r['a']}`, `{"a":"\u2028"}`, "{\"a\":\"<&> \\\" \\\\ \\n \\u0001 é 😀 \u2028\"}"},
		"the dialect":   {"n = 0\nn = 1\nfor i in [1, 2]:\n  n += i\ndef fib(i): return i if i < 2 else fib(i - 1) + fib(i - 2)\ndef sync(r):\n  i = 0\n  while i < 3:\n    i += 1\n  return {'i': i, 'n': n, 'fib': fib(10), 'set': list(set([1, 1]))}", `{}`, `{"i":3,"n":4,"fib":55,"set":[1]}`},
		"modules":       {"load('pods.star', 'pod')\nload('./deep/all.star', p = 'pod')\ndef sync(r): return {'a': [pod('a'), p('b')]}\n-- pods.star --\ndef pod(name): return {'name': name}\n-- deep/all.star --\nload('../pods.star', x = 'pod')\npod = x\n", `{}`, `{"a":[{"name":"a"},{"name":"b"}]}`},
		"the libraries": {"def sync(r): return {'json': json.decode(json.encode({'a': [1]})), 'math': math.ceil(1.5), 'time': time.parse_time('2020-01-01T00:00:00Z').unix}", `{}`, `{"json":{"a":[1]},"math":2,"time":1577836800}`},
		"the clock":     {"def sync(r): return {'now': str(time.now()), 'format': time.now().format('2006-01-02T15:04:05.000Z07:00')}", `{}`, `{"now":"2023-11-14 22:13:20.123 +0000 UTC","format":"2023-11-14T22:13:20.123Z"}`},
		"the log":       {"print('top')\ndef sync(r):\n  print('a', 1, r)\n  print('two\\nlines')\n  return {}", `{"b":"c"}`, "log: top\nlog: a 1 {\"b\": \"c\"}\nlog: two\nlog: lines\n{}"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(t, test.source, test.request); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct{ source, want string }{
		"syntax":                {"def sync(r)\n  return", "load: sync.star:2:1: got newline, want ':'"},
		"syntax in a module":    {"load('b.star', 'x')\n-- b.star --\nx = = 1", "load: b.star:1:5: got '=', want primary expression"},
		"no such name":          {"def sync(r): return {'a': nope}", "load: sync.star:1:27: undefined: nope"},
		"no such module":        {"\nload('os.star', 'x')", `load: sync.star:2:1: cannot load os.star: there is no module "os.star", and no other`},
		"another module":        {"load('os.star', 'x')\n-- a.star --\n", `load: sync.star:1:1: cannot load os.star: there is no module "os.star"; there is a.star`},
		"no such export":        {"load('a.star', 'x')\n-- a.star --\n", `load: sync.star:1:1: load: name x not found in module a.star`},
		"modules in a circle":   {"load('a.star', 'x')\n-- a.star --\nload('sync.star', 'y')\nx = 1", "load: a.star:1:1: cannot load sync.star: a.star and sync.star load each other"},
		"top level":             {"a = {}['b']", `load: sync.star:1:7: key "b" not in dict`},
		"time at the top level": {"a = time.now()", "load: sync.star:1:13: there is no time at the top level, which runs once for many calls; call time.now() in a function [now (native), sync.star:1:13]"},
		"Latin-1":               {"# ok\na = 'caf\xe9'", "load: sync.star:2:9: the source is not UTF-8"},
		"a missing key":         {"def f(r): return r['x']\ndef sync(r): return f(r)", `sync.star:1:19: key "x" not in dict [f (sync.star:1:19), sync (sync.star:2:22)]`},
		"fail":                  {"def sync(r): fail('no', 1)", "sync.star:1:18: fail: no 1 [fail (native), sync (sync.star:1:18)]"},
		"parameters":            {"def sync(a, b): return {}", "sync.star:1:1: function sync missing 1 argument (b)"},
		"globals are frozen":    {"seen = []\ndef sync(r): seen.append(1)", "sync.star:2:25: append: cannot append to frozen list [append (native), sync (sync.star:2:25)]"},
		"recursion":             {"def sync(r): return sync(r)", "sync.star:1:21: too many nested calls [sync (sync.star:1:21), sync (sync.star:1:25), sync (sync.star:1:25)] limit: the depth of calls"},
		"no limit":              {"def sync(r): fail('too many nested calls')", "sync.star:1:18: fail: too many nested calls [fail (native), sync (sync.star:1:18)]"},
		"no such function":      {"x = 1", "sync.star has no function sync"},
		"returns nothing":       {"def sync(r): pass", "sync.star:1:1: the function sync returned None, not a dict: does it lack a return?"},
		"returns a list":        {"def sync(r): return []", "sync.star:1:1: the function sync returned a list, not a dict"},
		"NaN":                   {"def sync(r): return {'a': [{'b': float('nan')}]}", "sync.star:1:1: response.a[0].b is nan, which JSON does not have"},
		"infinity":              {"def sync(r): return {'a': float('-inf')}", "sync.star:1:1: response.a is -inf, which JSON does not have"},
		"a large integer":       {"def sync(r): return {'a': 1 << 63}", "sync.star:1:1: response.a is 9223372036854775808, which is not a 64-bit integer"},
		"a set":                 {"def sync(r): return {'a': set([1])}", "sync.star:1:1: response.a is a set, which JSON does not have"},
		"a function":            {"def sync(r): return {'a': (1, sync)}", "sync.star:1:1: response.a[1] is a function, which JSON does not have"},
		"bytes":                 {"def sync(r): return {'a': b'x'}", "sync.star:1:1: response.a is a bytes, which JSON does not have"},
		"not UTF-8":             {`def sync(r): return {'a': 'é'[:1]}`, "sync.star:1:1: response.a is not UTF-8"},
		"a key":                 {"def sync(r): return {'a': {1: 2}}", "sync.star:1:1: response.a has the key 1, which is not a string"},
		"cyclic":                {"def sync(r):\n  a = []\n  a.append({'b': a})\n  return {'a': a}", "sync.star:1:1: response.a[0].b contains itself"},
		"twice is not cyclic":   {"def sync(r):\n  a = [1]\n  return {'a': a, 'b': [a, a]}", `{"a":[1],"b":[[1],[1]]}`},
		"deep":                  {"def sync(r):\n  a = []\n  for i in range(2000): a = [a]\n  return {'a': a}", "sync.star:1:1: the response has more than 1000 levels"},
		"excessive repeat":      {"def sync(r): return {'a': 'x' * (1 << 40)}", "sync.star:1:31: repeat count 1099511627776 too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(t, test.source, "{}"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestReachable compares all names of the language, their attributes and those of the values that
// they make, with a list that a person has read: nothing there reads files, the network, the
// environment or the clock. A new version of the language that has more fails here.
func TestReachable(t *testing.T) {
	names := maps.Clone(starlark.Universe)
	maps.Copy(names, predeclared())
	for _, v := range []starlark.Value{
		starlark.String(""), starlark.Bytes(""), &starlark.List{}, &starlark.Dict{}, &starlark.Set{}, starlark.MakeInt(1), starlark.Float(1),
		starlark.Tuple{}, startime.Time(time.Time{}), startime.Duration(0),
	} {
		names["("+v.Type()+")"] = v
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		attributes := []string{name + ":"}
		if v, has := names[name].(starlark.HasAttrs); has {
			attributes = append(attributes, v.AttrNames()...)
		}
		list.WriteString(strings.Join(attributes, " ") + "\n")
	}
	want, err := os.ReadFile("testdata/reachable.txt")
	if err != nil || list.String() != string(want) {
		t.Errorf("%v: code can reach\n%s\nand not\n%s", err, list.String(), want)
	}
}
