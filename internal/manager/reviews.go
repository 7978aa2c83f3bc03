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
		Tracer: m.tracer,
		Lease:  m.processLease.Held, Exempt: m.ownObjects(), Observer: reviewObserver{m},
		Started: m.controllers.started.Load, Listed: m.controllers.admissionControllersListed,
	})
}

// reviewObserver records reviews.
type reviewObserver struct{ *Manager }

// Reviewed counts a review, and adds it to the history and the events of its controller.
func (m reviewObserver) Reviewed(o admission.ReviewRecord, key queue.Key, exists bool) {
	m.metrics.ObserveReview(o)
	if !exists || key == codeReviews {
		return
	}
	if !m.recordsNoSteps() {
		run := reviewRecord(o)
		m.recorders.Ran(&run)
		m.history.AddCall(o.Program, o.Webhook, string(run.Outcome), o.Duration)
		m.history.Add(run)
	}
	if o.Err != nil {
		m.controllers.recordEvent(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: failure.OneLine(o.Err)})
	}
}

// EventAt records an event on an object that a review names.
func (m reviewObserver) EventAt(user string, event hook.ObjectEvent) { m.events.EventAtAs(user, event) }

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
func (a admissionWorker) SyncAll(cause queue.Cause) {
	if cause.Kind == queue.HookChanged {
		a.webhooks.ClearFailures(a.program)
	}
}

func (a admissionWorker) Health() controller.Health { return a.webhooks.Health(a.program) }

// reviewRecord returns the record of a review as a run with one call.
func reviewRecord(o admission.ReviewRecord) record.Run {
	call := &record.Call{Name: o.Webhook, Err: o.Err, Unverified: !o.Authenticated, Response: record.Response{ReviewPatch: o.Patch}}
	run := record.Run{
		Controller: o.Program, StartTime: o.Started, Duration: o.Duration, Outcome: record.Outcome(o.Result), Err: o.Err,
		Trigger: "a review",
		Steps:   []record.Step{{Duration: o.Duration, Call: call}},
	}
	if o.Result == admission.Errored {
		run.Outcome = record.Failed
	}
	review := o.Request
	if review == nil {
		return run
	}
	call.Request.Review, call.Response.Review = review, o.Response
	run.Resource = object.Resource{Group: o.Resource.Group, Version: o.Resource.Version, Plural: o.Resource.Resource, Kind: review.Kind}
	run.Key = queue.Key{Namespace: review.Namespace, Name: truncateName(reviewedName(review))}
	if o.Resource.GroupResource() == namespaces {
		run.Key.Namespace = "" // The API server names a Namespace as its own.
	}
	run.Resource.Namespaced = run.Key.Namespace != ""
	run.Trigger = strings.ToLower(string(review.Operation)) + " by " + truncateName(review.User.Name)
	if review.DryRun {
		run.Trigger += ", as a dry run"
	}
	if !o.Authenticated {
		run.Trigger += ", as reported by the caller"
	}
	return run
}

// namespaces is the resource of Namespaces.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// reviewedName returns the name of the object. If the API server generates it, only the object
// has the name, and only after the mutating webhooks.
func reviewedName(r *hook.ReviewRequest) string {
	if r.Name != "" || r.Operation != hook.OperationCreate || r.Subresource != "" {
		return r.Name
	}
	if o, err := object.Parse(r.Object); err == nil {
		return o.Name()
	}
	return ""
}

// maxName is the longest name that the history keeps. The name of a new object is not valid yet: a
// user who sends long ones must not displace other reviews.
const maxName = 253

func truncateName(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "…"
}
