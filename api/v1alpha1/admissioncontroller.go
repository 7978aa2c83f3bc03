package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdmissionController validates and mutates objects before the API server stores them. A hook receives a
// change and allows it, denies it, or changes the object. Setpoint serves the admission webhooks, manages
// their certificates, and registers the webhook configurations.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=admissioncontrollers,scope=Cluster,shortName=spac,categories=setpoint
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Last Error",type=string,priority=1,JSONPath=`.status.lastError.message`
type AdmissionController struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares which webhooks review which changes.
	// +required
	Spec AdmissionControllerSpec `json:"spec"`

	// status is the observed state of the controller. It has no parents and no children.
	// +optional
	Status ControllerStatus `json:"status,omitzero"`
}

// AdmissionControllerList is a list of AdmissionControllers.
//
// +kubebuilder:object:root=true
type AdmissionControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AdmissionController `json:"items"`
}

// AdmissionControllerSpec declares which webhooks review which changes.
type AdmissionControllerSpec struct {
	// webhooks review the changes that match their rules: first the mutating webhooks in this order, one
	// after the other, then all validating webhooks at once.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Webhooks []AdmissionWebhook `json:"webhooks"`

	// endpointConfigs hold connection settings by host, for webhooks without settings of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// suspend removes the webhook configurations until it is false again: the API server allows every
	// change without a review.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	Identity `json:",inline"`
}

// AdmissionWebhook reviews the changes that match its rules.
//
// +kubebuilder:validation:XValidation:rule="!has(self.reinvocationPolicy) || self.reinvocationPolicy == 'Never' || self.type == 'Mutate'",message="reinvocationPolicy requires type Mutate"
// +kubebuilder:validation:XValidation:rule="self.type != 'Mutate' || self.rules.all(r, !('DELETE' in r.operations) && !('CONNECT' in r.operations))",message="type Mutate does not support DELETE and CONNECT, which store no object: use type Validate"
// +kubebuilder:validation:XValidation:rule="!has(self.webhook) || !has(self.webhook.etag) || !has(self.webhook.etag.enabled) || !self.webhook.etag.enabled",message="admission webhooks do not support etag: a response belongs to one change"
type AdmissionWebhook struct {
	// name identifies the webhook in metrics, in messages to users, and in requests to the hook.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and dashes, such as image-tags"
	Name string `json:"name"`

	// type is Validate, which allows or denies, or Mutate, which may also change the object.
	// +required
	Type AdmissionType `json:"type"`

	// rules select the changes to review. A change must match one of them.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []AdmissionRule `json:"rules"`

	// objectSelector selects objects whose old or new labels match. Users who may set labels can bypass it:
	// use it to opt in, not to enforce a rule.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// namespaceSelector selects objects by the labels of their namespace. Every namespace has the label
	// kubernetes.io/metadata.name.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// systemNamespaces includes or excludes objects in kube-system, in kube-node-lease and in the namespace
	// of Setpoint. Default Exclude, so that a hook that is down does not block its own repair.
	// +optional
	// +kubebuilder:default=Exclude
	SystemNamespaces SystemNamespaces `json:"systemNamespaces,omitempty"`

	// matchConditions are CEL expressions over object, oldObject, request and authorizer, as in the webhook
	// configurations of Kubernetes. All of them must be true for a change to be reviewed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`

	// failurePolicy allows or denies a change without a response: the hook fails, returns an invalid
	// response or times out, or Setpoint is unreachable. Default Fail for Validate, so that an outage does
	// not disable a rule, and Ignore for Mutate, so that an outage does not stop the cluster.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// timeoutSeconds is how long a review may take. A shorter timeout of the hook applies first. Default 5.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// reinvocationPolicy IfNeeded calls a webhook of type Mutate again when a later webhook changed the
	// object. The webhook must be idempotent. Default Never.
	// +optional
	// +kubebuilder:default=Never
	ReinvocationPolicy ReinvocationPolicy `json:"reinvocationPolicy,omitempty"`

	// HookCall is the hook. The shorter of its timeout and timeoutSeconds applies.
	HookCall `json:",inline"`
}

// AdmissionType is what the response of an admission webhook may do.
//
// +kubebuilder:validation:Enum=Validate;Mutate
type AdmissionType string

// The types of admission webhooks.
const (
	AdmissionValidate AdmissionType = "Validate"
	AdmissionMutate   AdmissionType = "Mutate"
)

// AdmissionRule selects operations on one resource.
//
// +kubebuilder:validation:XValidation:rule="!self.apiVersion.startsWith('setpoint.dev/') && !self.apiVersion.startsWith('metacontroller.k8s.io/') && !self.apiVersion.startsWith('admissionregistration.k8s.io/')",message="webhooks cannot review objects of this group: users need them to repair a hook that is down"
type AdmissionRule struct {
	ResourceRule `json:",inline"`

	// subresources are those to review, such as status, scale or eviction, "*" for all of them, and "" for the
	// object itself. Default [""].
	// +optional
	// +listType=set
	// +kubebuilder:default={""}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([a-z0-9]*|[*])$')",message="must be the name of a subresource, such as status, or * for all"
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || self.all(s, s in ['', '*'])",message="* is all subresources: name no others beside it"
	Subresources []string `json:"subresources,omitempty"`

	// operations are those to review.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Operations []AdmissionOperation `json:"operations"`
}

// AdmissionOperation is an operation on an object.
//
// +kubebuilder:validation:Enum=CREATE;UPDATE;DELETE;CONNECT
type AdmissionOperation string

// SystemNamespaces includes or excludes the namespaces that the cluster and Setpoint need to work.
//
// +kubebuilder:validation:Enum=Exclude;Include
type SystemNamespaces string

// The values of SystemNamespaces.
const (
	SystemNamespacesExclude SystemNamespaces = "Exclude"
	SystemNamespacesInclude SystemNamespaces = "Include"
)

// FailurePolicy decides on a change without a response.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

// The failure policies.
const (
	FailurePolicyFail   FailurePolicy = "Fail"
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// ReinvocationPolicy decides whether a webhook is called again after other webhooks changed the object.
//
// +kubebuilder:validation:Enum=Never;IfNeeded
type ReinvocationPolicy string

// The reinvocation policies.
const (
	ReinvocationNever    ReinvocationPolicy = "Never"
	ReinvocationIfNeeded ReinvocationPolicy = "IfNeeded"
)

// MatchCondition is a CEL expression that a change must match.
type MatchCondition struct {
	// name identifies the condition in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// expression is CEL, and true for the changes to review.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// DefaultAdmissionTimeoutSeconds is the default of AdmissionWebhook.TimeoutSeconds.
const DefaultAdmissionTimeoutSeconds = 5
