package run

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Faults S4 and S9: what a response may take, and what is repeated of it, is bounded.
func TestHookFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want call.Limits
		err  string
	}{
		{nil, call.Limits{MaxResponseBytes: 32 << 20, MaxValues: 500_000, MaxErrorBytes: 200}, ""},
		{[]string{"--hook-response-max-size=1Mi", "--hook-response-max-values=10", "--hook-error-max-size=0"}, call.Limits{MaxResponseBytes: 1 << 20, MaxValues: 10, MaxErrorBytes: -1}, ""},
		{[]string{"--hook-response-max-size=lots"}, call.Limits{}, `--hook-response-max-size must be a quantity of bytes such as 32Mi, not "lots"`},
		{[]string{"--hook-response-max-size=0"}, call.Limits{}, "--hook-response-max-size must be greater than zero"},
		{[]string{"--hook-response-max-values=0"}, call.Limits{}, "--hook-response-max-values must be greater than zero, not 0"},
		{[]string{"--hook-error-max-size=-1"}, call.Limits{}, "--hook-error-max-size must be from 0 to 1000, not -1"},
	} {
		f := parsed(t, c.args...)
		if err := f.check(); err != nil || c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%v: %v", c.args, err)
			}
			continue
		}
		if got := f.options(manager.Cluster{}).Limits; got != c.want {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}
