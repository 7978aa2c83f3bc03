package contender

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
	"github.com/setpoint-dev/setpoint/test/bench/internal/promtext"
	"github.com/setpoint-dev/setpoint/test/bench/internal/script"
)

// inline is Setpoint with an inline hook. Setpoint starts the hook's processes. They cannot be
// probed: calls are those that Setpoint counts.
type inline struct {
	setpoint
}

func newInline(s setpoint) *inline {
	language, source := "JavaScript", script.JavaScript
	if s.name == SetpointStarlark {
		language, source = "Starlark", script.Starlark
	}
	s.hooks = func(Settings) map[string]any {
		return map[string]any{"sync": map[string]any{"inline": map[string]any{"language": language, "source": source}}}
	}
	return &inline{s}
}

func (c *inline) Reads() bool          { return false }
func (c *inline) Probe() *probe.Client { return nil }

func (c *inline) Read(ctx context.Context) (Reading, error) {
	reading, err := c.ReadProcess()
	if err != nil {
		return Reading{}, err
	}
	if reading.HookCPU, err = procfs.ChildrenCPU(c.process.PID()); err != nil {
		return Reading{}, err
	}
	reading.Calls, err = c.calls(ctx)
	return reading, err
}

// calls is how often Setpoint has called the hook.
func (c *inline) calls(ctx context.Context) (calls int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	byHook, err := promtext.SumBy(res.Body, "setpoint_hook_requests_total", "hook")
	return int64(byHook["sync"]), err
}
