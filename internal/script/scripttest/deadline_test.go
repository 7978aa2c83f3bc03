package scripttest

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// TestDeadline has code that runs too long: the engine stops it and says where it was, and makes the next call.
func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		language int
		source   string
		want     string
	}{
		"a loop":                     {0, "export function sync(r) {\n  if (r.end) return {};\n  for (const all = [];;) {\n    all.push(1);\n    all.pop();\n  }\n}", "sync.js:"},
		"a loop without calls":       {0, "export function sync(r) {\n  if (r.end) return {};\n  for (;;) {}\n}", "sync.js:2"},
		"a loop that catches":        {0, "export function sync(r) {\n  if (r.end) return {};\n  for (;;)\n    try { null.x } catch {}\n}", "sync.js:4"},
		"a loop that catches itself": {0, "export function sync(r) {\n  if (r.end) return {};\n  try { for (;;) String(1); } finally {\n  for (;;); }\n}", "sync.js:3"},
		"a loop of awaits":           {0, "export async function sync(r) {\n  while (!r.end) await 0;\n  return {};\n}", ""},
		"after an await":             {0, "export async function sync(r) {\n  await 0;\n  while (!r.end) String(1);\n  return {};\n}", "sync.js:3"},
		"promises":                   {0, "export async function sync(r) { const f = () => Promise.resolve().then(f); if (!r.end) await f(); return {} }", ""},
		"nothing awaits":             {0, "export function sync(r) { (async () => { await 0; while (!r.end); })(); return {} }", "sync.js:1"},
		"a regular expression":       {0, `export function sync(r) { if (!r.end) /^(a+)+$/.test("a".repeat(64) + "b"); return {} }`, "sync.js:1"},
		"toJSON":                     {0, "export const sync = r => ({toJSON() { while (!r.end); return {} }})", "sync.js:1"},
		"a message of an error":      {0, "export function sync(r) { if (!r.end) throw {toJSON() { for (;;); }}; return {} }", "sync.js:1"},
		"a while loop":               {1, "def sync(r):\n  while 'end' not in r:\n    pass\n  return {}", "sync.star:2"},
		"a loop in a call":           {1, "def f(r):\n  for i in range(1 << 60):\n    if 'end' in r: return\ndef sync(r):\n  f(r)\n  return {}", "sync.star:"},
	} {
		t.Run(name, func(t *testing.T) {
			p := languages[c.language].load(t, c.source)
			for range 2 {
				k := newCall("{}")
				k.Deadline = time.Now().Add(50 * time.Millisecond)
				_, err := p.Call(k)
				e, is := errors.AsType[*script.Error](err)
				if !is || e.Limit != script.TimeLimit || !strings.HasPrefix(e.Place(), c.want) {
					t.Fatalf("got %+v, want %s", err, c.want)
				}
				if got := call(t, p, `{"end":1}`); got != "{}" {
					t.Errorf("then: %s", got)
				}
			}
		})
	}
}

func TestDeadlineAtLoad(t *testing.T) {
	for _, l := range languages {
		entry := "sync" + l.ending
		source := map[string]string{".js": "let n = 0;\nfor (;;) String(n);", ".star": "n = 0\nwhile True:\n  n = n + 1"}[l.ending]
		_, err := l.engine.Load(script.Files{Entry: entry, Sources: map[string]string{entry: source}, Deadline: time.Now().Add(50 * time.Millisecond)})
		if e, is := errors.AsType[*script.Error](err); !is || e.Limit != script.TimeLimit || e.Line != 2 && e.Line != 3 {
			t.Errorf("%s: %+v", l.name, err)
		}
	}
}

