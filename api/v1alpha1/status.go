package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControllerStatus says how a controller is doing. Every controller kind of either group reports it.
type ControllerStatus struct {
	// observedGeneration is the metadata.generation of the spec this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions tell whether the controller is Accepted (its spec is understood, its resources
	// exist and may be used) and Ready (its watches are synced and its hook answers).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The counts are written when they are zero too: an empty column reads as "not known".

	// parents is the number of parents in the care of the controller.
	// +optional
	Parents int32 `json:"parents"`

	// children is the number of children those parents own.
	// +optional
	Children int32 `json:"children"`

	// paused is the number of parents that are left alone because they carry the annotation
	// setpoint.dev/paused: "true".
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

	// lastError is the latest failure, kept after it has been overcome.
	// +optional
	LastError *LastError `json:"lastError,omitempty"`
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

// Condition types of a controller.
const (
	// ConditionAccepted is True when the spec is understood, and the resources it names exist and
	// may be used.
	ConditionAccepted = "Accepted"

	// ConditionSettled is False while children are written again and again, since somebody else or
	// the server changes them, and while a hook never gives the same answer twice. It is there once
	// that has happened.
	ConditionSettled = "Settled"

	// ConditionDeletionsHeld is True while the deletion guard holds deletions: a person has to confirm them,
	// or the hook has to be corrected. It is there once that has happened. While it is True, so is
	// ConditionStalled, which kstatus reads.
	ConditionDeletionsHeld = "DeletionsHeld"

	// ConditionStatusStored is False when the kind of the parents has no status subresource, so that the
	// status in responses is not stored. It is there once that has happened.
	ConditionStatusStored = "StatusStored"

	// ConditionCRDCurrent is False while the CRD of the controller's own kind is another than this
	// Setpoint's: a schema that lacks the status prunes it, this condition included. It is there once
	// that has happened.
	ConditionCRDCurrent = "CRDCurrent"

	// ConditionReady is True when the watches are synced and the hook answers.
	ConditionReady = "Ready"
)

// Condition types of a parent, where the schema of its status has conditions. Reconciling and Stalled
// are those of kstatus, and only there while they are True. One that the hook gives itself is left to
// the hook.
const (
	// ConditionSynced is True when the children are as the hook wants them.
	ConditionSynced = "Synced"

	// ConditionReconciling is True while they are not, and it goes on by itself: the hook is called
	// again, or a rolling update is under way.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while they are not, and it does not go on without help.
	ConditionStalled = "Stalled"
)

// Reasons of ConditionSynced. With status False they are those of the event on the parent, too, and
// Reconciling or Stalled has the same one.
const (
	// ReasonSynced goes with status True.
	ReasonSynced = "Synced"
)

// Reasons of ConditionAccepted. All but ReasonAccepted go with status False.
const (
	// ReasonAccepted goes with status True.
	ReasonAccepted = "Accepted"

	// ReasonResourceNotFound: the API server does not serve a resource named in the spec, or not yet.
	ReasonResourceNotFound = "ResourceNotFound"

	// ReasonForbidden: Setpoint lacks a permission on a resource named in the spec.
	ReasonForbidden = "Forbidden"

	// ReasonInvalidSpec: the spec is contradictory or incomplete in a way its schema cannot tell.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonConflictingController: an older controller has the same parents, and the two would undo each
	// other's work.
	ReasonConflictingController = "ConflictingController"

	// ReasonConflictingMetacontroller: a Metacontroller runs in this cluster too, and the two would undo
	// each other's work.
	ReasonConflictingMetacontroller = "ConflictingMetacontroller"
)

// Reasons of ConditionSettled.
const (
	// ReasonSettled goes with status True.
	ReasonSettled = "Settled"

	// ReasonUnsettled: see the message for the object and the field.
	ReasonUnsettled = "Unsettled"
)

// Reasons of ConditionDeletionsHeld, and of ConditionStalled.
const (
	// ReasonTooManyDeletions goes with status True: see the message for how many, and how to go on.
	ReasonTooManyDeletions = "TooManyDeletions"

	// ReasonNothingHeld goes with status False.
	ReasonNothingHeld = "NothingHeld"
)

// Reasons of ConditionStatusStored.
const (
	// ReasonStatusStored goes with status True.
	ReasonStatusStored = "StatusStored"

	// ReasonNoStatusSubresource: see the message for the kind.
	ReasonNoStatusSubresource = "NoStatusSubresource"
)

// Reasons of ConditionCRDCurrent.
const (
	// ReasonCRDCurrent goes with status True.
	ReasonCRDCurrent = "CRDCurrent"

	// ReasonCRDSkipped: Setpoint was started with --crds=skip and leaves the CRD as it is.
	ReasonCRDSkipped = "CRDSkipped"

	// ReasonCRDChangedBack: the field manager named in the message changed the CRD again after Setpoint
	// had applied its own, and Setpoint leaves it.
	ReasonCRDChangedBack = "CRDChangedBack"
)

// Reasons of ConditionReady. All but ReasonReady go with status False.
const (
	// ReasonReady goes with status True.
	ReasonReady = "Ready"

	// ReasonStarting: watches have been opened and are not yet synced.
	ReasonStarting = "Starting"

	// ReasonWatchFailing: a watch that worked, or should, fails.
	ReasonWatchFailing = "WatchFailing"

	// ReasonHookFailing: the hook does not answer, or not in a way that can be used.
	ReasonHookFailing = "HookFailing"

	// ReasonHookUnreachable: the process behind the hook is known not to run, although no call may have
	// met that yet. See the message for what became of it.
	ReasonHookUnreachable = "HookUnreachable"

	// ReasonCallOverdue: a call of a hook or handler has not returned although its timeout is
	// over. It holds a worker, or a review.
	ReasonCallOverdue = "CallOverdue"

	// ReasonUnregistered: the API server does not know whom to ask, since the webhook configuration
	// could not be stored.
	ReasonUnregistered = "Unregistered"

	// ReasonUnreachable: the API server was told whom to ask, and cannot reach it. The message is its
	// own.
	ReasonUnreachable = "Unreachable"

	// ReasonSuspended: the spec asks that nothing be done.
	ReasonSuspended = "Suspended"

	// ReasonReleasing: the controller is being deleted, and its finalizers are removed from its parents.
	ReasonReleasing = "Releasing"

	// ReasonNotAccepted: see ConditionAccepted.
	ReasonNotAccepted = "NotAccepted"
)
