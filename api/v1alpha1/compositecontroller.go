package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CompositeController manages a set of children for every object of one kind, the parent. A hook receives a
// parent with its observed children and returns the desired children; Setpoint creates, updates and deletes
// the difference.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=compositecontrollers,scope=Cluster,shortName=spcc,categories=setpoint
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

	// spec declares what to watch, what to write, and which hooks to call.
	// +required
	Spec CompositeControllerSpec `json:"spec"`

	// status is the observed state of the controller.
	// +optional
	Status ControllerStatus `json:"status,omitzero"`
}

// CompositeControllerList is a list of CompositeControllers.
//
// +kubebuilder:object:root=true
type CompositeControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CompositeController `json:"items"`
}

// CompositeControllerSpec matches the spec of metacontroller.k8s.io, so that a manifest migrates by its
// apiVersion. The comment of a field names a different default or name.
type CompositeControllerSpec struct {
	// parentResource selects the parents. It may be a custom or a built-in resource, namespaced or
	// cluster-scoped.
	// +required
	ParentResource ParentResource `json:"parentResource"`

	// childResources lists the kinds of children that the hook may return. Setpoint sends, updates and
	// deletes children of these kinds only.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=128
	ChildResources []ChildResource `json:"childResources,omitempty"`

	// hooks are the endpoints that implement this controller.
	// +required
	Hooks Hooks `json:"hooks"`

	// generateSelector identifies children by a label with the UID of their parent, which Setpoint adds to
	// each child. When false, every parent must have a non-empty spec.selector that matches the labels of
	// its children.
	// +optional
	GenerateSelector bool `json:"generateSelector,omitempty"`

	// endpointConfigs hold connection settings by host, for webhooks without settings of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds calls the hook for every parent at least this often, for logic that depends on
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

// ResourceRule identifies a resource that the API server serves.
type ResourceRule struct {
	// apiVersion is the group and version of the resource, such as apps/v1, or v1 for the core group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/]+/)?[^/]+$')",message="must be GROUP/VERSION, such as apps/v1, or the version alone for the core group, such as v1"
	APIVersion string `json:"apiVersion"`

	// resource is the lowercase plural name of the resource, such as deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the lower-case plural name, such as deployments for the kind Deployment"
	Resource string `json:"resource"`
}

// ParentResource selects the parents, and which of their changes to reconcile.
type ParentResource struct {
	ResourceRule `json:",inline"`

	// labelSelector selects parents by their labels. The default selects all parents.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// namespaces are the namespaces of the parents. The default is all namespaces. Setpoint does nothing with
	// objects in other namespaces, also if it had before. Of two controllers that conflict, one of all
	// namespaces takes precedence over one that is limited to some.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// revisionHistory selects the changes of a parent to roll out child by child, to children with a
	// rolling update method.
	// +optional
	RevisionHistory RevisionHistory `json:"revisionHistory,omitzero"`

	// syncOnStatusChange also calls the hook when only the status of a parent changed. By default, changes
	// of the spec, the labels and the annotations, and deletion, call the hook. (In metacontroller.k8s.io
	// this is ignoreStatusChanges, with the opposite meaning.)
	// +optional
	SyncOnStatusChange bool `json:"syncOnStatusChange,omitempty"`

	// omitConditions leaves the conditions Synced, Reconciling and Stalled out of the status of parents.
	// By default Setpoint sets them if the schema of the parents has status.conditions.
	// +optional
	OmitConditions bool `json:"omitConditions,omitempty"`
}

// RevisionHistory says which changes of a parent make a new revision of it.
type RevisionHistory struct {
	// fieldPaths are paths of the fields of the parent whose change makes a new revision, such as
	// spec.template, or metadata.annotations["example.com/note"] where a name has dots. All other fields take effect on every child at
	// once. Default spec.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^([^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])([.][^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])*$")`,message="must be a field path such as spec.template; quote a name that has dots: metadata.annotations['example.com/note']"
	FieldPaths []string `json:"fieldPaths,omitempty"`
}

// ChildResource is one kind of children, and how Setpoint updates them.
type ChildResource struct {
	ResourceRule `json:",inline"`

	// updateStrategy is how Setpoint updates a child that differs from the desired one.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`

	// apply is how Setpoint merges the desired child into an existing one. Default ServerSide.
	// +optional
	// +kubebuilder:default=ServerSide
	Apply ApplyStrategy `json:"apply,omitempty"`
}

// ApplyStrategy is how Setpoint merges the desired child into an existing one. With ServerSide the API
// server tracks the owners of fields; with Merge an annotation on the child records the last applied
// fields. (In metacontroller.k8s.io a flag sets it for all controllers.)
//
// +kubebuilder:validation:Enum=ServerSide;Merge
type ApplyStrategy string

// The apply strategies.
const (
	ApplyServerSide ApplyStrategy = "ServerSide"
	ApplyMerge      ApplyStrategy = "Merge"

	// DefaultApplyStrategy is the default of ApplyStrategy.
	DefaultApplyStrategy = ApplyServerSide
)

// UpdateStrategy is how Setpoint updates a child that differs from the desired one.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.maxUnavailable) && !has(self.statusChecks) && !has(self.pause)) || (has(self.method) && self.method in ['RollingRecreate', 'RollingInPlace'])",message="maxUnavailable, statusChecks and pause require the method RollingRecreate or RollingInPlace"
type UpdateStrategy struct {
	// method is how Setpoint updates the child. Default InPlace. (In metacontroller.k8s.io the default is
	// OnDelete, with which a changed response of the hook silently has no effect.)
	// +optional
	// +kubebuilder:default=InPlace
	Method UpdateMethod `json:"method,omitempty"`

	// statusChecks define when a child is ready, before a rolling method continues with the next.
	// +optional
	StatusChecks *StatusChecks `json:"statusChecks,omitempty"`

	// maxUnavailable is how many children of this kind may be updating or not ready at once. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`

	// pause is a CEL expression over parent and children, the list of all children of the parent. While it is
	// true, no child of this kind moves to the latest revision. An error of its evaluation is one of the parent.
	// +optional
	Pause Expression `json:"pause,omitempty"`
}

// UpdateMethod is how Setpoint updates an existing child: OnDelete does not update it until a user deletes
// it, Recreate deletes and creates it, InPlace updates the fields that differ. The Rolling methods update
// one child after the other when the revision of the parent changes.
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

	// DefaultUpdateMethod is the default of UpdateMethod.
	DefaultUpdateMethod = UpdateInPlace
)

// StatusChecks define when a child is ready.
type StatusChecks struct {
	// conditions must all be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Conditions []ConditionCheck `json:"conditions,omitempty"`

	// expressions must all be true.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Expressions []ExpressionCheck `json:"expressions,omitempty"`
}

// ExpressionCheck is met by a child for which an expression is true.
type ExpressionCheck struct {
	// expression is CEL over object, the child, and parent. An error of its evaluation is one of the parent;
	// has() tells whether a field is set.
	// +required
	Expression Expression `json:"expression"`

	// message says what a child lacks for which the expression is false, such as "it has too few replicas".
	// The default is the expression.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ConditionCheck is met by a child that has a condition of this type, and this status and reason if
// they are given.
type ConditionCheck struct {
	// type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`

	// status the condition must have, such as "True". Empty means any.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Status string `json:"status,omitempty"`

	// reason the condition must have. Empty means any.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}
