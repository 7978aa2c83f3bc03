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

// startDetachedRecord starts the record of work outside of the object's runs. by is its cause.
func (c *Controller) startDetachedRecord(o *object.Object, by string) *record.Record {
	return c.NewRecord(record.Run{Key: controller.KeyOf(o), UID: o.UID(), Trigger: by})
}

// finishRecord passes the record of a run to the observer.
func (r *run) finishRecord(outcome record.Outcome) {
	ran := r.record.Finish(outcome)
	if r.record.Detailed() && !ran.IsNoop() {
		ran.NextRun = r.Queue.Pending(r.item.Key).Next
	}
	r.tools.Observer.Ran(ran)
}

// finishDetachedRecord passes the record of detached work to the observer, except for repeated
// writes of a daemon that change nothing.
func (c *Controller) finishDetachedRecord(ctx context.Context, a *record.Record, err error) {
	outcome := record.Synced
	switch {
	case err != nil && ctx.Err() != nil:
		// The write was interrupted, which is no failure.
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
