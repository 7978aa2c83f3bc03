package handler

import (
	"log/slog"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// recoverConditions wraps the conditions of the program and of handlers, so that a panic does
// not stop the controller.
func (c *Controller) recoverConditions() {
	c.program.Matches = c.program.matchFunc()
	if matches := c.program.Matches; matches != nil {
		c.program.Matches = func(o *object.Object) bool {
			return c.evaluate(c.Log, o, nil, func() bool { return matches(o) })
		}
	}
	c.program.Handlers = slices.Clone(c.program.Handlers)
	for i := range c.program.Handlers {
		h := &c.program.Handlers[i]
		when, log := h.When, c.Log.With("handler", h.Name)
		if when == nil {
			continue
		}
		h.When = func(old, now *object.Object) bool {
			return c.evaluate(log, now, old, func() bool { return when(old, now) })
		}
	}
}

// evaluate evaluates a condition on an object and its former state, which may be nil. After a panic or runtime.Goexit it logs and
// returns false.
func (c *Controller) evaluate(log *slog.Logger, o, former *object.Object, says func() bool) (is bool) {
	err := failure.Recover("a condition", func() error {
		is = says()
		return nil
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		c.ValuesOf(o, former).Logger(log).Error("condition crashed", "object", o.Ref().String(), "error", failure.OneLine(err), "stack",
			stack)
	}
	return is
}
