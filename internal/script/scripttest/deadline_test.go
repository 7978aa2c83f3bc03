package scripttest

import (
	"errors"
	"strings"
	"testing"
	"time"

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
