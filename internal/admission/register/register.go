// Package register tells the API server of the webhooks: it keeps the webhook
// configurations of all programs in sync, probes whether the API server reaches the
// server, and removes the configurations of processes that are gone. The manager runs a
// Registrar while it leads, and a Collector.
package register

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
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

// ServerName returns the name that the API server verifies.
func (a Address) ServerName() string {
	if base, err := url.Parse(a.URL); a.URL != "" && err == nil {
		return base.Hostname()
	}
	return a.Names()[0]
}

func (a Address) String() string {
	if a.URL != "" {
		return a.URL
	}
	return "Service " + a.Service.Namespace + "/" + a.Service.Name
}

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
	PathKey func() admission.PathKey
	// Lease returns the Lease that the process renews; nil, or the zero name, means none.
	// It requires Address.URL, which no other process serves.
	Lease func() types.NamespacedName
}

// registeredPath adds the token to a path.
func (r Registration) registeredPath(plain string) string {
	if r.PathKey == nil {
		return plain
	}
	return r.PathKey().AddToken(plain)
}

// configurations returns the configurations of a program with all defaults set, the
// mutating one first. One of them includes the probe.
func (r Registration) configurations(p *admission.Program, bundle []byte) []*configuration {
	var mutating, validating []admissionv1.MutatingWebhook
	for i := range p.Webhooks {
		if w := &p.Webhooks[i]; w.Mutates {
			mutating = append(mutating, r.webhook(p, w, bundle))
		} else {
			validating = append(validating, r.webhook(p, w, bundle))
		}
	}
	switch {
	case p.Unprobed:
	case len(validating) > 0:
		validating = append(validating, r.probeWebhook(p, false, bundle))
	case len(mutating) > 0:
		mutating = append(mutating, r.probeWebhook(p, true, bundle))
	}
	var all []*configuration
	for _, one := range []struct {
		resource object.Resource
		webhooks []admissionv1.MutatingWebhook
	}{{mutatingResource, mutating}, {validatingResource, validating}} {
		if len(one.webhooks) > 0 {
			all = append(all, &configuration{
				TypeMeta:   metav1.TypeMeta{APIVersion: one.resource.APIVersion(), Kind: one.resource.Kind},
				ObjectMeta: r.objectMeta(p), Webhooks: one.webhooks,
			})
		}
	}
	return all
}

func (r Registration) objectMeta(p *admission.Program) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:        p.Configuration,
		Labels:      map[string]string{admission.ManagedByLabel: admission.ManagerName, groupLabel: r.Group},
		Annotations: map[string]string{programAnnotation: p.Name},
	}
	if r.Lease != nil && r.Address.URL != "" {
		if lease := r.Lease(); lease != (types.NamespacedName{}) {
			meta.Annotations[leaseAnnotation] = lease.String()
		}
	}
	if p.Owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*p.Owner}
	}
	return meta
}

func (r Registration) webhook(p *admission.Program, w *admission.Webhook, bundle []byte) admissionv1.MutatingWebhook {
	q := newWebhook(fullName(w.Name, p), w.Mutates, r.Address.clientConfig(r.registeredPath(p.AdmitPath(w.Name)), bundle), w.Timeout)
	if w.Ignore {
		q.FailurePolicy = new(admissionv1.Ignore)
	}
	if w.Mutates && w.Reinvoke {
		q.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
	}
	q.Rules = lists.Map(w.Rules, func(rule admission.Rule) admissionv1.RuleWithOperations { return ruleOf(rule, admissionv1.AllScopes) })
	q.NamespaceSelector = namespacesOf(w)
	q.MatchConditions = slices.Concat(w.Conditions, r.exemptConditions(w))
	if w.Objects != nil {
		q.ObjectSelector = w.Objects.DeepCopy()
	}
	return q
}

// newWebhook returns what all webhooks have in common.
func newWebhook(name string, mutates bool, client admissionv1.WebhookClientConfig, timeout time.Duration) admissionv1.MutatingWebhook {
	seconds := int32(min(max(cmp.Or(timeout, admission.DefaultTimeout), time.Second), 30*time.Second) / time.Second)
	w := admissionv1.MutatingWebhook{
		Name: name, ClientConfig: client, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		FailurePolicy: new(admissionv1.Fail), MatchPolicy: new(admissionv1.Equivalent), SideEffects: new(admissionv1.SideEffectClassNone),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
	}
	if mutates {
		w.ReinvocationPolicy = new(admissionv1.NeverReinvocationPolicy)
	}
	return w
}

// webhookDomain ends the names of webhooks, which must have three parts.
const webhookDomain = ".setpoint.dev"

// fullName is the name of a webhook in messages of the API server.
func fullName(webhook string, p *admission.Program) string {
	name := webhook + "." + strings.TrimSuffix(p.Configuration, webhookDomain) + webhookDomain
	if len(name) > 253 {
		name = webhook + "." + admission.Digest(p.Configuration) + webhookDomain
	}
	return name
}

func ruleOf(rule admission.Rule, scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Rule: admissionv1.Rule{
			APIGroups: []string{rule.Group}, APIVersions: []string{rule.Version}, Resources: rule.Resources, Scope: &scope,
		},
		Operations: lists.Map(rule.Operations, func(o hook.Operation) admissionv1.OperationType { return admissionv1.OperationType(o) }),
	}
}

// namespacesOf returns the namespace selector of a webhook without the exempt namespaces.
func namespacesOf(w *admission.Webhook) *metav1.LabelSelector {
	selector := cmp.Or(w.Namespaces, &metav1.LabelSelector{}).DeepCopy()
	if len(w.ExemptNamespaces) > 0 {
		exempt := slices.Clone(w.ExemptNamespaces)
		slices.Sort(exempt)
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Compact(exempt),
		})
	}
	return selector
}

// owns reports that a Setpoint of the group made a configuration, even if it lost its
// label.
func (r Registration) owns(o *object.Object) bool {
	group, labelled := o.Labels().Lookup(groupLabel)
	if labelled {
		return group == r.Group
	}
	return o.Field("metadata", "annotations", programAnnotation) != nil
}
