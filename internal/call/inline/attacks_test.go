package inline_test

import (
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/must"
)

const (
	outOfMemory = "exceeded the limit of 64 MiB of memory"
	tooDeep     = "exceeded the limit of the depth of calls"
	tooLate     = "did not return within 1s"
	// aLimit is one of them: which is first depends on the machine.
	aLimit = outOfMemory + "|" + tooDeep + "|" + tooLate
)

// attacks are what a hostile author writes in a function of Starlark, and the error of that call.
var attacks = map[string]struct{ body, want string }{
	"a large shift":            {"1 << (1 << 20)", "inline (sync.star:3:7): shift count too large: 1048576"},
	"large integers":           {"x = 3\n    for i in range(1 << 40): x = x * x", aLimit},
	"decimals of an integer":   {"x = 1 << 511\n    for i in range(12): x = x * x\n    for i in range(1 << 40): str(x)", tooLate},
	"a repeated string":        {"x = 'x' * (1 << 29)", aLimit},
	"a repeated list":          {"x = [0] * (1 << 26)", aLimit},
	"a list of a range":        {"x = list(range(1 << 40))", aLimit},
	"a doubled string":         {"x = 'x'\n    for i in range(60): x += x", aLimit},
	"a replaced string":        {"x = ('x' * (1 << 16)).replace('x', 'y' * (1 << 16))", aLimit},
	"a joined string":          {"x = ''.join(['x' * 1000] * 1000000)", aLimit},
	"the greatest of a range":  {"max(range(1 << 60))", tooLate},
	"shared lists, shown":      {"x = []\n    for i in range(64): x = [x, x]\n    str(x)", aLimit},
	"shared lists, compared":   {"x = []\n    for i in range(64): x = [x, x]\n    y = []\n    for i in range(64): y = [y, y]\n    x == y", "comparison exceeded maximum recursion depth"},
	"shared lists, returned":   {"x = []\n    for i in range(64): x = [x, x]\n    return {'x': x}", aLimit},
	"a deep list, shown":       {"x = []\n    for i in range(1 << 18): x = [x]\n    str(x)", aLimit},
	"a deep list, returned":    {"x = []\n    for i in range(1 << 16): x = [x]\n    return {'x': x}", "inline (sync.star:2:1): the response has more than 1000 levels"},
	"a deep list, hashed":      {"x = ()\n    for i in range(1 << 18): x = (x,)\n    y = {x: 1}", aLimit},
	"deep JSON":                {"json.decode('[' * (1 << 22))", aLimit},
	"deep JSON, encoded":       {"x = []\n    for i in range(1 << 18): x = [x]\n    json.encode(x)", aLimit},
	"recursion":                {"sync(request)", tooDeep},
	"recursion in sorted":      {"sorted([1, 2], key = lambda x: sync(request))", tooDeep},
	"a key that changes":       {"x = [3, 1, 2]\n    sorted(x, key = lambda i: x.append(i) or i)", "cannot append to list during iteration"},
	"a dict that changes":      {"for k in request: request[k + 'x'] = 1", "cannot insert into hash table during iteration"},
	"a loop":                   {"while True: pass", tooLate},
	"a loop that prints":       {"while True: print('x' * 100)", tooLate},
	"a large line":             {"for i in range(1 << 20): print('x' * (1 << 20))", tooLate},
	"a frozen list":            {"top.append(1)", "inline (sync.star:3:15): append: cannot append to frozen list"},
	"the globals of a library": {"json.encode = 1", "can't assign to .encode field of module"},
}

// TestAttacks has a hostile author. Each attack is the error of one call, after which the memory is free.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := child.NewLimiter(1)
			source := "top = []\ndef sync(request):\n    " + attack.body + "\n    return {}\ndef good(request): return {'children': []}\n"
			p := must.Get(compileWith(t, limiter, slog.New(slog.DiscardHandler), "Starlark", source)).In(t)
			limits := call.Limits{MaxResponseBytes: 1 << 20}
			limit := time.Minute
			if strings.Contains(attack.want, tooLate) {
				limit = time.Second
			}
			bad := call.New(call.Config{Transport: p.Function("sync", limit), Limits: limits})
			good := call.New(call.Config{Transport: p.Function("good", time.Minute), Limits: limits})
			must.Get(good.Call(t.Context(), request())).In(t)
			before := limiter.Figures()["test"].MemoryBytes
			_, err := bad.Call(t.Context(), request())
			if !slices.ContainsFunc(strings.Split(attack.want, "|"), func(want string) bool { return err != nil && strings.Contains(err.Error(), want) }) {
				t.Errorf("got %v, want %s", err, attack.want)
			}
			must.Get(good.Call(t.Context(), request())).In(t)
			if after := limiter.Figures()["test"].MemoryBytes; after > before+memory/2 {
				t.Errorf("%d bytes before, %d after", before, after)
			}
		})
	}
}

// TestAttacksAtLoad has code that attacks when it is loaded: it does not compile.
func TestAttacksAtLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ language, source, want string }{
		"a repeated string":   {"Starlark", "x = 'x' * (1 << 29)", "sync.star: " + outOfMemory},
		"recursion":           {"Starlark", "def f(n): f(n + 1)\nf(0)", "sync.star:1:1"},
		"a deep source":       {"Starlark", "x = " + strings.Repeat("[", 1<<18), "sync.star:1:82: excessive nesting"},
		"a deep expression":   {"Starlark", "x = " + strings.Repeat("-", 1<<18) + "1", "sync.star:1:994: excessive nesting"},
		"a file":              {"Starlark", "load('/etc/passwd', 'root')", `sync.star:1:1: cannot load /etc/passwd: there is no module "/etc/passwd", and no other`},
		"a file above":        {"Starlark", "load('../../etc/passwd', 'root')", `sync.star:1:1: cannot load ../../etc/passwd: there is no module`},
		"itself":              {"Starlark", "load('sync.star', 'x')", "sync.star:1:1: cannot load sync.star: sync.star and sync.star load each other"},
		"large objects":       {"JavaScript", "const a = []; for (;;) a.push(new Uint8Array(1 << 20))", `sync\.js(:1:45)?: ` + outOfMemory},
		"recursion of theirs": {"JavaScript", "const f = () => f() + 1; f()", `sync\.js(:1:18)?: ` + tooDeep}, // With the race detector, the stack of the process ends first.
		"a promise":           {"JavaScript", "await new Promise(() => {})", "sync.js: the promise of the top level never settles"},
		"what it exports":     {"JavaScript", "export const sync = 1; throw new Error('x'.repeat(1e6))", "sync.js:1:39: Error: xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := compileWith(t, child.NewLimiter(0), slog.New(slog.DiscardHandler), c.language, c.source)
			if wrong, is := errors.AsType[*call.SourceError](err); !is || !regexp.MustCompile("^"+c.want).MatchString(wrong.Error()) || len(wrong.Error()) > 3000 {
				t.Errorf("got %.300v, want %s", err, c.want)
			}
		})
	}
}