// TestOnlyTheParentStops has code that no engine stops: the process is killed, in the middle of it,
// and nothing of it was a response.
func TestOnlyTheParentStops(t *testing.T) {
	t.Parallel()
	javascript := func(body string) task {
		return task{Language: "JavaScript", Source: `export async function sync() { console.log("begins"); ` + body + `; return {} }`}
	}
	starlark := func(body string) task {
		return task{Language: "Starlark", Source: "def sync(request):\n  print('begins')\n  " + body + "\n  return {}"}
	}
	for name, k := range map[string]task{
		"a loop without end":             javascript(`for (;;);`),
		"a loop of awaits":               javascript(`while (true) await 0`),
		"a loop that catches":            javascript(`for (;;) try { null.x } catch {}`),
		"a promise that makes promises":  javascript(`const f = () => Promise.resolve().then(f); await f()`),
		"indexOf of a long array":        javascript(`Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`),
		"a long array":                   javascript(`const a = []; a.length = 2 ** 32 - 1; a.indexOf(1); a.lastIndexOf(1); a.includes(1); for (;;);`),
		"join of a long array":           javascript(`for (;;) { const a = []; a.length = 1e7; a.join("") }`),
		"a regular expression":           javascript(`/^(a+)+$/.test("a".repeat(64) + "b")`),
		"a regular expression, lookback": javascript(`/(?<=(a*)*)c/.test("a".repeat(1e5) + "b"); for (;;) /(x+x+)+y/.test("x".repeat(64))`),
		"a generator":                    javascript(`function* f() { for (;;) yield 1 } for (const x of f());`),
		"a proxy":                        javascript(`for (let p = new Proxy({}, {getPrototypeOf: () => p});; p instanceof Map);`),
		"an iterator":                    javascript(`Array.from({[Symbol.iterator]: () => ({next: () => ({done: false})})}, () => 1).length; for (;;);`),
		"toJSON":                         javascript(`return {toJSON() { for (;;); }}`),
		"sort":                           javascript(`for (;;) Array.from({length: 1e5}, Math.random).sort()`),
		"large integers":                 javascript(`let n = 3n; for (;;) n = n ** 3n % 10n ** 100000n`),
		"a message of an error":          javascript(`throw {get message() { for (;;); }, toJSON() { for (;;); }}`),
		"Starlark: a loop without end":   starlark(`while True: pass`),
		"Starlark: a long range":         starlark(`for i in range(1 << 60): pass`),
		"Starlark: a deep list, shown":   starlark("a = []\n  for i in range(1000000): a = [a]\n  str(a)"),
		"Starlark: many calls":           starlark(`def f(n): return n if n < 2 else f(n - 1) + f(n - 2)` + "\n  f(200)"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := k.command(t)
			output := must.Get(cmd.StdoutPipe()).In(t)
			must.Succeed(t, cmd.Start())
			lines := bufio.NewScanner(output)
			if !lines.Scan() || lines.Text() != "log: begins" {
				t.Errorf("the first line is %q", lines.Text())
			}
			must.Succeed(t, cmd.Process.Kill())
			for lines.Scan() {
				t.Errorf("it went on: %s", lines.Text())
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("the process ended with %v", err)
			}
		})
	}
}

// TestLargeInput has sources and strings that are large and fine.
func TestLargeInput(t *testing.T) {
	for _, l := range languages {
		comment, function := "//", "export function sync(request) { return {length: request.text.length} }"
		if l.ending == ".star" {
			comment, function = "#", "def sync(request): return {'length': len(request['text'])}"
		}
		t.Run(l.name, func(t *testing.T) {
			source := function + "\n" + comment + strings.Repeat("x", 1<<20) + "\n" + strings.Repeat(comment+" line\n", 1<<16)
			p := l.load(t, source)
			request := `{"text":"` + strings.Repeat("y", 32<<20) + `"}`
			if got, want := call(t, p, request), `{"length":33554432}`; got != want {
				t.Errorf("got %.100s, want %s", got, want)
			}
		})
	}
}

// TestStrings has text that is odd in JSON: it comes back as it was.
func TestStrings(t *testing.T) {
	for _, l := range languages {
		p := l.load(t, map[string]string{".js": "export const sync = r => r", ".star": "def sync(request): return request"}[l.ending])
		for _, request := range []string{
			`{"a":"\u0000b"}`, `{"é":"😀 \" \\ \b\f\n\r\t"}`, `{"a":{"":"","__proto__":{"x":1},"constructor":null,"toString":1}}`,
			`{"a":0,"b":-1,"c":9007199254740993,"d":-9223372036854775808,"e":1.5,"f":1e+21,"g":1e-7,"h":123456789012345680}`,
			`{"a":[],"b":{},"c":[[],[null,true,false]]}`,
		} {
			if got := call(t, p, request); got != request {
				t.Errorf("%s: got %s, want %s", l.name, got, request)
			}
		}
	}
}
