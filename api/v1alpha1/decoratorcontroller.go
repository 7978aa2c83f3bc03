package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DecoratorController adds attachments, labels, annotations and a status to objects of any kind, which may
// have controllers of their own. A hook receives an object with its observed attachments and returns the
// desired ones; Setpoint creates, updates and deletes the difference.
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

	// spec declares what to watch, what to attach, and which hooks to call.
	// +required
	Spec DecoratorControllerSpec `json:"spec"`

	// status is the observed state of the controller. Its parents are the decorated objects, its children
	// their attachments.
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

// DecoratorControllerSpec matches the spec of metacontroller.k8s.io, so that a manifest migrates by its
// apiVersion. The comment of a field names a different default or name.
type DecoratorControllerSpec struct {
	// resources select the decorated objects: those that match at least one rule. Several rules may name
	// the same kind. (In Metacontroller the last one wins; in Setpoint all apply, in both groups.)
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Resources []DecoratedResource `json:"resources"`

	// attachments lists the kinds of objects that the hook may return. Setpoint sends, updates and deletes
	// attachments of these kinds only.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=128
	Attachments []Attachment `json:"attachments,omitempty"`

	// hooks are the endpoints that implement this controller.
	// +required
	Hooks Hooks `json:"hooks"`

	// endpointConfigs hold connection settings by host, for webhooks without settings of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds calls the hook for every object at least this often, for logic that depends on
	// more than the objects in a request. 0 means never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ResyncPeriodSeconds int32 `json:"resyncPeriodSeconds,omitempty"`

	// rollout moves the parents to changed hooks in steps. By default all parents are reconciled by changed
	// hooks at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// deletionGuard holds deletions until a user confirms them, when too many at once have no other cause
	// than a response of the hook. It is enabled by default.
	// +optional
	// +kubebuilder:default={}
	DeletionGuard DeletionGuard `json:"deletionGuard,omitzero"`

	// fullObjects includes metadata.managedFields of all objects in requests, and the status that the
	// controller had when Setpoint read its spec. Both are left out by default: managedFields need much
	// memory, and few hooks need either. (In metacontroller.k8s.io this is the annotation
	// setpoint.dev/full-objects.)
	// +optional
	FullObjects bool `json:"fullObjects,omitempty"`

	// suspend stops the controller until it is false again. Setpoint calls no hook and writes nothing.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	Identity `json:",inline"`
}

// DecoratedResource selects objects of one kind. An object must match both selectors.
type DecoratedResource struct {
	ResourceRule `json:",inline"`

	// labelSelector selects objects by their labels. The default selects all objects.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// annotationSelector selects objects by their annotations. The default selects all objects.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// namespaces are the namespaces of the objects. The default is all namespaces. Setpoint does nothing with
	// objects in other namespaces, also if it had before. All rules
	// for a kind have the same namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// syncOnStatusChange also calls the hook when only the status of an object changed. By default, changes
	// of the spec, the labels and the annotations, and deletion, call the hook. If one rule for a kind sets
	// it, it applies to all objects of the kind. (In metacontroller.k8s.io this is ignoreStatusChanges, with
	// the opposite meaning.)
	// +optional
	SyncOnStatusChange bool `json:"syncOnStatusChange,omitempty"`
}

// Attachment is one kind of attachments, and how Setpoint updates them.
type Attachment struct {
	ResourceRule `json:",inline"`

	// updateStrategy is how Setpoint updates an attachment that differs from the desired one.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy AttachmentUpdateStrategy `json:"updateStrategy,omitzero"`

	// apply is how Setpoint merges the desired attachment into an existing one. Default ServerSide.
	// +optional
	// +kubebuilder:default=ServerSide
	Apply ApplyStrategy `json:"apply,omitempty"`
}

// AttachmentUpdateStrategy is how Setpoint updates an attachment that differs from the desired one.
type AttachmentUpdateStrategy struct {
	// method is how Setpoint updates the attachment. Default InPlace. (In metacontroller.k8s.io the default
	// is OnDelete, with which a changed response of the hook silently has no effect.)
	// +optional
	// +kubebuilder:default=InPlace
	Method AttachmentUpdateMethod `json:"method,omitempty"`
}

// AttachmentUpdateMethod is one of the update methods that are not rolling: attachments have no
// revisions to roll out.
//
// +kubebuilder:validation:Enum=OnDelete;Recreate;InPlace
type AttachmentUpdateMethod string
