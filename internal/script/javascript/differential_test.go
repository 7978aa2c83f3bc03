package javascript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// FuzzRequest compares requests with what JSON.parse makes of the same text, and responses with what JSON.stringify writes.
func FuzzRequest(f *testing.F) {
	p := load(f, `
		const same = (a, b) => Object.is(a, b) || typeof a === "object" && typeof b === "object" && a !== null && b !== null &&
			Object.getPrototypeOf(a) === Object.getPrototypeOf(b) &&
			sameDescriptors(Object.getOwnPropertyDescriptors(a), Object.getOwnPropertyDescriptors(b));
		const sameDescriptors = (a, b) => Reflect.ownKeys(a).join("\n") === Reflect.ownKeys(b).join("\n") &&
			Reflect.ownKeys(a).every(key => same(a[key].value, b[key].value) &&
				a[key].writable === b[key].writable && a[key].enumerable === b[key].enumerable && a[key].configurable === b[key].configurable);
		export const sync = ({v, text}) => ({v, want: JSON.stringify(JSON.parse(text)), same: same(v, JSON.parse(text))})`)
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		text := r.json(5)
		quoted := must.Get(json.Marshal(text)).In(t)
		got := respond(t, p, `{"v":`+text+`,"text":`+string(quoted)+`}`)
		if got.err != nil || !got.Same || string(got.V) != got.Want {
			t.Errorf("%s:\ngot  %s, same: %v, %v\nwant %s", text, got.V, got.Same, got.err, got.Want)
		}
	})
}

// FuzzResponse compares responses of all sorts of values with what JSON.stringify writes.
func FuzzResponse(f *testing.F) {
	for seed := range uint64(15) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := random{rand.New(rand.NewPCG(seed, 2))}
		expressions := make([]string, 30)
		for i := range expressions {
			expressions[i] = "() => (" + r.expression(4) + ")"
		}
		p := load(t, "const make = [\n"+strings.Join(expressions, ",\n")+"];\n"+
			"export const sync = ({i}) => ({v: make[i](), want: JSON.stringify({v: make[i]()}).slice(5, -1)})")
		for i, expression := range expressions {
			if got := respond(t, p, fmt.Sprintf(`{"i":%d}`, i)); got.err != nil || string(got.V) != got.Want {
				t.Errorf("%s:\ngot  %s, %v\nwant %s", expression, got.V, got.err, got.Want)
			}
		}
	})
}

func load(t testing.TB, source string) script.Program {
	t.Helper()
	p, err := Engine{}.Load(script.Files{Entry: "sync.js", MemoryBytes: testMemory, Sources: map[string]string{"sync.js": source}})
	if err != nil {
		t.Fatalf("%v:\n%s", err, source)
	}
	return p
}

type compared struct {
	V    json.RawMessage
	Want string
	Same bool
	err  error
}

func respond(t *testing.T, p script.Program, request string) (c compared) {
	t.Helper()
	response, err := p.Call(&script.Call{Function: "sync", Request: []byte(request)})
	if err != nil {
		return compared{err: err}
	}
	c.err = json.Unmarshal(response, &c)
	// Half of a surrogate pair in the response is escaped; encoding/json has no such character.
	c.V = bytes.ReplaceAll(c.V, []byte(`\ud800`), []byte("\uFFFD"))
	c.Want = strings.ReplaceAll(c.Want, `\ud800`, "\uFFFD")
	return c
}

type random struct{ *rand.Rand }

func (r random) pick(options ...string) string { return options[r.IntN(len(options))] }

// list has up to four elements.
func (r random) list(element func() string) string {
	elements := make([]string, r.IntN(5))
	for i := range elements {
		elements[i] = element()
	}
	return strings.Join(elements, ",")
}

func (r random) number() string {
	return r.pick("0", "-0", "-0.0", "1e400", "5e-324", "1E+2", "9007199254740991", "-9007199254740991", "2147483648", "-2147483649",
		strconv.FormatInt(int64(int32(r.Uint32())), 10), strconv.FormatInt(r.Int64N(1<<53), 10),
		strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), strconv.FormatFloat(math.Exp(r.NormFloat64()*50), 'e', -1, 64))
}

// finite is a number that JSON has.
func (r random) finite() string {
	for {
		if n := r.number(); n != "1e400" {
			return n
		}
	}
}

func (r random) string() string {
	return r.pick(`""`, `"a"`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, `"é😀"`, `"\u2028\"\\\/\b\f\n\r\t\u001f"`, "\"\u007f\u2029\"", `"\u0061"`,
		`"`+strings.Repeat("ü", r.IntN(200))+`"`)
}

func (r random) key() string {
	return r.pick(`"__proto__"`, `"constructor"`, `"toString"`, `"length"`, `"0"`, `"1"`, `"01"`, `"-1"`, `"4294967294"`, `"4294967295"`, `"a"`, r.string())
}

// json is JSON with spaces, and with keys that are there twice. Its numbers have 53 bits.
func (r random) json(levels int) string {
	space := r.pick("", "", "", " ", "\t\r\n")
	kind := r.IntN(8)
	switch {
	case levels > 0 && kind < 2:
		return space + "[" + r.list(func() string { return r.json(levels - 1) }) + "]" + space
	case levels > 0 && kind < 6:
		return space + "{" + r.list(func() string { return r.key() + space + ":" + r.json(levels-1) }) + space + "}"
	case kind == 6:
		return r.finite()
	}
	return r.pick(r.string(), "true", "false", "null", r.finite())
}

// expression is one in JavaScript, whose value JSON.stringify and Setpoint write alike.
func (r random) expression(levels int) string {
	if levels == 0 {
		return r.pick(r.finite(), r.string(), "true", "null", "new Date("+strconv.Itoa(r.IntN(1e9))+")", "JSON.rawJSON("+r.finite()+")",
			"Object("+r.string()+")", "Object("+r.finite()+")", "Object(false)", r.string()+".repeat(100) + "+r.string())
	}
	below := []string{r.expression(levels - 1), r.expression(levels - 1)}
	element := func() string { return r.pick(below...) }
	member := func() string { return "[" + r.key() + "]: " + r.pick(element(), element(), "undefined") }
	object := "{" + r.list(member) + "}"
	return r.pick(
		element(), "["+r.list(element)+"]", "("+object+")", "({__proto__: null, ..."+object+"})", "Object.create({inherited: 1}, Object.getOwnPropertyDescriptors("+object+"))",
		"new Proxy("+object+", {})", "new Proxy(["+r.list(element)+"], {})", "Object.freeze("+object+")",
		"({toJSON(key) { return {key, a: "+element()+"} }})", "({toJSON: key => key, a: 1})", "({toJSON: 1, a: "+element()+"})",
		"({get a() { delete this.b; return "+element()+" }, b: 1, get c() { this.d = 1; return "+element()+" }})",
		"(() => { const shared = "+element()+"; return [shared, {shared}, shared] })()",
		"Object.assign(["+r.list(element)+"], {extra: 1})", "Object.assign(Object(1), {valueOf: () => "+r.finite()+", toString: () => '}'})",
		"new class A { #private = 1; field = "+element()+"; get accessor() { return 1 } }()",
		"Array.from({length: 100}, (_, i) => i % 10 ? i : "+element()+")", "Object.defineProperty("+object+", 'a', {enumerable: false, value: 1})",
	)
}
