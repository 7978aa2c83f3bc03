package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// DecoratorController adds to objects of any kinds, which may have controllers of their own: attachments,
// labels, annotations, a status. A hook receives an object and its attachments and returns the
// desired ones; Setpoint applies them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, request not yet submitted"
// +kubebuilder:resource:path=decoratorcontrollers,scope=Cluster,shortName=dec;decorators
// +kubebuilder:printcolumn:name="Resources",type=string,JSONPath=`.spec.resources[*].resource`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.parents`
// +kubebuilder:printcolumn:name="Attachments",type=integer,JSONPath=`.status.children`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.parentsInError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Last Error",type=string,priority=1,JSONPath=`.status.lastError.message`
type DecoratorController struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec configures the objects to decorate, the attachments and the hooks.
	// +required
	Spec DecoratorControllerSpec `json:"spec"`

	// status says how the controller is doing. The parents it speaks of are the decorated objects, the
	// children their attachments.
	// +optional
	Status setpoint.ControllerStatus `json:"status,omitzero"`
}

// DecoratorControllerList is a list of DecoratorControllers.
//
// +kubebuilder:object:root=true
type DecoratorControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DecoratorController `json:"items"`
}

// DecoratorControllerSpec configures the objects to decorate, the attachments and the hooks.
type DecoratorControllerSpec struct {
	// resources say which objects are decorated: those that match at least one of these rules. Two rules
	// may name the same kind, and both count.
	// +required
	Resources []DecoratedResource `json:"resources"`

	// attachments lists the kinds that the hook may return. Setpoint sends only these to the hook, and
	// updates and deletes only these.
	// +optional
	Attachments []Attachment `json:"attachments,omitempty"`

	// hooks says where the logic of this controller is.
	// +optional
	Hooks *DecoratorHooks `json:"hooks,omitempty"`

	// endpointConfigs holds connection settings by host, for webhooks that have none of their own.
	// +optional
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds asks the hook about every object at least this often. Absent means never;
	// less than 1 means 1.
	// +optional
	ResyncPeriodSeconds *int32 `json:"resyncPeriodSeconds,omitempty"`
}

// DecoratedResource names a kind of objects, and which of them. An object must match both selectors.
type DecoratedResource struct {
	ResourceRule `json:",inline"`

	// labelSelector leaves out objects whose labels do not match. Without it all labels do.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// annotationSelector leaves out objects whose annotations do not match. Without it all do.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// ignoreStatusChanges asks the hook about a changed object only if more than its status has changed.
	// Absent means false, and if one rule for a kind means that, it holds for all objects of the kind.
	// +optional
	IgnoreStatusChanges *bool `json:"ignoreStatusChanges,omitempty"`
}

// AnnotationSelector is a label selector for annotations.
type AnnotationSelector struct {
	// matchAnnotations are annotations an object must have, with these values.
	// +optional
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`

	// matchExpressions are requirements an object must meet, all of them.
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// Attachment names one kind of attachments and says how they change.
type Attachment struct {
	ResourceRule `json:",inline"`

	// updateStrategy says what happens to an attachment that differs from what the hook wants.
	// +optional
	UpdateStrategy *AttachmentUpdateStrategy `json:"updateStrategy,omitempty"`
}

// AttachmentUpdateStrategy says what happens to an attachment that differs from what the hook wants.
type AttachmentUpdateStrategy struct {
	// method is how such an attachment is brought in line. Absent means OnDelete. The Rolling methods do
	// what the others of their name do: attachments have no revisions to roll out.
	// +optional
	Method UpdateMethod `json:"method,omitempty"`
}

// DecoratorHooks are the hooks of a DecoratorController.
type DecoratorHooks struct {
	// customize selects the related objects that the other hooks receive.
	// +optional
	Customize *Hook `json:"customize,omitempty"`

	// sync returns the desired attachments, labels, annotations and status of an object.
	// +optional
	Sync *Hook `json:"sync,omitempty"`

	// finalize is called instead of sync when an object is being deleted or no longer matches the
	// controller's selectors.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`
}
