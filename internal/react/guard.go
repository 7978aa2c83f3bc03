package react

import (
	"log/slog"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// guard contains conditions, of the program and of handlers.
func (c *Controller) guard() {
	c.program.Matches = c.program.matching()
	if matches := c.program.Matches; matches != nil {
		c.program.Matches = func(o *object.Object) bool {
			return met(c.log, o, func() bool { return matches(o) })
		}
	}
	c.program.Handlers = slices.Clone(c.program.Handlers)
	for i := range c.program.Handlers {
		h := &c.program.Handlers[i]
		when, log := h.When, c.log.With("handler", h.Name)
		if when == nil {
			continue
		}
		h.When = func(old, now *object.Object) bool {
			return met(log, now, func() bool { return when(old, now) })
		}
	}
}

// met evaluates a condition on an object. One that panics or calls runtime.Goexit is not
// met, which is logged.
func met(log *slog.Logger, o *object.Object, says func() bool) (is bool) {
	err := failure.Contain("a condition", func() error {
		is = says()
		return nil
	})
	if stack, crashed := failure.Crashed(err); crashed {
		log.Error("condition crashed", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return is
}
