package contender

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
	"github.com/setpoint-dev/setpoint/test/bench/internal/webhook"
)

// hookName is the argument that runs the bench's binary as the hook.
const hookName = "hook"

// webhooked is Setpoint with its webhook, two processes. The hook stays when
// Setpoint is stopped, so that a restart finds it where it was.
type webhooked struct {
	setpoint
	hook        *child.Process
	hookAddress string
	probe       *probe.Client
}

func newWebhooked(s setpoint) *webhooked {
	c := &webhooked{setpoint: s}
	c.hooks = func(settings Settings) map[string]any {
		hooks := map[string]any{"sync": urlHook(c.HookURL())}
		if settings.Related {
			hooks["customize"] = urlHook(c.probe.Base + webhook.CustomizePath)
		}
		return hooks
	}
	return c
}

func urlHook(url string) map[string]any {
	return map[string]any{"webhook": map[string]any{"url": url}}
}

func (c *webhooked) Start(ctx context.Context, settings Settings) (time.Duration, error) {
	if err := c.StartHook(ctx); err != nil {
		return 0, err
	}
	return c.setpoint.Start(ctx, settings)
}

func (c *webhooked) Close() error { return errors.Join(c.setpoint.Close(), c.StopHook()) }

func (c *webhooked) Reads() bool          { return true }
func (c *webhooked) Probe() *probe.Client { return c.probe }

func (c *webhooked) Read(ctx context.Context) (Reading, error) {
	reading, err := read(ctx, c.process, c.probe)
	if err != nil {
		return Reading{}, err
	}
	reading.HookCPU, err = procfs.CPU(c.hook.PID())
	return reading, err
}

func (c *webhooked) HookURL() string { return "http://" + c.hookAddress + webhook.Path }

func (c *webhooked) StartHook(ctx context.Context) (err error) {
	if c.hook != nil {
		return nil
	}
	if c.hookAddress == "" {
		if c.hookAddress, err = steadyAddress(ctx); err != nil {
			return err
		}
	}
	c.hook, c.probe, err = startProbed(ctx, c.config.Dir, c.name+"-"+hookName, c.config.Self, hookName, "-address", c.hookAddress)
	return err
}

func (c *webhooked) StopHook() error {
	if c.hook == nil {
		return nil
	}
	defer func() { c.hook = nil }()
	return c.hook.Stop()
}
