package react

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// end tells of objects that do not exist any more. Nothing is repeated: there is
// no object left to keep a record on.
func (c *Controller) end(ctx context.Context, news []store.Event) {
	for _, e := range news {
		if e.New != nil || !c.program.selects(e.Old) || c.leaves(ctx, e.Old) {
			continue
		}
		for i := range c.program.Handlers {
			for _, reason := range c.program.reasonsAtEnd(i, e.Old) {
				c.tellEnd(ctx, call{handler: i, reason: reason, object: e.Old, gone: true})
			}
		}
	}
}

// leaves says that an object is not gone, but merely out of what the API server
// selects. It is let go then.
func (c *Controller) leaves(ctx context.Context, o *object.Object) bool {
	if c.program.narrowed() == "" && c.program.Fields == "" {
		return false
	}
	for range patience {
		live, err := c.tools.Writer.Get(ctx, c.program.Resource, o.Namespace(), o.Name())
		if err != nil || live.UID() != o.UID() {
			return false
		}
		if !c.program.holds(live) {
			return true
		}
		body, err := json.Marshal(c.program.unfinalized(live))
		if err == nil {
			_, err = c.tools.Writer.Patch(ctx, c.program.Resource, live, body)
		}
		if err == nil {
			return true
		}
		c.log.Warn("finalizer not removed; trying again", "object", o.Ref().String(), "error", failure.OneLine(err))
		if !wait(ctx, lookAgain) {
			return true
		}
	}
	return true
}

// wait waits, and says whether the context is still there.
func wait(ctx context.Context, delay time.Duration) bool {
	select {
	case <-time.After(delay):
		return true
	case <-ctx.Done():
		return false
	}
}

// reasonsAtEnd are the reasons for which a handler is told of an object's end: an
// optional Delete handler is, unless it has been told while the object was kept.
func (p *Program) reasonsAtEnd(i int, o *object.Object) []hook.Reason {
	h := &p.Handlers[i]
	var reasons []hook.Reason
	if h.on(hook.ReasonEvent) && h.cares(nil, o) {
		reasons = append(reasons, hook.ReasonEvent)
	}
	if h.on(hook.ReasonDelete) && h.Optional && !p.recordOf(o)[h.Name].Done && h.cares(nil, o) {
		reasons = append(reasons, hook.ReasonDelete)
	}
	return reasons
}

func (c *Controller) tellEnd(ctx context.Context, made call) {
	h := &c.program.Handlers[made.handler]
	n := c.noticeOf(h, made.object)
	n.Reason, n.Gone = made.reason, true
	n.Owned = c.program.shown(c.ownedBy(made.object))
	account := c.aside(made.object, "it is gone")
	answer, err := c.call(ctx, account, n, h)
	if err == nil {
		all := hands{Controller: c, account: account, object: made.object, landed: func(object.Ref, *object.Object) {}}
		err = all.carry(ctx, &owed{call: made, answer: answer})
	}
	r := &run{Controller: c, account: account, stored: made.object, aside: true}
	switch {
	case err == nil:
		for _, event := range answer.Events {
			r.say(event)
		}
	case ctx.Err() == nil:
		err = fmt.Errorf("handler %s: %w", h.Name, err)
		c.log.Warn("handling failed", "object", made.object.Ref().String(), "error", failure.OneLine(err))
		r.say(hook.Event{Type: warning, Reason: kindOf(err), Message: failure.OneLine(err)})
	}
	c.handInAside(ctx, account, err)
}
