package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControllerStatus is the status of every controller kind of either group.
type ControllerStatus struct {
	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions tell whether the controller is Accepted (its spec is valid, its resources exist and
	// Setpoint may use them) and Ready (its watches are synced and its hook responds).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The counts are written even if they are zero: an empty column reads as "not known".

	// parents is the number of parents that the controller manages.
	// +optional
	Parents int32 `json:"parents"`

	// children is the number of children those parents own.
	// +optional
	Children int32 `json:"children"`

	// paused is the number of parents that Setpoint does not reconcile because they have the
	// annotation setpoint.dev/paused: "true".
	// +optional
	Paused int32 `json:"paused"`

	// parentsInError is the number of parents whose latest sync failed.
	// +optional
	ParentsInError int32 `json:"parentsInError"`

	// heldDeletions are deletions that wait for a person to confirm them.
	// +optional
	HeldDeletions *HeldDeletions `json:"heldDeletions,omitempty"`

	// finalizes lists the resources whose objects may carry the finalizer of the controller, as
	// apiVersion/resource, such as apps/v1/statefulsets. It outlives the spec that named them, until the
	// finalizers are removed.
	// +optional
	// +listType=set
	Finalizes []string `json:"finalizes,omitempty"`

	// kinds are the custom kinds of parents, children and related objects that the API server has served. One that it
	// does not serve any more has no objects, so the controller goes on without it, also after a restart.
	// +optional
	// +listType=atomic
	Kinds []UsedKind `json:"kinds,omitempty"`

	// logicVersion is the one that the responses of the hooks have. It counts once all responses have had it for 10
	// seconds.
	// +optional
	LogicVersion string `json:"logicVersion,omitempty"`

	// rollout is where the rollout of changed hooks is. It is absent without spec.rollout.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// lastError is the latest failure, kept after it has been overcome.
	// +optional
	LastError *LastError `json:"lastError,omitempty"`

	// managedBy is the Setpoint that runs the controller and writes this status. Others in the cluster do
	// not run the controller while that one renews its Lease.
	// +optional
	ManagedBy *Instance `json:"managedBy,omitempty"`
}

// Instance is a Setpoint with all of its replicas.
type Instance struct {
	// lease is its Lease, as namespace/name.
	// +required
	Lease string `json:"lease"`

	// namespaces are those of its flag --namespaces. The default is all namespaces.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// UsedKind is a kind that a controller uses.
type UsedKind struct {
	// apiVersion is such as example.com/v1.
	// +required
	APIVersion string `json:"apiVersion"`

	// resource is the plural name in paths, such as widgets.
	// +required
	Resource string `json:"resource"`

	// kind is such as Widget.
	// +required
	Kind string `json:"kind"`

	// namespaced tells whether the objects have a namespace.
	// +optional
	Namespaced bool `json:"namespaced,omitempty"`
}

// LastError is a failure: what, of which object, and when.
type LastError struct {
	// message says what happened.
	// +required
	Message string `json:"message"`

	// object is the parent concerned, as namespace/name, or name when it is cluster-scoped. Empty
	// when the failure concerns the controller as a whole.
	// +optional
	Object string `json:"object,omitempty"`

	// time is when it happened.
	// +required
	Time metav1.Time `json:"time"`
}

// Conditions of a controller object.
const (
	// ConditionAccepted is True when the spec is valid, the API server serves the resources it names,
	// and Setpoint has the permissions.
	ConditionAccepted = "Accepted"

	// ConditionConflicting is True while Setpoint writes children again and again because another client
	// changes them, and while a hook returns different responses to the same request. The condition
	// appears when that first happens.
	ConditionConflicting = "Conflicting"

	// ConditionDeletionsHeld is True while the deletion guard holds deletions, until a user confirms them
	// or corrects the hook. The condition appears when that first happens. While it is True, so is
	// ConditionStalled, which kstatus reads.
	ConditionDeletionsHeld = "DeletionsHeld"

	// ConditionStatusStored is False when the kind of the parents has no status subresource, so that
	// Setpoint does not store the status in responses. The condition appears when that first happens.
	ConditionStatusStored = "StatusStored"

	// ConditionCRDCurrent is False while the CRD of the controller's own kind differs from this
	// Setpoint's. A schema without the status prunes it, including this condition. The condition
	// appears when that first happens.
	ConditionCRDCurrent = "CRDCurrent"

	// ConditionLogicVersionStable is False while logicVersion in responses cannot be followed: different replicas of a
	// hook have different ones for long, or each response has another. The condition appears when that first happens.
	ConditionLogicVersionStable = "LogicVersionStable"

	// ConditionProgressing says where the rollout of changed hooks is. It is absent without spec.rollout. It is
	// False while the rollout does not go on: paused, blocked or rolled back.
	ConditionProgressing = "Progressing"

	// ConditionReady is True when the caches are filled and neither the hook nor a missing permission fails all
	// objects.
	ConditionReady = "Ready"
)

// Conditions of a parent whose status has conditions in its schema. ConditionReconciling and
// ConditionStalled are those of kstatus, and present only while True. A hook may set them itself.
const (
	// ConditionSynced is True when the children are as desired.
	ConditionSynced = "Synced"

	// ConditionReconciling is True while they are not, and Setpoint retries or a rolling update is in
	// progress.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while they are not, and a user has to act.
	ConditionStalled = "Stalled"
)

// Reasons of ConditionSynced. With status False it has the reason of the event on the parent, and so
// has ConditionReconciling or ConditionStalled.
const (
	// ReasonSynced goes with status True: Setpoint has applied the response.
	ReasonSynced = "Synced"
)

// Reasons of ConditionAccepted. All but ReasonAccepted and ReasonSourceOutdated go with status False.
const (
	// ReasonAccepted goes with status True.
	ReasonAccepted = "Accepted"

	// ReasonInvalidSource: the code of an inline hook does not compile, or does not have the function. The message has
	// the field with line and column. What to do: correct the code at that place.
	ReasonInvalidSource = "InvalidSource"

	// ReasonSourceNotFound: a ConfigMap with the code of an inline hook does not exist, or does not have the key.
	// Setpoint starts the controller when it does. What to do: create the ConfigMap with that key, or correct the
	// reference.
	ReasonSourceNotFound = "SourceNotFound"

	// ReasonSourceOutdated goes with status True: the code of an inline hook in a ConfigMap cannot be used any more,
	// so that Setpoint uses the code before it. The message says why. What to do: correct the code in the ConfigMap.
	ReasonSourceOutdated = "SourceOutdated"

	// ReasonResourceNotFound: the API server does not serve a resource named in the spec. Setpoint starts the
	// controller when it does. It is also a reason of events on parents. What to do: install the CRD, or correct the
	// apiVersion and the resource.
	ReasonResourceNotFound = "ResourceNotFound"

	// ReasonAPIUnavailable: a request that Setpoint needs before it runs the spec fails, such as the one for the kinds
	// of an API group. The message has the error. Setpoint tries again; a controller that ran before goes on as it
	// was. It is also a reason of ConditionReady. What to do: if it stays, look at the API server, or at the
	// APIService of the group that the message names.
	ReasonAPIUnavailable = "APIUnavailable"

	// ReasonForbidden: Setpoint lacks permissions; the message names all of them. It is also a reason of events on
	// parents, and of ConditionReady: the API server forbids what the controller does for all objects, or for more than
	// nine in ten. What to do: grant what the message names; `setpoint rbac` prints the roles.
	ReasonForbidden = "Forbidden"

	// ReasonRevisionNotFound: the ControllerRevision with the version before, which reconciles the parents that have
	// not moved yet, does not exist. Without spec.rollout all parents move at once. What to do: restore the
	// ControllerRevision, or remove spec.rollout.
	ReasonRevisionNotFound = "RevisionNotFound"

	// ReasonInvalidSpec: the spec is invalid in a way that its schema cannot express. What to do: correct the field in
	// the message.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonConflictingController: another controller has the same parents, and the two would undo each other's work.
	// The younger waits; one that is limited to namespaces waits for one of all namespaces. What to do: delete one of
	// the two, or limit them to different namespaces or objects; if both use one finalizer, give each a spec.finalizer
	// of its own.
	ReasonConflictingController = "ConflictingController"

	// ReasonConflictingMetacontroller: a Metacontroller runs in this cluster, and the two would undo each other's work.
	// What to do: stop Metacontroller, or leave the controller to it; if it ignores the controller, set the annotation
	// setpoint.dev/ignore-metacontroller.
	ReasonConflictingMetacontroller = "ConflictingMetacontroller"

	// ReasonConflictingSetpoint: another Setpoint in this cluster manages the controller. The event has this reason;
	// the status is that of the other one, which status.managedBy names. What to do: run one Setpoint for the
	// controller: stop the other, or give each controllers of its own with --selector.
	ReasonConflictingSetpoint = "ConflictingSetpoint"
)

// Reasons of ConditionConflicting.
const (
	// ReasonConflicting goes with status True: the message names the object and the field. What to do: let only one
	// client write the field, or make the hook return the same response to the same request.
	ReasonConflicting = "Conflicting"

	// ReasonNoConflict goes with status False. What to do: nothing.
	ReasonNoConflict = "NoConflict"
)

// Reasons of ConditionDeletionsHeld, and of ConditionStalled.
const (
	// ReasonTooManyDeletions goes with status True: the message has the number, and how to confirm. What to do:
	// correct the hook, or confirm with `setpoint allow-deletions`.
	ReasonTooManyDeletions = "TooManyDeletions"

	// ReasonNothingHeld goes with status False. What to do: nothing.
	ReasonNothingHeld = "NothingHeld"
)

// Reasons of ConditionProgressing, and of the events about its changes.
const (
	// ReasonRolloutShadow goes with status True: the versions are compared, and no parent has moved.
	ReasonRolloutShadow = "RolloutShadow"

	// ReasonRolloutStepping goes with status True: parents move to the new version, or are observed.
	ReasonRolloutStepping = "RolloutStepping"

	// ReasonRolloutComplete goes with status True: all parents are at the version that the message names.
	ReasonRolloutComplete = "RolloutComplete"

	// ReasonRolloutPaused goes with status False: spec.rollout.paused is true. What to do: `setpoint rollout resume`
	// continues it.
	ReasonRolloutPaused = "RolloutPaused"

	// ReasonRolloutBlocked goes with status False: the rollout cannot go on. The message says why. What to do: correct
	// what the message names; if the differences are intended, raise spec.rollout.shadow.maxDifferentPercent. The
	// rollout goes on, or begins anew with changed hooks, by itself. In the shadow, `setpoint reconcile` compares
	// parents again whose hook was corrected behind its address.
	ReasonRolloutBlocked = "RolloutBlocked"

	// ReasonRolledBack goes with status False: all parents are reconciled by the version before. The message says why.
	// What to do: correct the hook, or try again with `setpoint rollout resume`.
	ReasonRolledBack = "RolledBack"
)

// Reasons of ConditionLogicVersionStable, and of the event about a change.
const (
	// ReasonLogicVersionStable goes with status True.
	ReasonLogicVersionStable = "LogicVersionStable"

	// ReasonLogicVersionChanging goes with status False: the message says how. What to do: let all replicas of the
	// hook return the same logicVersion, and another one only when the logic changes.
	ReasonLogicVersionChanging = "LogicVersionChanging"

	// ReasonLogicVersionChanged is that of the event: objects with another logicVersion are reconciled again. What to
	// do: nothing.
	ReasonLogicVersionChanged = "LogicVersionChanged"
)

// Reasons of ConditionStatusStored.
const (
	// ReasonStatusStored goes with status True.
	ReasonStatusStored = "StatusStored"

	// ReasonNoStatusSubresource goes with status False: the message names the kind. What to do: add `subresources:
	// {status: {}}` to the CRD; a built-in kind without one cannot store it.
	ReasonNoStatusSubresource = "NoStatusSubresource"
)

// Reasons of ConditionCRDCurrent.
const (
	// ReasonCRDCurrent goes with status True.
	ReasonCRDCurrent = "CRDCurrent"

	// ReasonCRDSkipped: Setpoint runs with --crds=skip, and the status of the installed CRD has no conditions. What to
	// do: apply the CRD of this version.
	ReasonCRDSkipped = "CRDSkipped"

	// ReasonCRDChangedBack: the field manager in the message changed the CRD again after Setpoint had applied its own.
	// Setpoint applies it once per manager. What to do: let that manager apply the CRD of this version; or let it leave
	// the CRD alone without deleting it, and restart Setpoint; or keep the change with --crds=skip.
	ReasonCRDChangedBack = "CRDChangedBack"
)

// Reasons of ConditionReady. All but ReasonReady go with status False.
const (
	// ReasonReady goes with status True.
	ReasonReady = "Ready"

	// ReasonStarting: the caches are being filled, or the API server does not yet use the webhooks. What to do: wait;
	// if it stays, see the message and the log.
	ReasonStarting = "Starting"

	// ReasonWatchFailing: a watch fails. What to do: see the error in the message: a permission, the API server, or
	// the network.
	ReasonWatchFailing = "WatchFailing"

	// ReasonHookFailing: calls fail for all objects or for more than nine in ten, or the latest call got no
	// connection. What to do: see the error in the message, and the log of the hook; `setpoint why` has the request.
	ReasonHookFailing = "HookFailing"

	// ReasonHookUnreachable: the process of the hook does not run in setpoint dev. The message says why. What to do:
	// correct what the log of the process says; `setpoint dev` starts it again when you save a file.
	ReasonHookUnreachable = "HookUnreachable"

	// ReasonCallOverdue: a call of a hook or handler has not returned 5 s after its timeout. It blocks a worker. What
	// to do: find why the function ignores its context or the process hangs, and restart the process.
	ReasonCallOverdue = "CallOverdue"

	// ReasonIndexIncomplete: objects wait because the process of their handlers does not have the whole index yet. The
	// message has the controller of the index, and the error of the latest call. What to do: see the error in the
	// message, and the log of the process.
	ReasonIndexIncomplete = "IndexIncomplete"

	// ReasonNotificationsUnavailable: the stream of notifications has had no connection for 5 s. Setpoint does not
	// hear from daemons, and an index waits for the process. What to do: look whether the process runs, and at its
	// log.
	ReasonNotificationsUnavailable = "NotificationsUnavailable"

	// ReasonUnregistered: Setpoint cannot store the webhook configurations, or cannot serve. What to do: see the error
	// in the message: a permission, or the address and certificate of the webhook server.
	ReasonUnregistered = "Unregistered"

	// ReasonUnreachable: the API server cannot reach the webhooks. The message is the server's. What to do: let the
	// API server reach the Service or URL of the webhooks: look at network policies and the port.
	ReasonUnreachable = "Unreachable"

	// ReasonSuspended: spec.suspend, or the annotation setpoint.dev/paused on the controller object, suspends the
	// controller. What to do: set spec.suspend to false, or remove the annotation.
	ReasonSuspended = "Suspended"

	// ReasonReleasing: Setpoint removes the finalizers of a deleted controller from its objects. The event has what
	// prevents it. What to do: wait, or remove what prevents it; `setpoint release` is the last way out.
	ReasonReleasing = "Releasing"

	// ReasonNotSelected: the labels of the controller object have changed, so that the Setpoint that ran it does not
	// run it any more, and no other has taken it. What to do: restore the labels, or run a Setpoint that selects it.
	ReasonNotSelected = "NotSelected"

	// ReasonNotAccepted: ConditionAccepted is False. What to do: see that condition.
	ReasonNotAccepted = "NotAccepted"
)
