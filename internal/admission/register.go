package admission

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Address is how the API server reaches the Server.
type Address struct {
	// Service is used in a cluster.
	Service ServiceRef
	// URL is a base URL such as "https://127.0.0.1:9443". It takes precedence over
	// Service.
	URL string
}

// ServiceRef is a port of a Service, by default 443.
type ServiceRef struct {
	Namespace, Name string
	Port            int32
}

// Names returns the names for the serving certificate.
func (a Address) Names() []string {
	if a.URL == "" {
		host := a.Service.Name + "." + a.Service.Namespace
		return []string{host + ".svc", host + ".svc.cluster.local", host}
	}
	all := []string{"localhost", "127.0.0.1", "::1"}
	if base, err := url.Parse(a.URL); err == nil && base.Hostname() != "" && !slices.Contains(all, base.Hostname()) {
		all = append(all, base.Hostname())
	}
	return all
}

func (a Address) String() string {
	if a.URL != "" {
		return a.URL
	}
	return "Service " + a.Service.Namespace + "/" + a.Service.Name
}

// clientConfig returns the client configuration of a path.
func (a Address) clientConfig(path string, bundle []byte) admissionv1.WebhookClientConfig {
	if a.URL != "" {
		at := strings.TrimSuffix(a.URL, "/") + path
		return admissionv1.WebhookClientConfig{URL: &at, CABundle: bundle}
	}
	port := cmp.Or(a.Service.Port, 443)
	return admissionv1.WebhookClientConfig{CABundle: bundle, Service: &admissionv1.ServiceReference{
		Namespace: a.Service.Namespace, Name: a.Service.Name, Port: &port, Path: &path,
	}}
}

// Registration is what the configurations of all programs have in common.
type Registration struct {
	Address Address
	// Namespace is Setpoint's own, for probes.
	Namespace string
	// Group is a label value that distinguishes the configurations of one Setpoint with
	// all its replicas from those of another.
	Group string
	// Exempt are objects that are never reviewed.
	Exempt ExemptObjects
	// PathKey returns the key of paths; nil means paths without tokens.
	PathKey func() PathKey
	// Lease returns the Lease that the process renews; nil, or the zero ObjectName, means
	// none. It requires Address.URL, which no other process serves.
	Lease func() ObjectName
}

// registeredPath adds the token to a path.
func (r Registration) registeredPath(plain string) string {
	if r.PathKey == nil {
		return plain
	}
	return r.PathKey().addToken(plain)
}

// Metadata that identifies configurations.
const (
	groupLabel        = "setpoint.dev/admission"
	programAnnotation = "setpoint.dev/admission-program"
)

// configurations returns the configurations of a program with all defaults set, nil
// without webhooks of the type. One of them includes the probe.
func (r Registration) configurations(p *Program, bundle []byte) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	mutating := &admissionv1.MutatingWebhookConfiguration{TypeMeta: typeMeta(mutatingKind), ObjectMeta: r.objectMeta(p)}
	validating := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: typeMeta(validatingKind), ObjectMeta: r.objectMeta(p)}
	for i := range p.Webhooks {
		w := &p.Webhooks[i]
		webhook := r.webhook(p, w, bundle)
		if w.Mutates {
			mutating.Webhooks = append(mutating.Webhooks, toMutating(webhook, w.Reinvoke))
		} else {
			validating.Webhooks = append(validating.Webhooks, webhook)
		}
	}
	switch {
	case len(validating.Webhooks) > 0:
		validating.Webhooks = append(validating.Webhooks, r.probeWebhook(p, bundle))
	case len(mutating.Webhooks) > 0:
		mutating.Webhooks = append(mutating.Webhooks, toMutating(r.probeWebhook(p, bundle), false))
	}
	if len(mutating.Webhooks) == 0 {
		mutating = nil
	}
	if len(validating.Webhooks) == 0 {
		validating = nil
	}
	return mutating, validating
}

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"
)

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

func (r Registration) objectMeta(p *Program) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:        p.Configuration,
		Labels:      map[string]string{managedByLabel: managerName, groupLabel: r.Group},
		Annotations: map[string]string{programAnnotation: p.Name},
	}
	if lease := r.ownerLease(); lease != (ObjectName{}) {
		meta.Annotations[leaseAnnotation] = lease.String()
	}
	if p.Owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*p.Owner}
	}
	return meta
}

