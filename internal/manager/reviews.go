package manager

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func newWebhooks(m *Manager) *serving.Webhooks {
	return serving.NewWebhooks(serving.WebhookOptions{
		Reach: m.options.reach(), APIServer: m.options.Config.Host, Store: m.store, Client: m.client, Leader: m.leader, Log: m.log,
		Lease: m.processLease.Held, Exempt: m.ownObjects(), Observer: reviewObserver{m},
		Started: m.controllers.started.Load, Listed: m.controllers.admissionControllersListed,
	})
}

// reviewObserver records reviews.
type reviewObserver struct{ *Manager }

// Reviewed counts a review, and adds it to the history and the events of its controller.
func (m reviewObserver) Reviewed(o admission.ReviewRecord, key queue.Key, exists bool) {
	m.metrics.ObserveReview(o)
	if !exists {
		return
	}
	if !m.options.History.Off {
		m.history.AddCall(o.Program, o.Webhook, string(o.Result), o.Duration)
		m.history.Add(reviewRecord(o))
	}
	if o.Err != nil {
		m.controllers.recordEvent(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: failure.OneLine(o.Err)})
	}
}

// EventAt records an event on an object that a review names.
func (m reviewObserver) EventAt(user string, event hook.ObjectEvent) { m.events.eventAtAs(user, event) }

// admissionWorker represents the reviews of a controller among its workers. The webhook server
// runs them in every replica.
type admissionWorker struct {
	webhooks *serving.Webhooks
	program  string
}

func (a admissionWorker) Run(ctx context.Context) { <-ctx.Done() }
func (admissionWorker) RetryNow()                 {}
func (admissionWorker) RetryWrites()              {}
func (admissionWorker) Close()                    {}

// SyncAll has no objects to enqueue. After a restart of the hook, earlier failures are void.
func (a admissionWorker) SyncAll(cause queue.CauseKind) {
	if cause == queue.HookChanged {
		a.webhooks.ClearFailures(a.program)
	}
}

func (a admissionWorker) Health() controller.Health { return a.webhooks.Health(a.program) }

// reviewRecord returns the record of a review as a run with one call.
func reviewRecord(o admission.ReviewRecord) record.Run {
	run := record.Run{
		Controller: o.Program, StartTime: o.Started, Duration: o.Duration, Outcome: record.Outcome(o.Result), Err: o.Err, Trigger: "a review",
		Steps: []record.Step{{Duration: o.Duration, Call: &record.Call{Name: o.Webhook, Err: o.Err}}},
	}
	review := o.Request
	if review == nil {
		return run
	}
	call := run.Steps[0].Call
	call.Request.Review, call.Response.Review = review, o.Response
	kind := schema.FromAPIVersionAndKind(review.APIVersion, review.Kind)
	run.Resource = object.Resource{
		Group: kind.Group, Version: kind.Version, Plural: review.Resource, Kind: kind.Kind, Namespaced: review.Namespace != "",
	}
	run.Key = queue.Key{Namespace: review.Namespace, Name: review.Name}
	run.Trigger = strings.ToLower(string(review.Operation)) + " by " + review.User.Name
	if review.DryRun {
		run.Trigger += ", as a dry run"
	}
	if !o.Authenticated {
		run.Trigger += ", as reported by the caller"
	}
	return run
}
