package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdmissionController is asked before objects are stored: whether they may be, and as what. A hook is
// shown a change and answers that it is allowed, denied, or allowed in another form. Setpoint serves
// the API server, with certificates that it makes and renews, and registers what is asked.
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

	// spec says what is asked about which changes, and whom.
	// +required
	Spec AdmissionControllerSpec `json:"spec"`

	// status says how the controller is doing. It has no parents and no children.
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

// AdmissionControllerSpec says what is asked about which changes, and whom.
type AdmissionControllerSpec struct {
	// reviews are asked of each change that they are about: those that mutate in this order, one after
	// the other, then those that validate, all at once.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Reviews []AdmissionWebhook `json:"reviews"`

	// endpointConfigs hold connection settings by host, for webhooks that have none of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// suspend lets every change pass unasked, until it is taken back: the API server is not told of any
	// review.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// AdmissionWebhook is one question about some changes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.reinvocationPolicy) || self.reinvocationPolicy == 'Never' || self.type == 'Mutate'",message="reinvocationPolicy goes with type Mutate"
// +kubebuilder:validation:XValidation:rule="self.type != 'Mutate' || self.rules.all(r, !('DELETE' in r.operations) && !('CONNECT' in r.operations))",message="of what is deleted or connected to nothing is stored that could be changed: use type Validate"
// +kubebuilder:validation:XValidation:rule="!has(self.webhook.etag) || !has(self.webhook.etag.enabled) || !self.webhook.etag.enabled",message="etag is for hooks that answer what should be; a verdict on one change is none on another"
type AdmissionWebhook struct {
	// name tells the review apart, in metrics, in messages to users, and to the hook.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a name is made of small letters, digits and dashes, such as image-tags"
	Name string `json:"name"`

	// type says what the answer may do: Validate allows or denies, Mutate may also change the object.
	// +required
	Type AdmissionType `json:"type"`

	// rules say which changes are asked about. One that matches suffices.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []AdmissionRule `json:"rules"`

	// objectSelector leaves out objects of which neither the old nor the new labels match. Who may set
	// labels can get round it: it is for what one asks for, not for what is forbidden.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// namespaceSelector leaves out objects in namespaces whose labels do not match. Every namespace has
	// the label kubernetes.io/metadata.name.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// systemNamespaces says whether objects in kube-system, in kube-node-lease and in the namespace of
	// Setpoint itself are asked about too. Default Exclude: a hook that is down must not be in the way of
	// what could bring it back.
	// +optional
	// +kubebuilder:default=Exclude
	SystemNamespaces SystemNamespaces `json:"systemNamespaces,omitempty"`

	// matchConditions are CEL expressions over object, oldObject, request and authorizer, as of the API
	// server's webhooks. Changes of which one is false are not asked about.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`

	// failurePolicy says what becomes of a change when there is no verdict: the hook does not answer, or
	// nonsense, or too late, or Setpoint itself cannot be reached. Default Fail for Validate, since a rule
	// that can be got round by breaking something is none, and Ignore for Mutate, since the cluster has to
	// work when an addition cannot be made.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// timeoutSeconds is how long a verdict may take. Default 5.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// reinvocationPolicy says whether a review of type Mutate is asked once more when another webhook
	// after it has changed the object. It must then answer no change to what it has changed before.
	// Default Never.
	// +optional
	// +kubebuilder:default=Never
	ReinvocationPolicy ReinvocationPolicy `json:"reinvocationPolicy,omitempty"`

	// webhook is asked over HTTP. The shorter of its timeout and of timeoutSeconds counts.
	// +required
	Webhook *Webhook `json:"webhook,omitempty"`
}

// AdmissionType says what the answer to a review may do.
//
// +kubebuilder:validation:Enum=Validate;Mutate
type AdmissionType string

// The types of reviews.
const (
	AdmissionValidate AdmissionType = "Validate"
	AdmissionMutate   AdmissionType = "Mutate"
)

// AdmissionRule is some operations on one resource.
//
// +kubebuilder:validation:XValidation:rule="!self.apiVersion.startsWith('setpoint.dev/') && !self.apiVersion.startsWith('metacontroller.k8s.io/') && !self.apiVersion.startsWith('admissionregistration.k8s.io/')",message="objects of this group are never asked about: by changing them, a hook that is down is mended"
type AdmissionRule struct {
	ResourceRule `json:",inline"`

	// subresources are parts of the resource that are asked about, such as status, scale or eviction, and
	// "" for the objects themselves. Default is [""].
	// +optional
	// +listType=set
	// +kubebuilder:default={""}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]*$')",message="a subresource is a word such as status"
	Subresources []string `json:"subresources,omitempty"`

	// operations are what is asked about.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Operations []AdmissionOperation `json:"operations"`
}

// AdmissionOperation is what is done with an object.
//
// +kubebuilder:validation:Enum=CREATE;UPDATE;DELETE;CONNECT
type AdmissionOperation string

// SystemNamespaces says whether the namespaces without which nothing works are asked about.
//
// +kubebuilder:validation:Enum=Exclude;Include
type SystemNamespaces string

// The ways to treat system namespaces.
const (
	SystemNamespacesExclude SystemNamespaces = "Exclude"
	SystemNamespacesInclude SystemNamespaces = "Include"
)

// FailurePolicy says what becomes of a change when there is no verdict.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

// The failure policies.
const (
	FailurePolicyFail   FailurePolicy = "Fail"
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// ReinvocationPolicy says whether a review is asked again when others have changed the object.
//
// +kubebuilder:validation:Enum=Never;IfNeeded
type ReinvocationPolicy string

// The reinvocation policies.
const (
	ReinvocationNever    ReinvocationPolicy = "Never"
	ReinvocationIfNeeded ReinvocationPolicy = "IfNeeded"
)

// MatchCondition is one CEL expression by which changes are left out.
type MatchCondition struct {
	// name says what it is about, in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// expression is CEL and true for changes that are asked about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// DefaultAdmissionTimeoutSeconds is meant by an AdmissionWebhook.TimeoutSeconds of zero.
const DefaultAdmissionTimeoutSeconds = 5
