package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
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
		Started: func() bool { return m.controllers.Started() },
		Listed:  func() bool { return m.controllers.AdmissionControllersListed() },
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
		m.controllers.RecordEvent(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: failure.OneLine(o.Err)})
	}
}

// EventAt records an event on an object that a review names.
func (m reviewObserver) EventAt(user string, event hook.ObjectEvent) { m.events.EventAtAs(user, event) }

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

// codeReviews is the key of the webhook that reviews controller objects, among those of controllers.
var codeReviews = queue.Key{Name: "code." + setpoint.GroupVersion.Group} //nolint:gochecknoglobals // A constant.

// codeReviewTimeout limits a review. It starts a process for each code.
const codeReviewTimeout = 5 * time.Second

// hasNewCode is a condition in CEL for objects whose spec has code or expressions, and changes. A controller
// that was stored without a review can still be suspended, and its metadata changed.
const hasNewCode = `(oldObject == null || object.spec != oldObject.spec) && !(has(object.spec.suspend) && object.spec.suspend) && (` +
	`has(object.spec.hooks) && object.spec.hooks.exists(name, has(object.spec.hooks[name].inline)) || ` +
	`has(object.spec.handlers) && object.spec.handlers.exists(h, has(h.inline) || has(h.when)) || ` +
	`has(object.spec.webhooks) && object.spec.webhooks.exists(w, has(w.inline)) || ` +
	`has(object.spec.childResources) && object.spec.childResources.exists(c, ` + hasExpressions + `) || ` +
	`has(object.spec.rollout) && has(object.spec.rollout.rollback) && has(object.spec.rollout.rollback.when) || ` +
	`has(object.spec.attachments) && object.spec.attachments.exists(c, ` + hasExpressions + `))`

const hasExpressions = `has(c.updateStrategy) && (has(c.updateStrategy.pause) || has(c.updateStrategy.statusChecks) && has(c.updateStrategy.statusChecks.expressions))`

// reviewCode registers a webhook that refuses controller objects of setpoint.dev whose code does not compile, with
// what their condition Accepted would say, if the API server can reach it and Setpoint has the permissions. Changes
// are allowed while Setpoint is down.
func (m *Manager) reviewCode(ctx context.Context) {
	reach := m.options.reach()
	if m.options.NoCodeReviews || m.options.Expressions == nil || len(m.options.GoControllers) > 0 ||
		!reach.Reachable(m.options.Config.Host) {
		return
	}
	program := m.codeReviewProgram(reach.RegistrationGroup())
	_ = wait.PollUntilContextCancel(ctx, accessRetryInterval, true, func(ctx context.Context) (bool, error) {
		err := m.permissions.Check(ctx, object.Resource{}, &compile.Compiled{Admission: program})
		_, refused := errors.AsType[*compile.Refusal](err)
		switch {
		case err == nil:
			m.webhooks.Set(codeReviews, program)
		case refused:
			m.log.Debug("code of controllers is not reviewed when they are applied", "error", failure.OneLine(err))
		}
		return err == nil || refused, nil
	})
}

func (m *Manager) codeReviewProgram(group string) *admission.Program {
	review := admission.Webhook{
		Name: "code", Ignore: true, Timeout: codeReviewTimeout,
		Rules: []admission.Rule{{
			Group: setpoint.GroupVersion.Group, Version: setpoint.GroupVersion.Version,
			Operations: []hook.Operation{hook.OperationCreate, hook.OperationUpdate},
		}},
		Conditions: []admissionv1.MatchCondition{{Name: "has-new-code", Expression: hasNewCode}},
		Admitter:   hook.AdmitterFunc(m.admitController),
	}
	for _, kind := range compile.Kinds() {
		if !kind.Metacontroller() {
			review.Rules[0].Resources = append(review.Rules[0].Resources, kind.Resource.Plural)
		}
	}
	// Other Setpoints run the controllers that the selector does not select.
	if m.options.Selector != "" {
		review.Objects, _ = metav1.ParseToLabelSelector(m.options.Selector) // The options are checked.
	}
	return &admission.Program{
		Name: codeReviews.Name, Configuration: "controllers." + group + "." + setpoint.GroupVersion.Group, Unprobed: true,
		Webhooks: []admission.Webhook{review},
	}
}

// admitController compiles the code of a controller object.
func (m *Manager) admitController(ctx context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	declared, err := object.Parse(r.Object)
	if err != nil {
		return nil, err
	}
	kind, known := compile.KindOf(declared)
	if !known {
		return &hook.ReviewResponse{}, nil
	}
	refusal := kind.CheckCode(ctx, declared, m.compileEnvironment())
	if refusal == nil {
		return &hook.ReviewResponse{}, nil
	}
	return &hook.ReviewResponse{Denial: &hook.Denial{
		Message: refusal.Error(), Reason: string(metav1.StatusReasonInvalid), Code: http.StatusUnprocessableEntity,
	}}, nil
}

// reasonProcessGone: Setpoint removed a webhook configuration because the process that registered
// it is gone.
const reasonProcessGone = "ProcessGone"

// removeStaleWebhooks removes webhook configurations of processes that are gone, if Setpoint
// has the permissions.
func (m *Manager) removeStaleWebhooks(ctx context.Context) {
	if !m.canRemoveStaleWebhooks(ctx) {
		return
	}
	register.NewCollector(register.CollectorOptions{
		Store: m.store, Client: m.client, OwnLease: m.processLease.Held, Unused: m.webhooks.Unused, Log: m.log,
		OnRemoved: m.recordStaleWebhook,
	}).Run(ctx)
}

// accessRetryInterval is the delay before another access review.
const accessRetryInterval = 5 * time.Second

// canRemoveStaleWebhooks reviews access, and retries while the API server is unreachable.
func (m *Manager) canRemoveStaleWebhooks(ctx context.Context) (allowed bool) {
	err := wait.PollUntilContextCancel(ctx, accessRetryInterval, true, func(ctx context.Context) (bool, error) {
		missing, err := rbac.Missing(ctx, m.client, rbac.ForWebhooks(register.CollectorPermissions()))
		if err != nil {
			m.log.Debug("access to webhook configurations not reviewed; retrying", "error", failure.OneLine(err))
			return false, nil
		}
		allowed = len(missing) == 0
		return true, nil
	})
	return err == nil && allowed
}

func (m *Manager) recordStaleWebhook(o *object.Object, lease types.NamespacedName) {
	m.events.EventAt(hook.ObjectEvent{
		APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: o.UID(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonProcessGone, Message: register.AbandonedMessage(o, lease)},
	})
}
