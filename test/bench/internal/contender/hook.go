package contender

import (
	"context"

	"github.com/setpoint-dev/setpoint/test/bench/internal/webhook"
)

// hookName is the argument that runs the bench's binary as the hook.
const hookName = "hook"

func (c *setpoint) HookURL() string { return "http://" + c.hookAddress + webhook.Path }

func (c *setpoint) StartHook(ctx context.Context) (err error) {
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

func (c *setpoint) StopHook() error {
	if c.hook == nil {
		return nil
	}
	defer func() { c.hook = nil }()
	return c.hook.Stop()
}
