package manager

import (
	"context"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// reviewObserver records reviews.
type reviewObserver struct{ *Manager }

// Reviewed counts a review, and adds it to the history and the events of its controller.
func (m reviewObserver) Reviewed(o admission.ReviewRecord, key queue.Key, exists bool) {
	m.Metrics.ObserveReview(o)
	if !exists || key == codeReviewKey {
		return
	}
	if !m.Unrecorded {
		run := reviewRecord(o)
		m.Recorders.Ran(&run)
		m.History.AddCall(o.Program, o.Webhook, run.Outcome, o.Duration)
		m.History.Add(run)
	}
	if o.Err != nil {
		m.controllers.RecordEvent(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: failure.OneLine(o.Err)})
	}
}

// EventAt records an event on an object that a review names.
func (m reviewObserver) EventAt(user string, event hook.ObjectEvent) { m.Events.EventAtAs(user, event) }

// reviewRecord returns the record of a review as a run with one call.
func reviewRecord(o admission.ReviewRecord) record.Run {
	call := &record.Call{Name: o.Webhook, Err: o.Err, Unverified: !o.Authenticated, Received: record.Response{ReviewPatch: o.Patch}}
	run := record.Run{
		Controller: o.Program, Began: o.Started, Took: o.Duration, TraceID: o.TraceID,
		Outcome: record.Outcome(o.Result), Err: o.Err, Trigger: "a review",
		Steps: []record.Step{{Took: o.Duration, Call: call}},
	}
	if o.Result == admission.Errored {
		run.Outcome = record.Failed
	}
	review := o.Request
	if review == nil {
		return run
	}
	call.Sent.Review, call.Received.Review = review, o.Response
	run.Object.Kind = object.Kind{Group: o.Resource.Group, Version: o.Resource.Version, Plural: o.Resource.Resource, Kind: review.Kind}
	run.Object.Name = failure.Truncate(reviewedName(review), maxName)
	if o.Resource.GroupResource() != namespaces { // The API server names a Namespace as its own.
		run.Object.Namespace = review.Namespace
	}
	run.Object.Namespaced = run.Object.Namespace != ""
	run.Trigger = strings.ToLower(string(review.Operation)) + " by " + failure.Truncate(review.User.Name, maxName)
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

// reasonProcessGone: Setpoint removed a webhook configuration because the process that registered it is gone. What
// to do: nothing, or start the process again: it registers its webhooks.
const reasonProcessGone = "ProcessGone"

// removeStaleWebhooks removes webhook configurations of processes that are gone, if Setpoint has the permissions.
func (m *Manager) removeStaleWebhooks(ctx context.Context) {
	if !canRemoveStaleWebhooks(ctx, m.Client, m.Log) {
		return
	}
	register.NewCollector(register.CollectorOptions{
		Store: m.Store, Client: m.Client, OwnLease: m.processLease.Held, Unused: m.Webhooks.Unused, Log: m.Log,
		OnRemoved: func(o *object.Object, lease types.NamespacedName) {
			m.Events.EventAt(hook.ObjectEvent{
				APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: o.UID(),
				Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonProcessGone, Message: register.AbandonedMessage(o, lease)},
			})
		},
	}).Run(ctx)
}

// canRemoveStaleWebhooks reviews access, and retries while the API server is unreachable.
func canRemoveStaleWebhooks(ctx context.Context, client rest.Interface, log *slog.Logger) (allowed bool) {
	err := wait.PollUntilContextCancel(ctx, accessRetryInterval, true, func(ctx context.Context) (bool, error) {
		missing, err := rbac.Missing(ctx, client, rbac.ForWebhooks(register.CollectorPermissions()))
		if err != nil {
			log.Debug("access to webhook configurations not reviewed; retrying", "error", failure.OneLine(err))
			return false, nil
		}
		allowed = len(missing) == 0
		return true, nil
	})
	return err == nil && allowed
}
