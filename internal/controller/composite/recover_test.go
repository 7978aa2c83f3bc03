package composite

import (
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Fault H4: runtime.Goexit in a Compose function ended a worker. Like a panic (fault G1), it is an
// error of the function.
func TestPanicsAreHookFailures(t *testing.T) {
	for name, do := range map[string]func(){"a panic": func() { panic("ouch") }, "an exit": runtime.Goexit} {
		r := &run{Controller: &Controller{Base: newTestBase(nil)}, Run: &controller.Run{}}
		_, err := withRecover(r, "sync", func() (*hook.Response, error) { do(); return &hook.Response{}, nil })
		if err == nil || !failure.IsPanic(err) || failure.SourceOf(err) != failure.Hook {
			t.Errorf("%s: %v", name, err)
		}
	}
}
