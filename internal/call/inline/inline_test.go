package inline_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/call/inline"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/javascript"
	"github.com/setpoint-dev/setpoint/internal/script/starlark"
)

const (
	engineArgument = "engine"
	memory         = 64 << 20
)

// TestMain makes this binary a child with an engine for tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == engineArgument {
		server := script.Server{MemoryBytes: memory, Engines: map[string]script.Engine{
			"Test": testEngine{}, "JavaScript": javascript.Engine{}, "Starlark": starlark.Engine{},
		}}
		if err := server.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testEngine runs sources with one word, which says what sync does.
type testEngine struct{}

func (testEngine) Load(files script.Files) (script.Program, error) {
	source := files.Sources[files.Entry]
	switch source {
	case "wrong":
		return nil, &script.Error{File: files.Entry, Line: 2, Column: 5, Message: "unexpected token"}
	case "endless load":
		endless()
	case "large load":
		large()
	}
	return testProgram(source), nil
}

type testProgram string

func (testProgram) Functions() []string { return []string{"sync"} }

func (p testProgram) Call(c *script.Call) ([]byte, error) {
	switch p {
	case "throw":
		return nil, &script.Error{File: "sync.js", Line: 12, Column: 5, Message: "TypeError: " + strings.Repeat("not ever ", 200)}
	case "own limit":
		return nil, &script.Error{Message: "out of memory", Limit: "memory 64MiB"}
	case "endless":
		endless()
	case "large":
		large()
	case "deep":
		return fmt.Append(nil, deep(1)), nil
	case "exit":
		os.Exit(1)
	case "garbage":
		return []byte("garbage"), nil
	case "much":
		return bytes.Repeat([]byte(" "), 2<<20), nil
	case "log":
		c.Log("from the code")
	}
	return fmt.Appendf(nil, `{"children":[],"status":{"seed":"%d","request":%s}}`, c.Seed, c.Request), nil
}

func endless() {
	for i := 0; ; i++ {
	}
}

func large() {
	for all := []byte("x"); ; {
		all = append(all, all...)
	}
}

func deep(n int) int {
	if n == 0 {
		return 0
	}
	return deep(n+1) + 1
}

func compile(t testing.TB, source string, log *slog.Logger) (call.Program, error) {
	t.Helper()
	return compileWith(t, child.NewLimiter(0), log, "Test", source)
}

func newCompiler(t testing.TB, limiter *child.Limiter, log *slog.Logger) *inline.Compiler {
	t.Helper()
	path := must.Get(os.Executable()).In(t)
	return &inline.Compiler{Command: []string{path, engineArgument}, MemoryBytes: memory, Limiter: limiter, Log: log}
}

func compileWith(t testing.TB, limiter *child.Limiter, log *slog.Logger, language, source string) (call.Program, error) {
	t.Helper()
	entry := map[string]string{"Starlark": "sync.star"}[language]
	entry = cmp.Or(entry, "sync.js")
	p, err := newCompiler(t, limiter, log).Compile(t.Context(), call.Script{Controller: "test", Language: language, Entry: entry, Sources: map[string]string{entry: source}})
	if err == nil {
		t.Cleanup(p.Close)
	}
	return p, err
}

func open(t testing.TB, source string, timeout time.Duration) *call.Hook {
	t.Helper()
	p := must.Get(compile(t, source, slog.New(slog.DiscardHandler))).In(t)
	return call.New(call.Config{Transport: p.Function("sync", timeout), Limits: call.Limits{MaxResponseBytes: 1 << 20}})
}

