package running

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// observer passes what workers report to metrics, events and the history.
type observer struct {
	*Dependencies
	account identity.Account
}

// Event sends an event as the ServiceAccount.
func (o observer) Event(at *object.Object, event hook.Event) {
	o.Events.EventAs(o.account.UserFor(at.Namespace()), at, event)
}

// OwnEvent sends an event as Setpoint.
func (o observer) OwnEvent(at *object.Object, event hook.Event) { o.Events.Event(at, event) }

// Ran records a run.
func (o observer) Ran(run record.Run) {
	o.Metrics.ObserveRun(&run)
	o.Recorders.Ran(&run)
	o.History.Add(run)
}

// Deleted records a deletion, which is not counted as a run.
func (o observer) Deleted(deletion record.Run) { o.History.Add(deletion) }

// Handled counts a handler call.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.Metrics.ObserveHandler(program, handler, reason, took, err)
	o.History.AddCall(program, handler, inspect.CallOutcome(err), took)
}

// Health returns the health of all programs and webhooks together.
func (c *Controller) Health() controller.Health {
	sum := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	for _, w := range c.Workers {
		addHealth(&sum, w.Health())
	}
	if c.Admission != nil {
		addHealth(&sum, c.Webhooks.Health(c.Admission.Name))
	}
	sum.Overdue, sum.OverdueMessage = c.InFlight.Overdue(c.Name())
	sum.HookDown, sum.HookUnreachable = c.Endpoints.Failures(c.Name(), c.HookAddresses)
	return sum
}

// addHealth adds the health of one more program.
func addHealth(sum *controller.Health, h controller.Health) {
	sum.Synced = sum.Synced && h.Synced
	maps.Copy(sum.WatchErrors, h.WatchErrors)
	sum.Parents += h.Parents
	sum.Children += h.Children
	sum.Paused += h.Paused
	sum.Held.Count += h.Held.Count
	sum.Held.Parents += h.Held.Parents
	sum.Held.Value = cmp.Or(sum.Held.Value, h.Held.Value)
	sum.HeldUnknown = sum.HeldUnknown || h.HeldUnknown
	sum.Conflicting += h.Conflicting
	sum.ConflictMessage = cmp.Or(sum.ConflictMessage, h.ConflictMessage)
	sum.IndexMessage = cmp.Or(sum.IndexMessage, h.IndexMessage)
	sum.StreamMessage = cmp.Or(sum.StreamMessage, h.StreamMessage)
	sum.Failing += h.Failing
	sum.HookFailing += h.HookFailing
	sum.HookMessage = cmp.Or(sum.HookMessage, h.HookMessage)
	if h.LastError.Time.After(sum.LastError.Time) {
		sum.LastError = h.LastError
	}
	sum.RelatedMissing += h.RelatedMissing
	sum.Invalid += h.Invalid
	sum.InvalidMessage = cmp.Or(sum.InvalidMessage, h.InvalidMessage)
	sum.RelatedMessage = cmp.Or(sum.RelatedMessage, h.RelatedMessage)
	sum.Forbidden += h.Forbidden
	sum.ForbiddenMessage = cmp.Or(sum.ForbiddenMessage, h.ForbiddenMessage)
	sum.ForbiddenNamespaces = lists.Union(sum.ForbiddenNamespaces, h.ForbiddenNamespaces)
	slices.Sort(sum.ForbiddenNamespaces)
	for priority, depth := range h.Queue.Depth {
		sum.Queue.Depth[priority] += depth
	}
	sum.Queue.Active += h.Queue.Active
	sum.Queue.Backoff += h.Queue.Backoff
	sum.Queue.Delayed += h.Queue.Delayed
	sum.Queue.OldestWait = max(sum.Queue.OldestWait, h.Queue.OldestWait)
}
