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
		Name: codeReviewKey.Name, Configuration: "controllers." + reach.RegistrationGroup() + "." + setpoint.GroupVersion.Group, Unprobed: true,
		Webhooks: []admission.Webhook{review},
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
