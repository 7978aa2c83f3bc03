package failure_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

func TestReason(t *testing.T) {
	plain := errors.New("no")
	inner := failure.WithReason("Inner", plain)
	for want, err := range map[string]error{
		"Otherwise": plain,
		"Inner":     fmt.Errorf("sync hook: %w", inner),
		"Outer":     failure.WithReason("Outer", fmt.Errorf("gave up: %w", inner)),
	} {
		if got := failure.Reason(err, "Otherwise"); got != want || !errors.Is(err, plain) {
			t.Errorf("the reason of %v is %s, want %s", err, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := failure.OneLine(errors.Join(errors.New("one"), errors.New("two"))); got != "one; two" {
		t.Errorf("got %q", got)
	}
	long := failure.OneLine(errors.New("a\nb " + strings.Repeat("ä", 40_000)))
	if len(long) > 1100 || !utf8.ValidString(long) || !strings.HasPrefix(long, "a; b ä") {
		t.Errorf("%d bytes: %.40s", len(long), long)
	}
}

// A panic or runtime.Goexit must not end the caller's goroutine.
func TestRecover(t *testing.T) {
	plain := errors.New("no")
	for name, c := range map[string]struct {
		do      func() error
		want    string
		crashed bool
	}{
		"well":    {func() error { return nil }, "", false},
		"error":   {func() error { return plain }, "no", false},
		"panic":   {func() error { panic("boom") }, "the handler panicked: boom", true},
		"nil":     {func() error { panic(nil) }, "the handler panicked: panic called with nil argument", true}, //nolint:govet // As user code might.
		"exit":    {func() error { runtime.Goexit(); return nil }, "the handler called runtime.Goexit", true},
		"failnow": {func() error { new(testing.T).FailNow(); return nil }, "the handler called runtime.Goexit", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := failure.Recover("the handler", c.do)
			if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && !strings.HasPrefix(got, c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			stack, crashed := failure.PanicStack(fmt.Errorf("handler h: %w", orNil(err)))
			if crashed != c.crashed || crashed && !strings.Contains(stack, "failure_test.go") {
				t.Errorf("crashed %v, at %s", crashed, stack)
			}
		})
	}
	if !errors.Is(failure.Recover("it", func() error { return plain }), plain) {
		t.Error("the error is another one")
	}
}

func orNil(err error) error {
	if err == nil {
		return errors.New("none")
	}
	return err
}

func BenchmarkRecover(b *testing.B) {
	for b.Loop() {
		_ = failure.Recover("it", func() error { return nil })
	}
}

// A release links to its own pages, every other build to those of the main branch. Reasons of hooks have none.
func TestPage(t *testing.T) {
	if got := failure.Page("Told", ""); got != "" {
		t.Error(got)
	}
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "": "main", "unknown": "main", "dev": "main", "6bc94e1": "main",
		"v1.2.3-4-g6bc94e1": "main", "v1.2.3-dirty": "main", "v1.2.3-rc.1-4-g6bc94e1": "main", "(devel)": "main",
		"v0.0.0-20261122214021-e37518e41a2b": "main", "v1.2.3+dirty": "main",
	} {
		want = "https://github.com/setpoint-dev/setpoint/blob/" + want + "/docs/glossary.md#hookfailed"
		if got := failure.Page("HookFailed", version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
