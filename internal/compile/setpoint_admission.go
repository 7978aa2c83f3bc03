package compile

import (
	"cmp"
	"context"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (k Kind) compileAdmission(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	var controller api.AdmissionController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	if len(spec.Webhooks) == 0 {
		return nil, invalid("spec.webhooks: required")
	}
	webhooks, configs, err := readList("spec.webhooks", spec.Webhooks, spec.EndpointConfigs,
		func(field string, declared *api.AdmissionWebhook) (admission.Webhook, *hookConfig, error) {
			return readReview(ctx, env, field, declared)
		})
	if err != nil {
		return nil, err
	}
	p := &admission.Program{
		Name:          k.Name + "/" + o.Name(),
		Object:        snapshot(o, nil),
		Configuration: shorten("setpoint-"+o.Name(), maxConfigurationName),
		Owner: &metav1.OwnerReference{
			APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: types.UID(o.UID()),
			Controller: new(true),
		},
	}
	account := env.AccountOf(spec.Identity)
	if account.PerNamespace() {
		return nil, invalid("spec.serviceAccountNamespace: required: webhook configurations are cluster-scoped")
	}
	c := &connection{name: p.Name, object: k.Resource.Ref("", o.Name()), account: account, reviews: true, env: env}
	p.User = account.UserFor("")
	opened, err := c.openAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	for i := range webhooks {
		webhooks[i].Admitter = opened[i]
	}
	p.Webhooks = webhooks
	compiled := c.compiled(o, configs, spec.Suspend)
	compiled.Admission = p
	return compiled, nil
}

// maxConfigurationName is the maximum length of an object name.
const maxConfigurationName = 253

func readReview(ctx context.Context, env Environment, field string, declared *api.AdmissionWebhook) (admission.Webhook, *hookConfig,
	error) {
	w := admission.Webhook{
		Name:       declared.Name,
		Mutates:    declared.Type == api.AdmissionMutate,
		Objects:    declared.ObjectSelector,
		Namespaces: declared.NamespaceSelector,
		Timeout:    time.Duration(cmp.Or(declared.TimeoutSeconds, api.DefaultAdmissionTimeoutSeconds)) * time.Second,
		Reinvoke:   declared.ReinvocationPolicy == api.ReinvocationIfNeeded,
	}
	w.Ignore = declared.FailurePolicy == api.FailurePolicyIgnore || declared.FailurePolicy == "" && w.Mutates
	if declared.SystemNamespaces != api.SystemNamespacesInclude {
		w.ExemptNamespaces = env.ExemptNamespaces()
	}
	for _, condition := range declared.MatchConditions {
		w.Conditions = append(w.Conditions, admissionv1.MatchCondition{Name: condition.Name, Expression: condition.Expression})
	}
	if err := checkSelectors(field, declared); err != nil {
		return w, nil, err
	}
	namespaced := false
	for i, rule := range declared.Rules {
		read, resource, err := readRule(ctx, env, index(field+".rules", i), rule)
		if err != nil {
			return w, nil, err
		}
		w.Rules, namespaced = append(w.Rules, read), namespaced || resource.Namespaced
	}
	if err := limitReview(env, field, &w, namespaced); err != nil {
		return w, nil, err
	}
	config, err := readUncached(callOf{field, declared.Name, "review"}, &declared.HookCall)
	if err != nil {
		return w, nil, err
	}
	config.timeout = min(config.timeout, w.Timeout)
	return w, config, nil
}

// limitReview limits a webhook of namespaced kinds to the namespaces of the environment. The API
// server ignores the selector for cluster-scoped kinds, except for Namespaces themselves.
func limitReview(env Environment, field string, w *admission.Webhook, namespaced bool) error {
	if len(env.Namespaces) == 0 || !namespaced {
		return nil
	}
	if OnlyExempt(env.Namespaces, w.ExemptNamespaces) {
		return invalid("%s.systemNamespaces: Setpoint runs with --namespaces=%s, which are system namespaces; set it to %s",
			field, strings.Join(env.Namespaces, ","), api.SystemNamespacesInclude)
	}
	w.Namespaces = InNamespaces(w.Namespaces, env.Namespaces)
	return nil
}

func checkSelectors(field string, declared *api.AdmissionWebhook) error {
	if _, err := metav1.LabelSelectorAsSelector(declared.ObjectSelector); err != nil {
		return invalid("%s.objectSelector: %w", field, err)
	}
	if _, err := metav1.LabelSelectorAsSelector(declared.NamespaceSelector); err != nil {
		return invalid("%s.namespaceSelector: %w", field, err)
	}
	return nil
}

func readRule(ctx context.Context, env Environment, field string, declared api.AdmissionRule) (admission.Rule, object.Resource, error) {
	resource, err := resolveResource(ctx, env, resourceRef{field, declared.APIVersion, declared.Resource})
	if err != nil {
		return admission.Rule{}, resource, err
	}
	rule := admission.Rule{Group: resource.Group, Version: resource.Version}
	subresources := declared.Subresources
	if len(subresources) == 0 {
		subresources = []string{""}
	}
	for _, sub := range subresources {
		name := resource.Plural
		if sub != "" {
			name += "/" + sub
		}
		rule.Resources = append(rule.Resources, name)
	}
	for _, operation := range declared.Operations {
		rule.Operations = append(rule.Operations, hook.Operation(operation))
	}
	return rule, resource, nil
}
