package react

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// account begins that of a run.
func (c *Controller) account(o *object.Object, item queue.Item) *trace.Account {
	now := c.tools.Now()
	return trace.Open(trace.Run{
		Program: c.program.Name, Resource: c.program.Resource, Key: item.Key, UID: o.UID(),
		Causes: item.Causes, Began: now, Waited: min(item.Waited, now.Sub(c.began)),
	}, c.tools.Now)
}

// aside begins the account of what is done beside the runs of an object, and says
// what brought it about.
func (c *Controller) aside(o *object.Object, by string) *trace.Account {
	return trace.Open(trace.Run{Program: c.program.Name, Resource: c.program.Resource, Key: keyOf(o), UID: o.UID(), By: by}, c.tools.Now)
}

// handIn gives the account of what was done aside to whoever observes.
func (c *Controller) handIn(a *trace.Account, err error) {
	outcome := trace.Synced
	if err != nil {
		a.Failed(err)
		outcome = trace.Failed
	}
	c.tools.Observer.Ran(a.Close(outcome, time.Time{}))
}

// say tells the object's user something.
func (r *run) say(event hook.Event) {
	r.tools.Observer.Tell(r.stored, event)
	r.account.Told(event)
}
