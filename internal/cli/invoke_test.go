package cli

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// invoke runs a command as its user does.
func invoke(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, problems bytes.Buffer
	p := &command.Invocation{Stdout: &out, Stderr: &problems, Stdin: strings.NewReader("")}
	code = execute(ctx, p, Extras{}, args)
	return code, out.String(), problems.String()
}

// serveProcess lets the commands of a test find a process.
func serveProcess(t *testing.T, source inspect.Source) {
	t.Helper()
	door := httptest.NewServer(wire.Handler(source, wire.Token("token")))
	t.Cleanup(door.Close)
	folder := t.TempDir()
	entry := locate.ProcessEntry{Name: "setpoint", PID: os.Getpid(), Address: door.Listener.Addr().String(), Token: "token"}
	t.Cleanup(must.Get(locate.Publish(folder, entry)).In(t))
	t.Setenv(locate.FolderEnv, folder)
}
