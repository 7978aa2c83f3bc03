package compile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// describeInline prints the code of an inline hook.
func describeInline(in *inlineConfig) string {
	text := fmt.Sprintf("%s %s() of %s", in.code.language, in.function, in.code.entry)
	if in.code.inConfigMap() {
		return text + " in " + in.code.configMap.String()
	}
	for _, name := range slices.Sorted(maps.Keys(in.code.sources)) {
		text += fmt.Sprintf(" %s=%q", name, in.code.sources[name])
	}
	return text
}

// words is the language of the tests: each line of its entry is a function, and "!" does not compile.
type words struct{ functions []string }

func compileWords(_ context.Context, script call.Script) (call.Program, error) {
	for name, text := range script.Sources {
		for i, line := range strings.Split(text, "\n") {
			if column := strings.Index(line, "!"); column >= 0 {
				return nil, &call.SourceError{File: name, Line: i + 1, Column: column + 1, Message: "SyntaxError: unexpected !"}
			}
		}
	}
	return words{strings.Fields(script.Sources[script.Entry])}, nil
}

func (w words) Functions() []string                           { return w.functions }
func (w words) Function(string, time.Duration) call.Transport { return neverCalled{} }
func (w words) Close()                                        {}

// Programs that do not run hooks of a kind say which do.
func TestHooksThatAreNotRun(t *testing.T) {
	for hook, want := range map[string]string{
		`inline: {language: JavaScript, source: sync}`: "spec.hooks.sync.inline: this program does not run inline hooks; setpoint run does",
		`exec: {command: [./sync]}`:                    "spec.hooks.sync.exec: this program does not run exec hooks; setpoint dev does, and setpoint run with --exec-hooks=DIR",
	} {
		o := parsed(t, []byte(`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: a},
			spec: {parentResource: {apiVersion: example.org/v1, resource: shops}, hooks: {sync: {`+hook+`}}}}`))
		env := environment(t)
		env.Inline, env.Exec = nil, nil
		if _, err := kindNamed(t, o).Compile(t.Context(), o, env); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		env.Store = nil
		c := must.Get(kindNamed(t, o).Compile(t.Context(), o, env)).In(t)
		c.Release()
	}
}

func openNothing(call.Command) (call.Transport, error) { return neverCalled{}, nil }

// Requests have the controller without the code of its inline hooks, however it was applied.
func TestControllerWithoutCode(t *testing.T) {
	const applied = `"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"{}"}`
	const bare = `"annotations":{"a":"b"}`
	for _, c := range []struct{ given, want string }{
		{`{"metadata":{` + applied + `},"spec":{"hooks":{"customize":{"webhook":{"url":"http://inline"}},"sync":{"inline":{"language":"JavaScript","modules":{"a.js":"b"},"source":"sync"}}}},"status":{}}`,
			`{"metadata":{` + bare + `},"spec":{"hooks":{"customize":{"webhook":{"url":"http://inline"}},"sync":{"inline":{"language":"JavaScript"}}}}}`},
		{`{"metadata":{` + applied + `},"spec":{"handlers":[{"name":"a","retries":9007199254740993},{"inline":{"source":"handle"},"name":"b"}]}}`,
			`{"metadata":{` + bare + `},"spec":{"handlers":[{"name":"a","retries":9007199254740993},{"inline":{},"name":"b"}]}}`},
		{`{"metadata":{` + applied + `},"spec":{"webhooks":[{"inline":{"sourceFrom":{"hook":"b"}},"name":"a"}]}}`,
			`{"metadata":{` + applied + `},"spec":{"webhooks":[{"inline":{"sourceFrom":{"hook":"b"}},"name":"a"}]}}`},
	} {
		o := must.Get(object.Parse([]byte(c.given))).In(t)
		if got := string(snapshot(o, nil)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
