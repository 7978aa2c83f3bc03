package compose

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Fault H4: a function of Compose that calls runtime.Goexit would end a worker. It is the
// function's error, as a panic is (fault G1): none of ours.
func TestPanicsAreHookFailures(t *testing.T) {
	for name, do := range map[string]func(){"a panic": func() { panic("ouch") }, "an exit": runtime.Goexit} {
		r := &run{Controller: &Controller{log: slog.New(slog.DiscardHandler)}}
		_, err := withRecover(r, "sync", func() (*hook.Response, error) { do(); return &hook.Response{}, nil })
		if err == nil || !failure.IsPanic(err) || failure.SourceOf(err) != failure.Hook {
			t.Errorf("%s: %v", name, err)
		}
	}
}
