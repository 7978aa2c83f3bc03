package setpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// handler is one handler: a function and when to call it.
type handler[T any] struct {
	*handlerSettings

	handlers *Handlers[T]
	fn       HandlerFunc[T]
	daemon   bool
}

// Handle calls the function. It implements hook.Handler.
func (h *handler[T]) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	c, err := newCall(h, n)
	if err != nil {
		return nil, err
	}
	err = c.run(ctx, "handler", h.name, func() error { return h.fn(ctx, c) })
	stepped := c.endsWithStep(err)
	if err != nil && !stepped {
		return nil, err
	}
	response, err := c.buildResponse()
	if err == nil && stepped {
		err = c.addStep(response)
	}
	return response, err
}

// Changes returns the watched differences between two states. Package setpointtest uses
// it for UpdatedFrom.
func (h *handler[T]) Changes(old, now json.RawMessage) ([]hook.FieldChange, error) {
	was, err := object.Parse(old)
	if err != nil {
		return nil, err
	}
	is, err := object.Parse(now)
	if err != nil {
		return nil, err
	}
	return h.spec.Changes(was, is), nil
}

func (h *handler[T]) program() loop.Handler {
	p := h.spec
	p.Name, p.When = h.name, h.predicate()
	if h.daemon {
		p.Daemon = h.runDaemon
		return p
	}
	p.Do = h
	return p
}

// runDaemon implements loop.Daemon.
func (h *handler[T]) runDaemon(ctx context.Context, n *hook.HandlerRequest, live *loop.Live) error {
	c, err := newCall(h, n)
	if err != nil {
		return err
	}
	c.live = live
	if err := c.run(ctx, "daemon", h.name, func() error { return h.fn(ctx, c) }); err != nil {
		return err
	}
	return c.Write()
}

// predicate joins the filters and predicates of the handler; nil if there are none.
func (h *handler[T]) predicate() func(old, now *object.Object) bool {
	if len(h.filters)+len(h.predicates) == 0 {
		return nil
	}
	return func(old, now *object.Object) bool {
		for _, match := range h.filters {
			if !match(old, now) {
				return false
			}
		}
		return len(h.predicates) == 0 || h.matchesPredicates(old, now)
	}
}

// matchesPredicates calls the predicates of When. An object that does not decode as T
// matches, so that the call reports the error.
func (h *handler[T]) matchesPredicates(old, now *object.Object) bool {
	was, err := decodeObject[T](old)
	is, err2 := decodeObject[T](now)
	if errors.Join(err, err2) != nil {
		return true
	}
	for _, one := range h.predicates {
		if predicate, ok := one.(func(old, now *T) bool); ok && !predicate(was, is) {
			return false
		}
	}
	return true
}

// check adds the checks that need the type.
func (h *handler[T]) check(c *controller) []error {
	problems := h.handlerSettings.check(c)
	for _, former := range h.spec.FormerNames {
		if slices.ContainsFunc(h.handlers.handlers, func(other *handler[T]) bool {
			return other.name == former || other != h && slices.Contains(other.spec.FormerNames, former)
		}) {
			problems = append(problems, fmt.Errorf("handler %q of %s: FormerName(%q): a handler has this name, or had it: use another one",
				h.name, c.name(), former))
		}
	}
	for _, one := range h.predicates {
		if _, ok := one.(func(old, now *T) bool); !ok {
			problems = append(problems, fmt.Errorf("handler %q of %s: the type of When is %T, and the handler has objects of %s",
				h.name, c.name(), one, c.goType))
		}
	}
	if !h.daemon && h.spec.StopTimeout != 0 {
		problems = append(problems, fmt.Errorf("handler %q of %s: StopTimeout requires a daemon", h.name, c.name()))
	}
	if h.daemon && (len(h.spec.On) > 0 || h.hasReason(hook.ReasonTimer)) {
		problems = append(problems, fmt.Errorf("handler %q of %s: a daemon has no other reasons: use another handler", h.name, c.name()))
	}
	return problems
}

// decodeObject decodes an object as a T; nil stays nil.
func decodeObject[T any](o *object.Object) (*T, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // No object is no object.
	}
	return decode[T](o.JSON())
}

// decode decodes JSON as a T. A retry would not help.
func decode[T any](data json.RawMessage) (*T, error) {
	into := new(T)
	if err := json.Unmarshal(data, into); err != nil {
		return nil, permanentError("read the object as %T: %w", into, err)
	}
	return into, nil
}
