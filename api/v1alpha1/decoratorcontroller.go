package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DecoratorController adds to objects of any kinds, which may have controllers of their own: attachments,
// labels, annotations, a status. A hook is shown an object with the attachments it has and answers with
// those it should have; Setpoint makes it so.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=decoratorcontrollers,scope=Cluster,shortName=spdc,categories=setpoint
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

	// spec says what to watch, what to attach, and whom to ask.
	// +required
	Spec DecoratorControllerSpec `json:"spec"`

	// status says how the controller is doing. The parents it speaks of are the decorated objects, the
	// children their attachments.
	// +optional
	Status ControllerStatus `json:"status,omitzero"`
}

// DecoratorControllerList is a list of DecoratorControllers.
//
// +kubebuilder:object:root=true
type DecoratorControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DecoratorController `json:"items"`
}

// DecoratorControllerSpec has the shape of the spec of metacontroller.k8s.io, so that a manifest
// migrates by its apiVersion; where a default or a name differs, the field says so.
type DecoratorControllerSpec struct {
	// resources say which objects are decorated: those that match at least one of these rules. Two rules
	// may name the same kind. (In Metacontroller the last one wins; here both count, in either group.)
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Resources []DecoratedResource `json:"resources"`

	// attachments lists the kinds of objects the hook may answer with. Only these are shown to the hook,
	// updated and deleted.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=128
	Attachments []Attachment `json:"attachments,omitempty"`

	// hooks says where the logic of this controller is.
	// +required
	Hooks Hooks `json:"hooks"`

	// endpointConfigs hold connection settings by host, for webhooks that have none of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds asks the hook about every object at least this often, for logic that depends
	// on something other than the objects it is shown. 0 means never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ResyncPeriodSeconds int32 `json:"resyncPeriodSeconds,omitempty"`

	// deletionGuard holds deletions that nothing but a response of the hook explains, when they are too many
	// at once. It is on by default.
	// +optional
	// +kubebuilder:default={}
	DeletionGuard DeletionGuard `json:"deletionGuard,omitzero"`

	// fullObjects shows the hooks metadata.managedFields of all objects, and of the controller the status
	// that it had when Setpoint read its spec. Both are left out by default: the first takes much memory,
	// and few hooks need either. (In metacontroller.k8s.io the annotation setpoint.dev/full-objects says so.)
	// +optional
	FullObjects bool `json:"fullObjects,omitempty"`

	// suspend leaves all objects and attachments as they are, until it is taken back. No hook is asked.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
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

	// syncOnStatusChange also asks the hook when nothing but the status of an object has changed. By
	// default only changes of the spec, the labels or the annotations, and deletion, ask the hook. It
	// holds for all objects of the kind if one rule for that kind says so. (In metacontroller.k8s.io this
	// is ignoreStatusChanges, with the opposite meaning.)
	// +optional
	SyncOnStatusChange bool `json:"syncOnStatusChange,omitempty"`
}

// AnnotationSelector is a label selector for annotations.
type AnnotationSelector struct {
	// matchAnnotations are annotations an object must have, with these values.
	// +optional
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`

	// matchExpressions are requirements an object must meet, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// Attachment names one kind of attachments and says how they change.
type Attachment struct {
	ResourceRule `json:",inline"`

	// updateStrategy says what happens to an attachment that differs from what the hook wants.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy AttachmentUpdateStrategy `json:"updateStrategy,omitzero"`

	// apply is how what the hook wants is laid over an attachment that exists. Default ServerSide.
	// +optional
	// +kubebuilder:default=ServerSide
	Apply ApplyStrategy `json:"apply,omitempty"`
}

// AttachmentUpdateStrategy says what happens to an attachment that differs from what the hook wants.
type AttachmentUpdateStrategy struct {
	// method is how such an attachment is brought in line. Default InPlace. (In metacontroller.k8s.io the
	// default is OnDelete, with which a changed answer of the hook silently has no effect.)
	// +optional
	// +kubebuilder:default=InPlace
	Method AttachmentUpdateMethod `json:"method,omitempty"`
}

// AttachmentUpdateMethod is one of the update methods that are not rolling: attachments have no
// revisions to roll out.
//
// +kubebuilder:validation:Enum=OnDelete;Recreate;InPlace
type AttachmentUpdateMethod string
