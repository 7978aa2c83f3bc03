package javascript

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/scripttest"
)

const testMemory = 4 << 20

func call(t *testing.T, sources, request string) string {
	t.Helper()
	return scripttest.Call(t, Engine{}, script.Files{Entry: "sync.js", MemoryBytes: testMemory}, sources, request)
}

func TestCalls(t *testing.T) {
	for name, test := range map[string]struct{ source, request, want string }{
		"a function": {
			`export function sync({parent}) { return {status: {name: parent.name}} }`,
			`{"parent":{"name":"a"}}`, `{"status":{"name":"a"}}`,
		},
		"an arrow function": {`export const sync = ({a}) => ({a})`, `{"a":[1,"é😀",null,true]}`, `{"a":[1,"é😀",null,true]}`},
		"undefined is left out of objects": {
			`export const sync = () => ({a: undefined, b: null})`, `{}`, `{"b":null}`,
		},
		"keys keep their order": {`export const sync = r => ({b: 1, a: 2, ...r})`, `{"d":3,"c":4}`, `{"b":1,"a":2,"d":3,"c":4}`},
		"an async function": {
			`export async function sync(r) { const a = await Promise.all([1, Promise.resolve(2)]); return {a} }`, `{}`, `{"a":[1,2]}`,
		},
		"modules that import each other": {
			"import {pod} from './pod.js'; export const name = 'a'; export const sync = () => pod()\n" +
				"-- pod.js --\nimport {name} from './sync.js'; import * as all from './deep/all.js'; export const pod = () => ({name, ...all})\n" +
				"-- deep/all.js --\nexport {pod as x} from '../pod.js'; export const y = 1\n",
			`{}`, `sync.js:1:76: response.x is a function`,
		},
		"a module that nothing imports": {
			"export const sync = () => ({})\n-- notes.js --\nthis is not code", `{}`, `{}`,
		},
		"import() of a module that was imported": {
			"import './pod.js'; export const sync = async () => ({...await import('./pod.js')})\n-- pod.js --\nexport const a = 1", `{}`, `{"a":1}`,
		},
		"import() of another one": {
			"export const sync = async () => ({...await import('./pod.js')})\n-- pod.js --\nexport const a = 1", `{}`,
			`ReferenceError: could not load module 'pod.js'`,
		},
		"large integers are exact": {
			`export const sync = ({a, b, c, d}) => ({a, less: a - 1n, b, c, d, types: [typeof a, typeof b, typeof c]})`,
			`{"a":9223372036854775807,"b":9007199254740991,"c":1234567890123456.5,"d":"9223372036854775807"}`,
			`{"a":9223372036854775807,"less":9223372036854775806,"b":9007199254740991,"c":1234567890123456.5,"d":"9223372036854775807",` +
				`"types":["bigint","number","number"]}`,
		},
		"the clock": {
			`const top = Date.now();
			 export const sync = () => ({top, now: Date.now(), new: new Date(), string: Date(), zone: new Date().getTimezoneOffset(),
			   local: new Date(2020, 1, 1), parsed: new Date("2020-01-01T00:00"), utc: Date.UTC(2020), sub: new (class extends Date {})(0),
			   is: new Date() instanceof Date, same: new Date().constructor === Date, names: [Date.name, Date.length]})`,
			`{}`,
			`{"top":1700000000123,"now":1700000000123,"new":"2023-11-14T22:13:20.123Z","string":"Tue Nov 14 2023 22:13:20 GMT+0000","zone":0,` +
				`"local":"2020-02-01T00:00:00.000Z","parsed":"2020-01-01T00:00:00.000Z","utc":1577836800000,"sub":"1970-01-01T00:00:00.000Z",` +
				`"is":true,"same":true,"names":["Date",7]}`,
		},
		"the log": {
			`console.log("top");
			 export function sync(r) { console.info("a", 1, {b: [r]}, null, undefined, 10n); console.error(new TypeError("x")); console.warn("two\nlines"); console.log(/a"/g); console.debug(); return {} }`,
			`{"c":"d"}`, "log: top\nlog: a 1 {\"b\":[{\"c\":\"d\"}]} null undefined 10\nlog: TypeError: x\nlog: two\nlog: lines\nlog: /a\"/g\nlog: \n{}",
		},
		"a log that cannot be shown": {
			`export function sync(r) { const a = {}; a.a = a; console.log(a, Symbol("s"), {toJSON() { throw 1 }}, sync); return {} }`,
			`{}`, "log: object Symbol(s) object [function sync]\n{}",
		},
		"base64": {
			`export const sync = ({a}) => ({a: atob(a), b: btoa("h\xff"), back: atob(btoa("\0a")) === "\0a", spaces: atob(" aG k "), number: btoa(12)})`,
			`{"a":"aGk="}`, `{"a":"hi","b":"aP8=","back":true,"spaces":"hi","number":"MTI="}`,
		},
		"text and bytes": {
			`const text = "aé\u6f22😀", bytes = new TextEncoder().encode(text), decode = (b, o) => new TextDecoder("utf-8", o).decode(b);
			 export const sync = () => ({hex: bytes.toHex(), back: decode(bytes) === text, part: decode(bytes.subarray(1, 3)), buffer: decode(bytes.buffer) === text,
			   view: decode(new DataView(bytes.buffer, 0, 1)), none: [decode(), new TextEncoder().encode().length], half: new TextEncoder().encode("\ud800").toHex(),
			   bad: decode(Uint8Array.of(0x61, 0xff, 0x62)), surrogate: decode(Uint8Array.of(0xed, 0xa0, 0x80)).length, nul: decode(Uint8Array.of(0, 0x61)).length,
			   bom: [decode(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)), decode(Uint8Array.of(0xef, 0xbb, 0xbf), {ignoreBOM: true}).length],
			   fatal: decode(bytes, {fatal: true}) === text, names: [new TextDecoder().encoding, TextEncoder.name, btoa.name]})`,
			`{}`,
			`{"hex":"61c3a9e6bca2f09f9880","back":true,"part":"é","buffer":true,"view":"a","none":["",0],"half":"efbfbd",` +
				`"bad":"a�b","surrogate":3,"nul":2,"bom":["a",1],"fatal":true,"names":["utf-8","TextEncoder","btoa"]}`,
		},
		"toJSON": {`export const sync = () => ({a: {toJSON: key => [key]}, toJSON() { return {a: this.a, b: 2} }})`, `{}`, `{"a":["a"],"b":2}`},
		"names of ours": {
			`export function print() {}; export function respond() {}; const console = 1, begin = 2;
			 globalThis.JSON = globalThis.Reflect = globalThis.Array = globalThis.TypeError = globalThis.String = null; export function sync() { return {a: {b: [begin]}} }`,
			`{}`, `{"a":{"b":[2]}}`,
		},
		"prototypes that were changed": {
			`Object.prototype.toString = Array.prototype[Symbol.iterator] = Function.prototype.call = Function.prototype.apply = null;
			 Object.defineProperty(Object.prototype, "value", {get() { throw 1 }}); Object.prototype.get = 1; Array.prototype.map = 1; RegExp.prototype.exec = null;
			 export function sync(r) { console.log("a"); throw new Error("b") }`,
			`{"a":9223372036854775807}`, "log: a\nsync.js:3:64: Error: b",
		},
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
		"syntax":             {"let a = 1;\n  let if = 2", "load: sync.js:2:7: SyntaxError: variable name expected"},
		"syntax in a module": {"import './b.js'\n-- b.js --\n\n}", "load: b.js:2:1: SyntaxError: unexpected token in expression: '}'"},
		"no such module":     {"\nimport a from './b.js'", `load: sync.js:2:15: there is no module "./b.js", and no other`},
		"no such module in a module": {
			"import './a.js'\n-- a.js --\nimport '../b.js'",
			`load: a.js:1:8: there is no module "../b.js"; there is "./sync.js"`,
		},
		"a module by name":  {"import 'os'\n-- os.js --\n", `load: sync.js:1:8: there is no module "os"; there is "./os.js"`},
		"no such export":    {"import {a} from './b.js'; export const sync = a\n-- b.js --\n", `load: SyntaxError: Could not find export 'a' in module 'b.js'`},
		"top level":         {"export const a = null.b", "load: sync.js:1:22: TypeError: cannot read property 'b' of null"},
		"top level awaits":  {"await new Promise(() => {})", "load: the promise of the top level never settles: there are no timers and no network to wait for"},
		"Latin-1":           {"// ok\nconst a = 'caf\xe9'", "load: sync.js:2:15: the source is not UTF-8"},
		"NUL":               {"const a = \x00", "load: sync.js:1:11: SyntaxError: unexpected token in expression: ''"},
		"reads undefined":   {"export function sync(r) {\n  return r.x.y.z }", "sync.js:2:13: TypeError: cannot read property 'y' of undefined"},
		"with a stack":      {"import {f} from './f.js'\nexport const sync = r => [1].map(f)\n-- f.js --\nexport function f() { throw new Error('oh') }", "f.js:1:38: Error: oh [f (f.js:1:38), map (native), sync (sync.js:2:33)]"},
		"with a cause":      {"export const sync = () => { throw new Error('a', {cause: new RangeError('b')}) }", "sync.js:1:44: Error: a (cause: RangeError: b)"},
		"a class of errors": {"class Odd extends Error { name = 'Odd' }\nexport const sync = () => { throw new Odd('x') }", "sync.js:1:40: Odd: x [Odd (sync.js:1:40), sync (sync.js:2:42)]"},
		"throws a string":   {"export const sync = () => { throw 'x' }", `"x" was thrown, which is not an Error and so has no line`},
		"throws null":       {"export const sync = () => { throw null }", `null was thrown, which is not an Error and so has no line`},
		"throws undefined":  {"export const sync = () => { throw undefined }", `undefined was thrown, which is not an Error and so has no line`},
		"throws an object":  {"export const sync = () => { throw {code: 3n} }", `{"code":3} was thrown, which is not an Error and so has no line`},
		"throws a getter":   {"export const sync = () => { throw {get code() { throw 1 }} }", `object was thrown, which is not an Error and so has no line`},
		"an error whose properties throw": {
			"export const sync = () => { throw Object.defineProperty(new Error('x'), 'message', {get() { throw 1 }}) }",
			"sync.js:1:66: object",
		},
		"several lines":               {"export const sync = () => { throw new Error('a\\nb\\n') }", "sync.js:1:44: Error: a b"},
		"a long message":              {"export const sync = () => { throw new Error('é'.repeat(1e6)) }", "sync.js:1:44: Error: " + strings.Repeat("é", 996) + "…"},
		"a stack of its own":          {"export const sync = () => { const e = new Error('x'); e.stack = '  at f (sync.js:9999999999999999999:1)\\n at (/etc/x:1:1)'; throw e }", "Error: x"},
		"a BOM, and a half of a pair": {"\ufeffexport const sync = () => ({a: '\\ud800'})", `{"a":"\ud800"}`},
		"no globals any more":         {"export const sync = () => { for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {} ; return {a: 1.5} }", `{"a":1.5}`},
		"rejects":                     {"export const sync = async () => { await 0; null.x }", "sync.js:1:48: TypeError: cannot read property 'x' of null"},
		"never settles":               {"export const sync = () => new Promise(() => {})", "the promise of sync never settles: there are no timers and no network to wait for"},
		"a promise lost in a getter":  {"export const sync = () => ({ get a() { Promise.reject(new Error('x')); return 1 } })", "sync.js:1:64: Error: x (in a promise that nothing awaits)"},
		"a lost promise":              {"export const sync = () => { (async () => { throw new Error('x') })(); return {} }", "sync.js:1:59: Error: x (in a promise that nothing awaits) [sync.js:1:59, sync (sync.js:1:67)]"},
		"a caught promise":            {"export const sync = async () => { const p = Promise.reject(1); await 0; try { await p } catch { return {a: 1} } }", `{"a":1}`},
		"returns nothing":             {"export function sync() {}", "sync.js:1:8: the function sync returned undefined, not an object: does it lack a return?"},
		"returns an array":            {"export const sync = () => []", "sync.js:1:21: the function sync returned an array, not an object"},
		"returns a string":            {"export const sync = () => 'x'", "sync.js:1:21: the function sync returned x, not an object"},
		"returns a function":          {"export const sync = () => sync", "sync.js:1:21: the function sync returned [function sync], not an object"},
		"a generator":                 {"export function* sync() {}", "sync.js:1:8: the function sync returned a generator, not an object"},
		"an async generator":          {"export async function* sync() {}", "sync.js:1:8: the function sync returned a generator, not an object"},
		"toJSON of all":               {"Object.prototype.toJSON = () => 1; export const sync = () => ({})", "sync.js:1:56: toJSON of the response returned 1, not an object"},
		"NaN":                         {"export const sync = () => ({a: [{b: 0/0}]})", "sync.js:1:21: response.a[0].b is NaN, which JSON does not have"},
		"infinity":                    {"export const sync = () => ({a: -1/0})", "sync.js:1:21: response.a is -Infinity, which JSON does not have"},
		"a function":                  {"export const sync = () => ({a: {sync}})", "sync.js:1:21: response.a.sync is a function"},
		"a symbol":                    {"export const sync = () => ({a: Symbol('x')})", "sync.js:1:21: response.a is a symbol"},
		"a large BigInt":              {"export const sync = () => ({a: 2n ** 63n})", "sync.js:1:21: response.a is 9223372036854775808, which is not a 64-bit integer"},
		"a Map":                       {"export const sync = () => ({a: new Map()})", "sync.js:1:21: response.a is a Map: return Object.fromEntries(map)"},
		"a Set":                       {"export const sync = () => ({a: new Set()})", "sync.js:1:21: response.a is a Set: return [...set]"},
		"undefined in a list":         {"export const sync = () => ({a: [1, undefined]})", "sync.js:1:21: response.a[1] is undefined"},
		"cyclic":                      {"export const sync = () => { const a = {}; a.b = [a]; return a }", "sync.js:1:21: response.b[0] contains itself"},
		"twice is not cyclic":         {"export const sync = () => { const a = {b: 1}; return {a, c: [a, a]} }", `{"a":{"b":1},"c":[{"b":1},{"b":1}]}`},
		"a getter":                    {"export const sync = () => ({get a() { throw new Error('x') }})", "sync.js:1:54: Error: x"},
		"toJSON throws":               {"export const sync = () => ({a: {toJSON() { null.x }}})", "sync.js:1:48: TypeError: cannot read property 'x' of null"},
		"a proxy":                     {"export const sync = () => new Proxy({}, {ownKeys() { throw new Error('x') }})", "sync.js:1:69: Error: x"},
		"btoa":                        {"export const sync = () => btoa('€')", "sync.js:1:31: TypeError: btoa takes characters up to U+00FF; for others, use new TextEncoder().encode(text).toBase64()"},
		"atob":                        {"export const sync = () => atob('€')", "sync.js:1:31: SyntaxError: invalid base64 string [fromBase64 (native), apply (native), sync (sync.js:1:31)]"},
		"not UTF-8":                   {"export const sync = () => new TextDecoder('utf-8', {fatal: true}).decode(Uint8Array.of(255))", "sync.js:1:73: TypeError: the data is not UTF-8"},
		"another encoding":            {"export const sync = () => new TextDecoder('latin1')", "sync.js:1:42: RangeError: TextDecoder knows utf-8 only, and not latin1"},
		"eval":                        {"export const sync = () => eval('1')", "sync.js:1:27: ReferenceError: 'eval' is not defined"},
		"new Function":                {"export const sync = () => new Function('1')", "sync.js:1:39: TypeError: eval is not supported [Function (native), sync (sync.js:1:39)]"},
		"eval by constructor":         {"export const sync = () => (async () => {}).constructor('1')", "sync.js:1:55: TypeError: eval is not supported [AsyncFunction (native), sync (sync.js:1:55)]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(t, test.source, "{}"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestLimits has what the engine stops itself. What only the parent process can stop is in package
// scripttest.
func TestLimits(t *testing.T) {
	memory, depth := "limit: memory 4MiB", "limit: the depth of calls"
	for name, test := range map[string]struct{ source, want string }{
		"objects":         {"export const sync = () => { const a = []; for (;;) a.push({}) }", memory},
		"strings":         {"export const sync = () => { const a = []; for (let i = 0;; i++) a.push('x'.repeat(1e6) + i) }", memory},
		"buffers":         {"export const sync = () => { const a = []; for (;;) a.push(new Uint8Array(1e6)) }", memory},
		"one buffer":      {"export const sync = () => new ArrayBuffer(10e9)", "RangeError: invalid array buffer length [ArrayBuffer (native), sync (sync.js:1:42)]"},
		"32 MB":           {"export const sync = () => ({a: 'x'.repeat(32e6).split('')})", memory},
		"a long string":   {"export const sync = () => { let s = 'x'; for (;;) s += s }", "sync.js:1:53: InternalError: string too long"},
		"repeat":          {"export const sync = () => 'x'.repeat(2 ** 31)", "sync.js:1:37: RangeError: invalid repeat count [repeat (native), sync (sync.js:1:37)]"},
		"the source":      {"export const a = [...Array(1e8).keys()]", memory},
		"promises":        {"export const sync = async () => { const a = []; for (;;) { a.push({}); await 0 } }", memory},
		"caught":          {"export const sync = () => { const a = []; try { for (;;) a.push({}) } catch { a.length = 0; return {ok: 1} } }", `{"ok":1}`},
		"recursion":       {"export const sync = r => sync(r) + 1", depth},
		"no limit":        {"export const sync = () => { throw new Error('out of memory') }", "Error: out of memory"},
		"no limit either": {"export const sync = () => { throw new Error('stack overflow') }", "Error: stack overflow"},
		"through getters": {"export const sync = () => { const o = {get a() { return this.a }}; return o.a }", depth},
		"through proxies": {"export const sync = () => { const p = new Proxy({}, {get: (_, k) => p[k] }); return p.a }", depth},
		"through replace": {"const f = () => 'x'.replace('x', f); export const sync = f", depth},
		"through sort":    {"const f = () => [1, 2].sort(f); export const sync = f", depth},
		"through toJSON":  {"export const sync = () => { const o = {toJSON: () => JSON.stringify(o)}; return {o} }", depth},
		"generators":      {"function* f() { yield* f() } export const sync = () => [...f()]", depth},
		"deep JSON":       {"export const sync = () => { let a = {}; for (let i = 0; i < 1e4; i++) a = {a}; return a }", depth},
		"deep source":     {"export const a = " + strings.Repeat("[", 1<<20), depth},
		"deep regexp":     {"export const sync = () => new RegExp('('.repeat(1e6))", "SyntaxError: too many captures [RegExp (native), sync (sync.js:1:37)]"},
		"large integers":  {"export const sync = () => ({a: 2n ** (2n ** 40n)})", "sync.js:1:35: RangeError: BigInt is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(t, test.source, "{}"); !strings.HasSuffix(got, test.want) {
				t.Errorf("got  %.300s\nwant %s", got, test.want)
			}
		})
	}
}

func TestDeepRequest(t *testing.T) {
	request := `{"a":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + "}"
	got := call(t, "export const sync = () => ({})", request)
	if !strings.HasSuffix(got, "limit: the depth of calls") {
		t.Errorf("got %.300s", got)
	}
}

func TestFunctions(t *testing.T) {
	p := must.Get(Engine{}.Load(script.Files{Entry: "a.js", Sources: map[string]string{
		"a.js": "export function sync() {} export const finalize = async () => {}, version = 1; export default function () {} function hidden() {}",
	}})).In(t)
	if got := strings.Join(p.Functions(), " "); got != "default finalize sync" {
		t.Errorf("got %s", got)
	}
	if _, err := p.Call(&script.Call{Function: "hidden", Request: []byte("{}")}); err == nil || err.Error() != "a.js exports no function hidden" {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsLeft has calls that end in all ways: the memory is the same after each.
func TestNothingIsLeft(t *testing.T) {
	loaded := must.Get(Engine{}.Load(script.Files{Entry: "sync.js", MemoryBytes: testMemory, Sources: map[string]string{"sync.js": `
		const kept = [];
		export async function sync({how}) {
			kept.push(how, () => kept, new Uint8Array(1e5), "x".repeat(1e5) + how, /a+/g, Promise.reject(how).catch(() => {}), new Map([[kept, kept]]));
			globalThis[how] = globalThis;
			if (how === "throw") throw kept;
			if (how === "memory") for (;;) kept.push({});
			if (how === "depth") return sync({how});
			if (how === "never") await new Promise(resolve => kept.push(resolve));
			if (how === "endless") for (;;) kept.at(0);
			if (how === "lost") Promise.reject(kept);
			return how === "cyclic" ? {kept} : {length: kept.length};
		}`}})).In(t)
	p, ok := loaded.(*program)
	if !ok {
		t.Fatalf("a program is a %T", loaded)
	}
	a := &p.vm.memory
	used, chunks := a.used, len(a.image.chunks)+spareChunks
	for i, how := range slices.Repeat([]string{"return", "throw", "memory", "depth", "never", "endless", "lost", "cyclic"}, 5) {
		c := &script.Call{Function: "sync", Request: []byte(`{"how":"` + how + `"}`)}
		if how == "endless" {
			c.Deadline = time.Now().Add(time.Millisecond)
		}
		response, err := p.Call(c)
		if (how == "return") != (err == nil) || err == nil && string(response) != `{"length":7}` {
			t.Fatalf("%s, call %d: %s, %v", how, i, response, err)
		}
		if a.used != used || len(a.chunks) > chunks || len(a.loose) > 0 || a.exceeded {
			t.Fatalf("%s, call %d: %d bytes are used and were %d, %d chunks, %d loose blocks", how, i, a.used, used, len(a.chunks), len(a.loose))
		}
	}
}

func TestClasses(t *testing.T) {
	last, sizes := 0, map[int]size{}
	for bytes := size(1); bytes <= maxInClass; bytes++ {
		class, rounded := classOf(bytes)
		if known, exists := sizes[class]; exists && known != rounded {
			t.Fatalf("class %d has blocks of %d and %d", class, known, rounded)
		}
		sizes[class] = rounded
		if class < last || class >= classes || rounded < bytes || rounded%header != 0 || bytes > 64 && rounded-bytes > bytes/4 {
			t.Fatalf("%d bytes: class %d of %d after %d, blocks of %d", bytes, class, classes, last, rounded)
		}
		last = class
	}
	if last != classes-1 {
		t.Errorf("the last class is %d, not %d", last, classes-1)
	}
}

// TestTopLevel has code outside of functions: each call sees it as if it ran in that call.
func TestTopLevel(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		want   [2]string
	}{
		"the clock": {
			"const at = new Date(), string = Date(); export const sync = () => ({at, string, n: Date.now() - at})",
			[2]string{
				`{"at":"1970-01-01T00:00:01.000Z","string":"Thu Jan 01 1970 00:00:01 GMT+0000","n":0}`,
				`{"at":"1970-01-01T00:00:02.000Z","string":"Thu Jan 01 1970 00:00:02 GMT+0000","n":0}`,
			},
		},
		"the clock of a module": {
			"import {at} from './at.js'; export const sync = () => ({at})\n-- at.js --\nexport const at = await Promise.resolve().then(Date.now)",
			[2]string{`{"at":1000}`, `{"at":2000}`},
		},
		"random numbers": {
			"const n = Math.floor(Math.random() * 1000); export const sync = () => ({n})", [2]string{`{"n":133}`, `{"n":481}`},
		},
		"the log":          {"console.log('top'); export const sync = () => ({})", [2]string{"top {}", "top {}"}},
		"state":            {"let n = 0; const seen = []; export const sync = r => ({n: ++n, seen: seen.push(r)})", [2]string{`{"n":1,"seen":1}`, `{"n":1,"seen":1}`}},
		"globals":          {"globalThis.n = 0; Object.prototype.p = []; export const sync = () => ({n: ++n, p: [].p.push(1)})", [2]string{`{"n":1,"p":1}`, `{"n":1,"p":1}`}},
		"a table":          {"const t = Array.from({length: 5000}, (_, i) => ({i})); export const sync = () => ({n: t.push(0), s: t[4999].i++})", [2]string{`{"n":5001,"s":4999}`, `{"n":5001,"s":4999}`}},
		"only in a call":   {"export const sync = () => ({now: Date.now()})", [2]string{`{"now":1000}`, `{"now":2000}`}},
		"a fixed date":     {"const at = new Date(0); export const sync = () => ({at: at.setTime(Date.now() + at.getTime())})", [2]string{`{"at":1000}`, `{"at":2000}`}},
		"a pending job":    {"let n = 0; Promise.resolve().then(() => n++); export const sync = async () => ({n, later: await n})", [2]string{`{"n":1,"later":1}`, `{"n":1,"later":1}`}},
		"a caught promise": {"const p = Promise.reject(1); p.catch(() => {}); export const sync = () => p.catch(n => ({n}))", [2]string{`{"n":1}`, `{"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			entry, module, _ := strings.Cut(test.source, "-- at.js --")
			p := must.Get(Engine{}.Load(script.Files{Entry: "sync.js", Sources: map[string]string{"sync.js": entry, "at.js": module}})).In(t)
			for i, want := range test.want {
				var log string
				response, err := p.Call(&script.Call{
					Function: "sync", Request: []byte("{}"), Time: time.Unix(int64(i)+1, 0), Seed: uint64(i) + 1,
					Log: func(line string) { log += line + " " },
				})
				if got := log + string(response); err != nil || got != want {
					t.Errorf("call %d: got %s, %v, want %s", i, got, err, want)
				}
			}
		})
	}
}
