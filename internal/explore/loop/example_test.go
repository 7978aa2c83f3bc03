package loop_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// logic is inline code as a function in Go.
type logic func(request map[string]any) map[string]any

// example opens the file of an example whose inline code is replaced.
func example(t testing.TB, file string, sync logic) (*workspace.Workspace, loop.Programs) {
	t.Helper()
	return opened(t, filepath.Join("..", "..", "..", "examples", filepath.FromSlash(file)), sync)
}

// opened opens a file whose inline code is replaced.
func opened(t testing.TB, file string, code call.Program) (*workspace.Workspace, loop.Programs) {
	t.Helper()
	w := must.Get(workspace.Open(context.Background(), workspace.Options{
		Paths:  []string{file},
		Inline: func(context.Context, call.Script) (call.Program, error) { return code, nil },
		Output: func(string) process.Output { return nil },
	})).In(t)
	var programs loop.Programs
	for _, c := range w.Controllers {
		programs.Compose = append(programs.Compose, c.Programs...)
		programs.Handle = append(programs.Handle, c.Handlers...)
	}
	return w, programs
}

// Functions returns the one that the examples have.
func (logic) Functions() []string { return []string{"sync"} }

// Function returns a transport.
func (l logic) Function(string, time.Duration) call.Transport { return transport{l} }

// Close does nothing.
func (logic) Close() {}

type transport struct{ logic logic }

// Exchange calls the function.
func (t transport) Exchange(_ context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	result.Code = 200
	var request map[string]any
	if err := json.Unmarshal(req.Body, &request); err != nil {
		return call.Response{}, err
	}
	body, err := json.Marshal(t.logic(request))
	return call.Response{Body: body}, err
}

// Wrap returns the error as it is.
func (transport) Wrap(_ call.HookType, err error) error { return err }

// Timeout is never reached.
func (transport) Timeout() time.Duration { return time.Minute }

// Close does nothing.
func (transport) Close() {}
