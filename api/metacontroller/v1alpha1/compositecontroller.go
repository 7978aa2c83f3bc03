package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// The API server rejects a CRD in a k8s.io group without this annotation.
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, request not yet submitted"

// CompositeController gives every object of one kind, the parent, a set of children. A hook
// receives a parent and its children and returns the desired children; Setpoint applies them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=compositecontrollers,scope=Cluster,shortName=cc;cctl
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentResource.resource`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Parents",type=integer,JSONPath=`.status.parents`
// +kubebuilder:printcolumn:name="Children",type=integer,JSONPath=`.status.children`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.parentsInError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Last Error",type=string,priority=1,JSONPath=`.status.lastError.message`
type CompositeController struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec configures the parent, the children and the hooks.
	// +required
	Spec CompositeControllerSpec `json:"spec"`

	// status says how the controller is doing. Written by Setpoint; Metacontroller leaves it empty.
	// +optional
	Status setpoint.ControllerStatus `json:"status,omitzero"`
}

// CompositeControllerList is a list of CompositeControllers.
//
// +kubebuilder:object:root=true
type CompositeControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CompositeController `json:"items"`
}

// CompositeControllerSpec configures the parent, the children and the hooks.
type CompositeControllerSpec struct {
	// parentResource names the kind whose objects get children.
	// +required
	ParentResource ParentResource `json:"parentResource"`

	// childResources lists the kinds of children that are shown to the hook, updated and deleted.
	// +optional
	ChildResources []ChildResource `json:"childResources,omitempty"`

	// hooks says where the logic of this controller is. Without sync there is nothing to run.
	// +optional
	Hooks *Hooks `json:"hooks,omitempty"`

	// endpointConfigs holds connection settings by host, for the webhooks that bring none of their own.
	// +optional
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds asks the hook about every parent at least this often. Absent means never;
	// less than 1 means 1.
	// +optional
	ResyncPeriodSeconds *int32 `json:"resyncPeriodSeconds,omitempty"`

	// generateSelector identifies children by a label holding the UID of their parent, which is
	// added to each child that lacks it. When false, every parent must have a non-empty
	// spec.selector that matches the labels of its children.
	// +optional
	GenerateSelector *bool `json:"generateSelector,omitempty"`
}

// ResourceRule names a resource as the API server serves it.
type ResourceRule struct {
	// apiVersion is the group and version of the resource, such as apps/v1, or v1 for the core group.
	// +required
	APIVersion string `json:"apiVersion"`

	// resource is the lowercase plural name of the resource, such as deployments.
	// +required
	Resource string `json:"resource"`
}

// ParentResource names the parents and says which of their changes matter.
type ParentResource struct {
	ResourceRule `json:",inline"`

	// revisionHistory says which changes of a parent are rolled out child by child, for children with
	// a rolling update method.
	// +optional
	RevisionHistory *RevisionHistory `json:"revisionHistory,omitempty"`

	// labelSelector leaves out parents whose labels do not match. Without it all parents are in.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// ignoreStatusChanges asks the hook about a changed parent only if more than its status has
	// changed. Absent means false.
	// +optional
	IgnoreStatusChanges *bool `json:"ignoreStatusChanges,omitempty"`
}

// RevisionHistory says which changes of a parent make a new revision of it.
type RevisionHistory struct {
	// fieldPaths are dotted paths of the fields of the parent whose change makes a new revision.
	// Absent means spec.
	// +optional
	FieldPaths []string `json:"fieldPaths,omitempty"`
}

// ChildResource names one kind of children and says how they change.
type ChildResource struct {
	ResourceRule `json:",inline"`

	// updateStrategy says what happens to a child that differs from what the hook wants.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
}

// UpdateStrategy says what happens to a child that differs from what the hook wants.
type UpdateStrategy struct {
	// method is how such a child is brought in line. Absent means OnDelete.
	// +optional
	Method UpdateMethod `json:"method,omitempty"`

	// statusChecks say when a child counts as updated, before a rolling method goes on to the next.
	// +optional
	StatusChecks *StatusChecks `json:"statusChecks,omitempty"`
}

// UpdateMethod is a way to bring an existing child in line: OnDelete changes nothing until a user
// deletes the child, Recreate deletes and recreates it, InPlace updates the fields that differ. The
// Rolling methods do the same, one child at a time.
//
// +kubebuilder:validation:Enum=OnDelete;Recreate;InPlace;RollingRecreate;RollingInPlace
type UpdateMethod string

// The update methods.
const (
	UpdateOnDelete        UpdateMethod = "OnDelete"
	UpdateRecreate        UpdateMethod = "Recreate"
	UpdateInPlace         UpdateMethod = "InPlace"
	UpdateRollingRecreate UpdateMethod = "RollingRecreate"
	UpdateRollingInPlace  UpdateMethod = "RollingInPlace"
)

// StatusChecks say when a child counts as updated.
type StatusChecks struct {
	// conditions must all be met.
	// +optional
	Conditions []ConditionCheck `json:"conditions,omitempty"`
}

// ConditionCheck is met by a child that has a condition of this type, and this status and reason if
// they are given.
type ConditionCheck struct {
	// type of the condition.
	// +required
	Type string `json:"type"`

	// status the condition must have. Absent means any.
	// +optional
	Status *string `json:"status,omitempty"`

	// reason the condition must have. Absent means any.
	// +optional
	Reason *string `json:"reason,omitempty"`
}
