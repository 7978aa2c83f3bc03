package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestWatchWarnsOnceOfATree(t *testing.T) {
	var stderr strings.Builder
	r := &viewer{Session: &processes.Session{Invocation: &command.Invocation{Stderr: &stderr}}}
	for range 2 {
		must.Succeed(t, r.warnMissing([]error{errors.New("too many")}))
	}
	if got := stderr.String(); got != "warning: too many\n" {
		t.Errorf("said %q", got)
	}
}
