package scripttest

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// calls has, for each language, code that shows whatever could differ from call to call.
//
//nolint:gochecknoglobals // a constant.
var observing = map[string]string{
	".js": `
let calls = 0;
const top = [Date.now(), Math.random()];
export async function sync(request) {
  calls++;
  await null;
  const order = new Set(Object.keys(request).concat(Object.getOwnPropertyNames(globalThis)));
  return {
    calls, top, now: new Date().toString(), local: [new Date(2026, 6, 1, 12).toISOString(), new Date().toLocaleString(), "I".toLocaleLowerCase()], random: Array.from({length: 20}, Math.random), order: [...order], leak: typeof leak,
    polluted: {}.polluted ?? null, map: [1].map(x => x + 1), shared: Symbol.for("x") in globalThis, request, stack: new Error("x").stack,
    sorted: Array.from({length: 50}, () => Math.floor(Math.random() * 5)).sort(), json: JSON.stringify({a: 1}),
  };
}
export function hostile(request) {
  calls += 100;
  globalThis.leak = 1;
  Object.prototype.polluted = 1;
  Array.prototype.map = () => 1;
  Math.random = () => 4;
  Date.now = () => 5;
  JSON.stringify = () => "{}";
  globalThis[Symbol.for("x")] = 1;
  Promise.prototype.then = null;
  Object.freeze(Array.prototype);
  if (request.throw) throw new Error("x");
  if (request.memory) for (const a = [];;) a.push({});
  if (request.depth) return hostile(request);
  if (request.never) return new Promise(() => {});
  if (request.jobs) Promise.reject(1);
  return {};
}`,
	".star": `
seen = []
def sync(request):
    return {"now": str(time.now()), "parsed": str(time.parse_time("2026-07-01T12:00:00", format = "2006-01-02T15:04:05")), "seen": seen, "request": request, "keys": list(request), "dir": dir(seen), "hash": hash("a"), "set": list(set([3, 1, 2]))}

def hostile(request):
    request["leak"] = 1
    if "throw" in request:
        seen.append(1)
    if "depth" in request:
        hostile(request)
    return {"a": set() if "never" in request else 1}
`,
}

func TestSameRequestSameResponse(t *testing.T) {
	const request = `{"parent":{"metadata":{"name":"a"}},"z":1,"b":[1.5,"x"]}`
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			source := observing[l.ending]
			entry := "sync" + l.ending
			p := must.Get(l.engine.Load(script.Files{Entry: entry, Sources: map[string]string{entry: source}, MemoryBytes: 4 << 20})).In(t)
			first := call(t, p, request)
			hostile := []string{"{}", `{"throw":1}`, `{"never":1}`, `{"jobs":1}`}
			slow := []string{`{"depth":1}`, `{"memory":1}`}
			for i := range 100 {
				if got := call(t, p, request); got != first {
					t.Fatalf("call %d: got\n%s\nwant\n%s", i, got, first)
				}
				c := newCall(hostile[i%len(hostile)])
				if i < len(slow) {
					c = newCall(slow[i])
				}
				c.Function = "hostile"
				_, _ = p.Call(c) // most of them are errors
			}
			output, err := task{Language: l.name, Source: source, Request: request}.command(t).Output()
			if got := strings.TrimSpace(string(output)); err != nil || got != "response: "+first {
				t.Errorf("in another process: got %v\n%s\nwant\n%s", err, got, first)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	p := languages[0].load(t, "export const sync = () => ({a: [Math.random(), Math.random()]})")
	seen := map[string]bool{}
	for seed := range uint64(1000) {
		c := newCall("{}")
		c.Seed = seed<<32 + seed%2
		response := must.Get(p.Call(c)).In(t)
		seen[string(response)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 seeds make %d responses", len(seen))
	}
}

const groups = `{"children":{"ConfigMap.v1":{"home/web":{"at":"home"},"home/both":{"at":"home"},"away/both":{"at":"away"}},` +
	`"Namespace.v1":{"home":{"at":"cluster"}},"Pod.v1":{}}}`

// The names of hooks find objects by their names, whatever the keys of the request.
func TestChild(t *testing.T) {
	for _, l := range languages {
		for of, want := range map[string]string{
			`"ConfigMap.v1", "web"`:       `{"found":{"at":"home"}}`,
			`"ConfigMap.v1", "home/web"`:  `{"found":{"at":"home"}}`,
			`"ConfigMap.v1", "away/both"`: `{"found":{"at":"away"}}`,
			`"Namespace.v1", "home"`:      `{"found":{"at":"cluster"}}`,
			`"ConfigMap.v1", "eb"`:        `{"found":null}`,
			`"ConfigMap.v1", "away/web"`:  `{"found":null}`,
			`"Namespace.v1", "toString"`:  `{"found":null}`,
			`"Pod.v1", "web"`:             `{"found":null}`,
		} {
			if got := call(t, l.load(t, l.child(of)), groups); got != want {
				t.Errorf("%s: child(%s) is %s, want %s", l.name, of, got, want)
			}
		}
		for of, want := range map[string]string{
			`"ConfigMap.v1", "both"`: "there are several ConfigMap.v1 both: name one of home/both, away/both",
			`"ConfigMap", "web"`:     "there are no objects ConfigMap: there are ConfigMap.v1, Namespace.v1, Pod.v1",
		} {
			if _, err := l.load(t, l.child(of)).Call(newCall(groups)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: child(%s): %v, want %s", l.name, of, err, want)
			}
		}
	}
}

// An author may use the name for something else.
func TestChildIsNoReservedName(t *testing.T) {
	for source, l := range map[string]language{
		"const child = 5; export const sync = () => ({child})":                       languages[0],
		"function child() { return 5 } export const sync = () => ({child: child()})": languages[0],
		"child = 5\ndef sync(request):\n    return {\"child\": child}":               languages[1],
	} {
		if got := call(t, l.load(t, source), groups); got != `{"child":5}` {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// child is code that returns what child finds.
func (l language) child(arguments string) string {
	if l.ending == ".star" {
		return "def sync(request):\n    return {\"found\": child(request[\"children\"], " + arguments + ")}\n"
	}
	return "export const sync = ({children}) => ({found: child(children, " + arguments + ") ?? null})"
}