// webhook returns a validating webhook; toMutating converts it.
func (r Registration) webhook(p *Program, w *Webhook, bundle []byte) admissionv1.ValidatingWebhook {
	policy := admissionv1.Fail
	if w.Ignore {
		policy = admissionv1.Ignore
	}
	q := newWebhook(fullName(w.Name, p), r.Address.clientConfig(r.registeredPath(p.admitPath(w.Name)), bundle), w.Timeout)
	q.FailurePolicy = &policy
	q.Rules = rulesOf(w.Rules)
	q.NamespaceSelector = namespacesOf(w)
	q.MatchConditions = append(conditionsOf(w), r.exemptConditions(w)...)
	if w.Objects != nil {
		q.ObjectSelector = w.Objects.DeepCopy()
	}
	return q
}

// newWebhook returns what all webhooks have in common.
func newWebhook(name string, client admissionv1.WebhookClientConfig, timeout time.Duration) admissionv1.ValidatingWebhook {
	policy, match, effects := admissionv1.Fail, admissionv1.Equivalent, admissionv1.SideEffectClassNone
	seconds := int32(min(max(cmp.Or(timeout, DefaultTimeout), time.Second), 30*time.Second) / time.Second)
	return admissionv1.ValidatingWebhook{
		Name: name, ClientConfig: client, FailurePolicy: &policy, MatchPolicy: &match, SideEffects: &effects,
		TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
	}
}

// toMutating converts a validating webhook to a mutating one.
func toMutating(q admissionv1.ValidatingWebhook, reinvoke bool) admissionv1.MutatingWebhook {
	again := admissionv1.NeverReinvocationPolicy
	if reinvoke {
		again = admissionv1.IfNeededReinvocationPolicy
	}
	return admissionv1.MutatingWebhook{
		Name: q.Name, ClientConfig: q.ClientConfig, Rules: q.Rules, FailurePolicy: q.FailurePolicy, MatchPolicy: q.MatchPolicy,
		NamespaceSelector: q.NamespaceSelector, ObjectSelector: q.ObjectSelector, SideEffects: q.SideEffects,
		TimeoutSeconds: q.TimeoutSeconds, AdmissionReviewVersions: q.AdmissionReviewVersions,
		MatchConditions: q.MatchConditions, ReinvocationPolicy: &again,
	}
}

// webhookDomain ends the names of webhooks, which must have three parts.
const webhookDomain = ".setpoint.dev"

// fullName is the name of a webhook in messages of the API server.
func fullName(webhook string, p *Program) string {
	name := webhook + "." + strings.TrimSuffix(p.Configuration, webhookDomain) + webhookDomain
	if len(name) > 253 {
		name = webhook + "." + digest(p.Configuration) + webhookDomain
	}
	return name
}

func rulesOf(rules []Rule) []admissionv1.RuleWithOperations {
	all := make([]admissionv1.RuleWithOperations, len(rules))
	for i, rule := range rules {
		all[i] = ruleOf(rule, admissionv1.AllScopes)
	}
	return all
}

func ruleOf(rule Rule, scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
	one := admissionv1.RuleWithOperations{Rule: admissionv1.Rule{
		APIGroups: []string{rule.Group}, APIVersions: []string{rule.Version}, Resources: rule.Resources, Scope: &scope,
	}}
	for _, operation := range rule.Operations {
		one.Operations = append(one.Operations, admissionv1.OperationType(operation))
	}
	return one
}

func conditionsOf(w *Webhook) []admissionv1.MatchCondition {
	var all []admissionv1.MatchCondition
	for _, c := range w.Conditions {
		all = append(all, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	return all
}

// namespacesOf returns the namespace selector of a webhook without the exempt namespaces.
func namespacesOf(w *Webhook) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if w.Namespaces != nil {
		selector = w.Namespaces.DeepCopy()
	}
	if len(w.ExemptNamespaces) > 0 {
		exempt := slices.Clone(w.ExemptNamespaces)
		slices.Sort(exempt)
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Compact(exempt),
		})
	}
	return selector
}
