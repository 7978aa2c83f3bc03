package manager

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/compile"
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

// codeReviewKey is the key of the webhook that reviews code among those of controllers.
var codeReviewKey = queue.Key{Name: "code." + setpoint.GroupVersion.Group} //nolint:gochecknoglobals // A constant.

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

const hasExpressions = `has(c.updateStrategy) && (has(c.updateStrategy.pause) || ` +
	`has(c.updateStrategy.statusChecks) && has(c.updateStrategy.statusChecks.expressions))`

// accessRetryInterval is the delay before another access review.
const accessRetryInterval = 5 * time.Second

// reviewCode registers the webhook that reviews the code of controller objects when they are applied, before they are
// stored: if Setpoint has the permissions, and if a webhook can select the controllers of this Setpoint. It does not review
// those of others.
func (m *Manager) reviewCode(ctx context.Context) {
	reach := m.options.reach()
	if m.options.NoCodeReviews || m.options.Expressions == nil || len(m.options.GoControllers) > 0 ||
		!reach.Reachable(m.options.Config.Host) {
		return
	}
	program, err := m.codeReview()
	if err != nil {
		m.Log.Warn("code of controllers is not reviewed when they are applied", "error", failure.OneLine(err))
		return
	}
	_ = wait.PollUntilContextCancel(ctx, accessRetryInterval, true, func(ctx context.Context) (bool, error) {
		err := m.Permissions.Check(ctx, object.Resource{}, &compile.Compiled{Admission: program})
		_, refused := errors.AsType[*compile.Refusal](err)
		switch {
		case err == nil:
			m.Webhooks.Set(codeReviewKey, program)
		case refused:
			m.Log.Debug("code of controllers is not reviewed when they are applied", "error", failure.OneLine(err))
		}
		return err == nil || refused, nil
	})
}

// codeReview returns the webhook that refuses controller objects of setpoint.dev whose code does not compile, with what
// their condition Accepted would say. Changes are allowed while Setpoint is down.
func (m *Manager) codeReview() (*admission.Program, error) {
	reach := m.options.reach()
	review := admission.Webhook{
		Name: "code", Ignore: true, Timeout: codeReviewTimeout,
		Rules: []admission.Rule{{
			Group: setpoint.GroupVersion.Group, Version: setpoint.GroupVersion.Version,
			Operations: []hook.Operation{hook.OperationCreate, hook.OperationUpdate},
		}},
		Conditions: []admissionv1.MatchCondition{{Name: "has-new-code", Expression: hasNewCode}},
		Admitter:   hook.AdmitterFunc(m.admitCode),
	}
	for _, kind := range compile.Kinds() {
		if !kind.Metacontroller() {
			review.Rules[0].Resources = append(review.Rules[0].Resources, kind.Resource.Plural)
		}
	}
	var err error
	review.Objects, err = admission.ParseSelectors(m.options.Selector)
	return &admission.Program{
		Name: codeReviewKey.Name, Configuration: "controllers." + reach.RegistrationGroup() + "." + setpoint.GroupVersion.Group,
		Unprobed: true, Webhooks: []admission.Webhook{review},
	}, err
}

// admitCode compiles the code of a controller object.
func (m *Manager) admitCode(ctx context.Context, request *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	declared, err := object.Parse(request.Object)
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
