package react

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// account begins that of a run.
func (c *Controller) account(o *object.Object, item queue.Item) *trace.Account {
	now := c.tools.Now()
	return c.take(trace.Run{
		Program: c.program.Name, Resource: c.program.Resource, Key: item.Key, UID: o.UID(),
		Causes: item.Causes, Began: now, Waited: min(item.Waited, now.Sub(c.began)),
	})
}

// take begins an account, as much of it as is kept.
func (c *Controller) take(run trace.Run) *trace.Account {
	if c.tools.Unrecorded {
		return trace.Brief(run, c.tools.Now)
	}
	return trace.Open(run, c.tools.Now)
}

// aside begins the account of what is done beside the runs of an object, and says
// what brought it about.
func (c *Controller) aside(o *object.Object, by string) *trace.Account {
	return c.take(trace.Run{Program: c.program.Name, Resource: c.program.Resource, Key: keyOf(o), UID: o.UID(), By: by})
}

// handIn gives the account of a run to whoever observes.
func (r *run) handIn(outcome trace.Outcome) {
	ran := r.account.Close(outcome)
	if r.account.Whole() && !ran.Quiet() {
		ran.Next = r.queue.Pending(r.item.Key).Next
	}
	r.tools.Observer.Ran(ran)
}

// handInAside gives the account of what was done aside to whoever observes. A daemon
// that reports the same again and again does nothing that is worth keeping.
func (c *Controller) handInAside(ctx context.Context, a *trace.Account, err error) {
	outcome := trace.Synced
	switch {
	case err != nil && ctx.Err() != nil:
		// Stopped in the middle: nothing is known to have failed.
		outcome = trace.Postponed
	case err != nil:
		a.Failed(err)
		outcome = trace.Failed
	case a.Steps() == 0:
		outcome = trace.Skipped
	}
	c.tools.Observer.Ran(a.Close(outcome))
}

// say tells the object's user something.
func (r *run) say(event hook.Event) {
	r.tools.Observer.Tell(r.stored, event)
	r.account.Told(event)
}
