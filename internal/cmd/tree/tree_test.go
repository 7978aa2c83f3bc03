package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
)

func TestWatchWarnsOnceOfATree(t *testing.T) {
	var stderr strings.Builder
	r := &viewer{Session: &processes.Session{Invocation: &command.Invocation{Stderr: &stderr}}}
	for range 2 {
		if err := r.warnMissing([]error{errors.New("too many")}); err != nil {
			t.Error(err)
		}
	}
	if got := stderr.String(); got != "warning: too many\n" {
		t.Errorf("said %q", got)
	}
}
