package setpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// handler is one handler: a function, and when it is told.
type handler[T any] struct {
	*settings

	of     *Handlers[T]
	do     Func[T]
	daemon bool
}

// Handle calls the function. It makes a hook.Handler of it.
func (h *handler[T]) Handle(ctx context.Context, n *hook.Notice) (*hook.Answer, error) {
	if err := h.of.c.app.filled(ctx); err != nil {
		return nil, err
	}
	c, err := newCall(h, n)
	if err != nil {
		return nil, err
	}
	if err := h.run(ctx, c, "handler"); err != nil {
		return nil, err
	}
	return c.answer()
}

// Changes are how what the handler watches of an object differs, as it sees an
// update. It is what setpointtest.Was makes up.
func (h *handler[T]) Changes(old, now json.RawMessage) ([]hook.FieldChange, error) {
	was, err := object.Parse(old)
	if err != nil {
		return nil, err
	}
	is, err := object.Parse(now)
	if err != nil {
		return nil, err
	}
	return h.plan.Changes(was, is), nil
}

// program is the handler as the loop runs it.
func (h *handler[T]) program() react.Handler {
	p := h.plan
	p.Name, p.When = h.name, h.when()
	if h.daemon {
		p.Daemon = h.work
		return p
	}
	p.Do = h
	return p
}

// work is a react.Daemon.
func (h *handler[T]) work(ctx context.Context, n *hook.Notice, live *react.Live) error {
	if err := h.of.c.app.filled(ctx); err != nil {
		return err
	}
	c, err := newCall(h, n)
	if err != nil {
		return err
	}
	c.live = live
	if err := h.run(ctx, c, "daemon"); err != nil {
		return err
	}
	return c.Write()
}

// run calls the function, which is known to be under way meanwhile.
func (h *handler[T]) run(ctx context.Context, c *Call[T], what string) error {
	app := h.of.c.app
	w := app.underway.begin(what, h.name, &c.statement)
	defer app.underway.end(w)
	return h.do(ctx, c)
}

// when joins the filters and functions that limit the handler; nil if there are
// none.
func (h *handler[T]) when() func(old, now *object.Object) bool {
	if len(h.filters)+len(h.whens) == 0 {
		return nil
	}
	return func(old, now *object.Object) bool {
		for _, holds := range h.filters {
			if !holds(old, now) {
				return false
			}
		}
		return len(h.whens) == 0 || h.asked(old, now)
	}
}

// asked asks the functions of When. An object that is not one of T's is not
// theirs to judge: it passes, and the call tells what is wrong with it.
func (h *handler[T]) asked(old, now *object.Object) bool {
	was, err := decodeObject[T](old)
	is, err2 := decodeObject[T](now)
	if errors.Join(err, err2) != nil {
		return true
	}
	for _, one := range h.whens {
		if says, ok := one.(func(old, now *T) bool); ok && !says(was, is) {
			return false
		}
	}
	return true
}

// check adds what only the type knows.
func (h *handler[T]) check(c *controller) []error {
	problems := h.settings.check(c)
	for _, one := range h.whens {
		if _, ok := one.(func(old, now *T) bool); !ok {
			problems = append(problems, fmt.Errorf("handler %q of %s: When has a %T, the handler objects of %s", h.name, c.name(), one, c.typed))
		}
	}
	if !h.daemon && h.plan.StopTimeout != 0 {
		problems = append(problems, fmt.Errorf("handler %q of %s: StopTimeout is for a daemon", h.name, c.name()))
	}
	if h.daemon && (len(h.plan.On) > 0 || h.told(hook.ReasonTimer)) {
		problems = append(problems, fmt.Errorf("handler %q of %s: a daemon has no other reason; give one of them a setpoint.Name", h.name, c.name()))
	}
	return problems
}

// decodeObject reads an object as a T; nil stays nil.
func decodeObject[T any](o *object.Object) (*T, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // No object is no object.
	}
	return decode[T](o.JSON())
}

// decode reads JSON as a T. Trying again is of no use.
func decode[T any](data json.RawMessage) (*T, error) {
	into := new(T)
	if err := json.Unmarshal(data, into); err != nil {
		return nil, permanently("read the object as %T: %w", into, err)
	}
	return into, nil
}
