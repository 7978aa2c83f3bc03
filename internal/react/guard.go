package react

import (
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// guard keeps what panics in a condition, of the program or of a handler, from taking
// anybody down.
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

// met asks a condition on an object. One that panics is not met, which is logged.
func met(log *slog.Logger, o *object.Object, says func() bool) (is bool) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a condition panicked", "object", o.Ref().String(), "panic", p, "stack", string(debug.Stack()))
			is = false
		}
	}()
	return says()
}
