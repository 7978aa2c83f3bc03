package handle

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func (c *Controller) startRecord(o *object.Object, item queue.Item) *record.Record {
	return c.NewRecord(record.Run{
		Key: item.Key, UID: o.UID(), Causes: item.Causes, StartTime: c.tools.Now(), QueueDuration: c.Waited(item),
	})
}

// startDetachedRecord begins the account of what is done beside the runs of an object, and says
// what brought it about.
func (c *Controller) startDetachedRecord(o *object.Object, by string) *record.Record {
	return c.NewRecord(record.Run{Key: controller.KeyOf(o), UID: o.UID(), Trigger: by})
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

func (r *run) sendEvent(event hook.Event) { r.SendEvent(r.record, r.stored, event) }