func request() *hook.Request {
	return &hook.Request{Parent: []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"shop"}}`)}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		source, want string
		kind         failure.FaultKind
	}{
		{"good", "", ""},
		{"throw", "inline (sync.js:12:5): TypeError: not ever not ever", failure.HookFailed},
		{"own limit", "inline: exceeded the limit of 64 MiB of memory", failure.HookFailed},
		{"endless", "inline: did not return within 500ms", failure.HookTimeout},
		{"large", "inline: exceeded the limit of 64 MiB of memory", failure.HookFailed},
		{"deep", "inline: exceeded the limit of ", failure.HookFailed},
		{"exit", "inline: exited with code 1", failure.HookFailed},
		{"garbage", "inline: malformed response", failure.HookFailed},
		{"much", "inline: malformed response: larger than 1 MiB", failure.HookFailed},
	} {
		t.Run(c.source, func(t *testing.T) {
			timeout := time.Minute
			if c.kind == failure.HookTimeout {
				timeout = 500 * time.Millisecond
			}
			h := open(t, c.source, timeout)
			for range 2 { // The second call has a new child.
				_, err := h.Call(t.Context(), request())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) || len(fmt.Sprint(err)) > 300 {
					t.Errorf("got  %v\nwant %s", err, c.want)
				}
				if own, is := errors.AsType[*inline.Error](err); is && own.Fault().Kind != c.kind {
					t.Error(own.Fault().Kind)
				}
			}
		})
	}
}

func TestErrorsOfLoading(t *testing.T) {
	for source, want := range map[string]string{
		"wrong":      "sync.js:2:5: unexpected token",
		"large load": "sync.js: exceeded the limit of 64 MiB of memory",
	} {
		_, err := compile(t, source, nil)
		if wrong, is := errors.AsType[*call.SourceError](err); !is || wrong.Error() != want {
			t.Errorf("%s: %v", source, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := inline.Compiler{Command: []string{"/no/such/program"}, Limiter: child.NewLimiter(0)}
	if _, err := c.Compile(ctx, call.Script{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Compile(t.Context(), call.Script{}); err == nil || !strings.HasPrefix(err.Error(), "start the engine: run /no/such/program") {
		t.Error(err)
	}
}

// The request has the time, and the seed depends on the request alone.
func TestTimeAndSeed(t *testing.T) {
	h := open(t, "good", time.Minute)
	var status struct {
		Seed    string
		Request struct{ Time time.Time }
	}
	must.Succeed(t, json.Unmarshal(must.Get(h.Call(t.Context(), request())).In(t).Status, &status))
	if time.Since(status.Request.Time) > time.Minute || status.Seed == "0" {
		t.Errorf("%+v", status)
	}
}

func TestLogLines(t *testing.T) {
	out := must.Get(os.Create(filepath.Join(t.TempDir(), "log"))).In(t)
	defer out.Close()
	p := must.Get(compile(t, "log", slog.New(slog.NewTextHandler(out, nil)))).In(t)
	h := call.New(call.Config{Transport: p.Function("sync", time.Minute)})
	ctx, printed := call.WithOutput(t.Context())
	for _, ctx := range []context.Context{ctx, t.Context()} {
		must.Get(h.Call(ctx, request())).In(t)
	}
	if lines, _ := printed.Lines(); !slices.Equal(lines, []string{"from the code"}) {
		t.Errorf("the call printed %q", lines)
	}
	text := string(must.Get(os.ReadFile(out.Name())).In(t))
	if !strings.Contains(text, `controller=test line="from the code" object="A shop/a"`) {
		t.Error(text)
	}
}

// A call says which code it ran: the same for equal code, also if that is compiled again.
func TestCallTellsItsCode(t *testing.T) {
	digest := func(source string) string {
		h := open(t, source, time.Minute)
		ctx, output := call.WithOutput(t.Context())
		if _, err := h.Call(ctx, request()); err == nil && source == "throw" {
			t.Error("it does not run")
		}
		if code := output.Code(); code.Digest == "" || code.Since.IsZero() {
			t.Errorf("the code of %q is %+v", source, code)
		}
		return output.Code().Digest
	}
	if one, again, other := digest("good"), digest("good"), digest("throw"); one != again || one == other {
		t.Errorf("got %s, %s and %s", one, again, other)
	}
}

// The text of code that no longer runs is kept for the history, within a bound.
func TestFormerCode(t *testing.T) {
	compiler := newCompiler(t, child.NewLimiter(0), slog.New(slog.DiscardHandler))
	run := func(source string) *call.Output {
		p := must.Get(compiler.Compile(t.Context(), call.Script{Controller: "test", Language: "JavaScript", Entry: "sync.js", Sources: map[string]string{"sync.js": source}})).In(t)
		defer p.Close()
		ctx, output := call.WithOutput(t.Context())
		must.Get(call.New(call.Config{Transport: p.Function("sync", time.Minute)}).Call(ctx, request())).In(t)
		return output
	}
	const source = "export const sync = () => ({children: []})"
	first := run(source)
	if got := first.Code().WithSource().Source; got != source {
		t.Errorf("kept %q", got)
	}
	for range 4 {
		run(source + " // " + strings.Repeat("x", 300<<10))
	}
	if got := first.Code().WithSource().Source; got != "" {
		t.Errorf("not forgotten: %q", got)
	}
}

// An error of a call has the place that compile errors have.
func TestErrorsNameTheField(t *testing.T) {
	field := func(file string) string { return "spec.hooks.sync.inline.source of " + file }
	p := must.Get(newCompiler(t, child.NewLimiter(0), slog.New(slog.DiscardHandler)).Compile(t.Context(), call.Script{
		Controller: "test", Language: "JavaScript", Entry: "sync.js", Place: field, Sources: map[string]string{"sync.js": "export function sync() {}"},
	})).In(t)
	defer p.Close()
	const place = "spec.hooks.sync.inline.source of sync.js:1:8"
	_, err := call.New(call.Config{Transport: p.Function("sync", time.Minute)}).Call(t.Context(), request())
	if failed, is := errors.AsType[*inline.Error](err); !is || failed.Fault().Place != place || !strings.HasPrefix(err.Error(), "inline ("+place+"): the function sync returned") {
		t.Errorf("got %v", err)
	}
}
