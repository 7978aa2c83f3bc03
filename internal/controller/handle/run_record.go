package handle

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// startRecord begins that of a run.
func (c *Controller) startRecord(o *object.Object, item queue.Item) *record.Record {
	now := c.tools.Now()
	return c.newRecord(record.Run{
		Controller: c.program.Name, Resource: c.program.Resource, Key: item.Key, UID: o.UID(),
		Causes: item.Causes, StartTime: now, QueueDuration: c.Waited(item),
	})
}

// newRecord begins an account, as much of it as is kept.
func (c *Controller) newRecord(run record.Run) *record.Record {
	if c.tools.Unrecorded {
		return record.NewSummary(run, c.tools.Now)
	}
	return record.New(run, c.tools.Now)
}

// startDetachedRecord begins the account of what is done beside the runs of an object, and says
// what brought it about.
func (c *Controller) startDetachedRecord(o *object.Object, by string) *record.Record {
	return c.newRecord(record.Run{Controller: c.program.Name, Resource: c.program.Resource, Key: controller.KeyOf(o), UID: o.UID(), Trigger: by})
}

// finishRecord gives the account of a run to whoever observes.
func (r *run) finishRecord(outcome record.Outcome) {
	ran := r.record.Finish(outcome)
	if r.record.Detailed() && !ran.IsNoop() {
		ran.NextRun = r.Queue.Pending(r.item.Key).Next
	}
	r.tools.Observer.Ran(ran)
}

// finishDetachedRecord gives the account of what was done aside to whoever observes. A daemon
// that reports the same again and again does nothing that is worth keeping.
func (c *Controller) finishDetachedRecord(ctx context.Context, a *record.Record, err error) {
	outcome := record.Synced
	switch {
	case err != nil && ctx.Err() != nil:
		// Stopped in the middle: nothing is known to have failed.
		outcome = record.Postponed
	case err != nil:
		a.Failed(err)
		outcome = record.Failed
	case a.Steps() == 0:
		outcome = record.Skipped
	}
	c.tools.Observer.Ran(a.Finish(outcome))
}

// sendEvent tells the object's user something.
func (r *run) sendEvent(event hook.Event) {
	r.tools.Observer.Event(r.stored, event)
	r.record.EventSent(event)
}
