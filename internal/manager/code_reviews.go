package manager

import (
	"context"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

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
		err := m.checkAccess(ctx, object.Resource{}, &compile.Compiled{Admission: program})
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
