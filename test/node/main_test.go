//go:build linux

package node_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/node"
)

var machine = node.Node{Root: "../.."}

func TestMain(m *testing.M) { os.Exit(machine.Main(m.Run)) }

// within bounds what a test, or its cleanup, waits for.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	time.AfterFunc(limit, cancel)
	return ctx
}

// kubectl runs it, or ends the test with its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return must.Get(machine.Setpoint(within(t, 2*time.Minute), append([]string{"kubectl"}, args...)...)).In(t)
}

// awaitOutput waits until kubectl prints a text.
func awaitOutput(t *testing.T, want string, args ...string) {
	t.Helper()
	await(t, func() error {
		got, err := machine.Setpoint(t.Context(), append([]string{"kubectl"}, args...)...)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("kubectl %s prints %q, not %q", strings.Join(args, " "), got, want)
		}
		return err
	})
}

// namespace makes a namespace for a test, and deletes it after that.
func namespace(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "create", "namespace", name)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", name, "--wait=false") })
}
