package javascript

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSameAsStringify compares responses with those of JSON.stringify.
func TestSameAsStringify(t *testing.T) {
	for _, value := range []string{
		`[0, -0, 1, -1, 2147483647, -2147483648, 4294967296, 9007199254740993, 1.5, 1e21, 1e-7, 123456789012345680000, 5e-324]`,
		`[Object(1.5), Object("a"), Object(true), new Number(-0), JSON.rawJSON("1e1000"), JSON.rawJSON('"x"')]`,
		`[Object(1), Object(true), Object.assign(Object(1.5), {valueOf: () => 2})].map(v => Object.assign(v, {toString: () => '1}\\n{"children":[]'}))`,
		`[Object(false), new class extends Number { toString() { return "NaN" } }(7)]`,
		`(BigInt.prototype.toJSON = function (key) { return key + typeof this + this }, [1n, 2n ** 70n, {a: Object(-3n)}])`,
		`["", "a".repeat(1e4), "é", "\u6f22", "😀", "\ud800", "\udfff", "a\udc00\ud800b", "\ud7ff\ue000", "\u2028\u2029\x7f\0"]`,
		`Array.from({length: 256}, (_, i) => String.fromCharCode(i)).join("")`,
		`"a" + "b".repeat(9999) + "c"`,
		`[new Date(0), Object.assign(new Error("x"), {toJSON() { return this.message }})]`,
		`({b: undefined, a: null, 1: 2, 0: 3, [Symbol.iterator]: 1, "": {"": []}, "\"é\ud800": 1, __proto__: {inherited: 1}})`,
		`({__proto__: null, ["__proto__"]: {a: 1}})`,
		`Object.defineProperty({a: 1}, "hidden", {value: 2})`,
		`({toJSON: key => "key " + key})`,
		`({a: {toJSON() { return undefined }}, b: [{toJSON: key => typeof key + key}]})`,
		`({a: {toJSON() { return {toJSON: 1, b: new Date(0)} }}, c: {toJSON: 1}})`,
		`Object.assign(() => {}, {toJSON: () => "a function"})`,
		`new class extends Map { toJSON() { return Object.fromEntries(this) } }([["a", 1]])`,
		`new Proxy({a: 1}, {ownKeys: () => ["a", "b"], getOwnPropertyDescriptor: () => ({enumerable: true, configurable: true}), get: (_, key) => key === "toJSON" ? undefined : key})`,
		`new Proxy([1, 2, 3], {get: (a, key) => key === "length" ? 2 : a[key]})`,
		`new Proxy(new Proxy([[1]], {}), {})`,
		`({get a() { this.b = 2; return 1 }, b: 1, get c() { return this.b }})`,
		`(function () { return arguments })(1, 2)`,
		`(() => { const a = [1, 2, 3]; Object.defineProperty(a, 1, {get: () => "got"}); return a })()`,
		`(() => { const a = {x: 1}; return [a, a, {a, b: a}] })()`,
	} {
		got := call(t, "export const sync = () => { const a = "+value+"; return {a, want: JSON.stringify({a})} }", "{}")
		var response struct {
			A    json.RawMessage
			Want string
		}
		if err := json.Unmarshal([]byte(got), &response); err != nil {
			t.Errorf("%s: %v: %s", value, err, got)
			continue
		}
		if got := `{"a":` + string(response.A) + `}`; got != response.Want && got != strings.ToValidUTF8(response.Want, "") {
			t.Errorf("%s:\ngot  %s\nwant %s", value, got, response.Want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for value, want := range map[string]string{
		`[, 1]`:                            "response.a[0] is undefined",
		`[{toJSON() {}}]`:                  "response.a[0] is undefined",
		`[new Date(NaN)]`:                  "response.a[0] is a Date that is not valid",
		`({b: new Number(NaN)})`:           "response.a.b is NaN, which JSON does not have",
		`[/a/g]`:                           "response.a[0] is a RegExp: return its source",
		`({e: new TypeError("x")})`:        "response.a.e is an Error: return its message",
		`[Promise.resolve(1)]`:             "response.a[0] is a Promise: await it",
		`new WeakMap()`:                    "response.a is a WeakMap or WeakSet",
		`new Uint8Array(2)`:                "response.a is a Uint8Array: return its toBase64(), or [...array]",
		`new Float64Array(2)`:              "response.a is binary data: return [...array], or toBase64() of a Uint8Array",
		`new ArrayBuffer(2)`:               "response.a is binary data: return [...array], or toBase64() of a Uint8Array",
		`[1].values()`:                     "response.a is an iterator: return [...iterator]",
		`(function* () {})()`:              "response.a is an iterator: return [...iterator]",
		`[Symbol()]`:                       "response.a[0] is a symbol",
		`[[Object(0/0)]]`:                  "response.a[0][0] is NaN, which JSON does not have",
		`({toJSON: () => 2n ** 64n})`:      "response.a is 18446744073709551616, which is not a 64-bit integer",
		`({toJSON: () => ({b: () => 1})})`: "response.a.b is a function",
		`Object.assign(Object(2n ** 63n), {toString: () => "+5"})`: "response.a is 9223372036854775808, which is not a 64-bit integer",
		`Object.assign(Object(1), {valueOf: () => 0 / 0})`:         "response.a is NaN, which JSON does not have",
		`Object.assign(Object(1), {valueOf: () => 1n})`:            "TypeError: bigint argument with unary +",
		`Object.setPrototypeOf(() => 1, null)`:                     "response.a is a function",
		`class {}`:                                                 "response.a is a function",
		`({"é \n": [new Set()]})`:                                  "response.a.é  [0] is a Set: return [...set]",
		`new class extends Map {}`:                                 "response.a is a Map: return Object.fromEntries(map)",
		`(() => { const a = []; a[0] = a; return a })()`:           "response.a[0] contains itself",
		`(() => { const a = {toJSON: () => [a]}; return a })()`:    "the response is too deep limit: the depth of calls",
		`({get b() { throw 1 }})`:                                  "1 was thrown, which is not an Error and so has no line",
		// A response that is many times larger than what it is made of.
		`(() => { let a = ["x".repeat(1000)]; for (let i = 0; i < 60; i++) a = [a, a]; return a })()`: "out of memory limit: memory 4MiB",
	} {
		if got := call(t, "export const sync = () => ({a: "+value+"})", "{}"); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}
