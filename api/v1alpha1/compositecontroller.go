package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CompositeController gives every object of one kind, the parent, a set of children. A hook is shown
// a parent with the children it has and answers with the children it should have; Setpoint makes it so.
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

	// spec says what to watch, what to write, and whom to ask.
	// +required
	Spec CompositeControllerSpec `json:"spec"`

	// status says how the controller is doing.
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

// CompositeControllerSpec has the shape of the spec of metacontroller.k8s.io, so that a manifest
// migrates by its apiVersion; where a default or a name differs, the field says so.
type CompositeControllerSpec struct {
	// parentResource names the kind whose objects get children. It may be a custom or a built-in
	// resource, namespaced or cluster-scoped.
	// +required
	ParentResource ParentResource `json:"parentResource"`

	// childResources lists the kinds of children the hook may answer with. Only these are shown to
	// the hook, updated and deleted.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=128
	ChildResources []ChildResource `json:"childResources,omitempty"`

	// hooks says where the logic of this controller is.
	// +required
	Hooks Hooks `json:"hooks"`

	// generateSelector identifies children by a label holding the UID of their parent, which is
	// added to each child that lacks it. When false, every parent must have a non-empty
	// spec.selector that matches the labels of its children.
	// +optional
	GenerateSelector bool `json:"generateSelector,omitempty"`

	// endpointConfigs hold connection settings by host, for webhooks that have none of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// resyncPeriodSeconds asks the hook about every parent at least this often, for logic that
	// depends on something other than the objects it is shown. 0 means never.
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

	// suspend leaves all parents and children as they are, until it is taken back. No hook is asked.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ResourceRule names a resource as the API server serves it.
type ResourceRule struct {
	// apiVersion is the group and version of the resource, such as apps/v1, or v1 for the core group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/]+/)?[^/]+$')",message="apiVersion is GROUP/VERSION, such as apps/v1, or just the version for the core group, such as v1"
	APIVersion string `json:"apiVersion"`

	// resource is the lowercase plural name of the resource, such as deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="resource is the lowercase plural name, such as deployments for the kind Deployment"
	Resource string `json:"resource"`
}

// ParentResource names the parents and says which of their changes matter.
type ParentResource struct {
	ResourceRule `json:",inline"`

	// labelSelector leaves out parents whose labels do not match. Without it all parents are in.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// revisionHistory says which changes of a parent are rolled out child by child, to children with
	// a rolling update method.
	// +optional
	RevisionHistory RevisionHistory `json:"revisionHistory,omitzero"`

	// syncOnStatusChange also asks the hook when nothing but the status of a parent has changed. By
	// default only changes of the spec, the labels or the annotations, and deletion, ask the hook.
	// (In metacontroller.k8s.io this is ignoreStatusChanges, with the opposite meaning.)
	// +optional
	SyncOnStatusChange bool `json:"syncOnStatusChange,omitempty"`

	// omitConditions leaves the conditions Synced, Reconciling and Stalled out of the status of parents.
	// By default they are kept there if the schema of the parents has status.conditions.
	// +optional
	OmitConditions bool `json:"omitConditions,omitempty"`
}

// RevisionHistory says which changes of a parent make a new revision of it.
type RevisionHistory struct {
	// fieldPaths are paths of the fields of the parent whose change makes a new revision, such as
	// spec.template, or metadata.annotations["example.com/note"] where a name has dots. All other fields take effect on every child at once. Default spec.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^([^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])([.][^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])*$")`,message="a path is names of fields with dots between them, such as spec.template; one that has dots itself is written as metadata.annotations['example.com/note']"
	FieldPaths []string `json:"fieldPaths,omitempty"`
}

// ChildResource names one kind of children and says how they change.
type ChildResource struct {
	ResourceRule `json:",inline"`

	// updateStrategy says what happens to a child that differs from what the hook wants.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`

	// apply is how what the hook wants is laid over a child that exists. Default ServerSide.
	// +optional
	// +kubebuilder:default=ServerSide
	Apply ApplyStrategy `json:"apply,omitempty"`
}

// ApplyStrategy is how what the hook wants is laid over a child that exists. With ServerSide the API
// server keeps account of whose fields are whose; with Merge an annotation of the child remembers which
// fields were set. (In metacontroller.k8s.io a flag says it for all controllers at once.)
//
// +kubebuilder:validation:Enum=ServerSide;Merge
type ApplyStrategy string

// The apply strategies.
const (
	ApplyServerSide ApplyStrategy = "ServerSide"
	ApplyMerge      ApplyStrategy = "Merge"

	// DefaultApplyStrategy is meant by an empty ApplyStrategy.
	DefaultApplyStrategy = ApplyServerSide
)

// UpdateStrategy says what happens to a child that differs from what the hook wants.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.maxUnavailable) && !has(self.statusChecks)) || (has(self.method) && self.method in ['RollingRecreate', 'RollingInPlace'])",message="maxUnavailable and statusChecks go with the methods RollingRecreate and RollingInPlace"
type UpdateStrategy struct {
	// method is how such a child is brought in line. Default InPlace. (In metacontroller.k8s.io the
	// default is OnDelete, with which a changed answer of the hook silently has no effect.)
	// +optional
	// +kubebuilder:default=InPlace
	Method UpdateMethod `json:"method,omitempty"`

	// statusChecks say when a child is well, before a rolling method goes on to the next.
	// +optional
	StatusChecks *StatusChecks `json:"statusChecks,omitempty"`

	// maxUnavailable is how many children of this kind a rolling method may have under way, or not well,
	// at once. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// UpdateMethod is a way to bring an existing child in line: OnDelete leaves it as it is until someone
// deletes it, Recreate deletes it and creates it anew, InPlace changes the fields that differ. The
// Rolling methods do the same to one child after the other, whenever the revision of the parent changes.
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

	// DefaultUpdateMethod is meant by an empty UpdateMethod.
	DefaultUpdateMethod = UpdateInPlace
)

// StatusChecks say when a child is well.
type StatusChecks struct {
	// conditions must all be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Conditions []ConditionCheck `json:"conditions,omitempty"`
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
