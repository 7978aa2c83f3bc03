package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rollout moves the parents of a controller to changed hooks in steps. A version of the logic is what
// spec.hooks and spec.endpointConfigs say, with the code of inline hooks. Parents that have not moved yet are
// reconciled by the version before. A stable hash of the UID selects the parents of a step.
type Rollout struct {
	// steps are the shares of the parents that move one after the other. Default 5, 50 and 100 percent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.map(step, step.percent).isSorted()",message="percent must be greater in each step than in the one before"
	// +kubebuilder:validation:XValidation:rule="self.all(step, self.exists_one(other, other.percent == step.percent))",message="percent must be greater in each step than in the one before"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[self.size() - 1].percent == 100",message="the last step must have percent 100"
	Steps []RolloutStep `json:"steps,omitempty"`

	// shadow compares the versions before the first step: both are called for each parent, and nothing of the
	// response of the new one is written. Without it the first step begins at once.
	// +optional
	Shadow *RolloutShadow `json:"shadow,omitempty"`

	// parentsPerSecond is how many parents move per second at most, and for how many per second the versions are
	// compared. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	ParentsPerSecond int32 `json:"parentsPerSecond,omitempty"`

	// paused stops the rollout where it is. A rollback still happens.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// rollback says when all parents return to the version before. Deletions of a moved parent that the
	// deletion guard holds always do that.
	// +optional
	// +kubebuilder:default={}
	Rollback RolloutRollback `json:"rollback,omitzero"`
}

// RolloutShadow compares the version in the spec with the one before while all parents are reconciled by the
// latter. It ends when the versions were compared for all parents, and its pause is over. With spec.rollout.paused
// it goes on until that is false.
type RolloutShadow struct {
	// pause is how long the versions are compared once they were for each parent, as a duration such as 5m. Default
	// 1m.
	// +optional
	// +kubebuilder:default="1m"
	Pause PositiveDuration `json:"pause,omitzero"`

	// maxDifferentPercent is the share of the parents above which different responses stop the rollout before its
	// first step. Default 100: differences, which are the purpose of a change, do not stop it.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxDifferentPercent *int32 `json:"maxDifferentPercent,omitempty"`
}

// RolloutStep is one step of a rollout.
type RolloutStep struct {
	// percent is the share of all parents that have moved at the end of the step, at least one parent.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent"`

	// pause is how long the step is observed once the new version has reconciled all of its parents, as a
	// duration such as 5m. Default 1m, also for the last step.
	// +optional
	// +kubebuilder:default="1m"
	Pause PositiveDuration `json:"pause,omitzero"`
}

// RolloutRollback says when a rollout returns to the version before. The spec stays as it is.
type RolloutRollback struct {
	// errorPercent is the share of the moved parents, in the shadow of all parents, above which failures cause a
	// rollback. A failure is one
	// of the hook, of its response or of its writes, in three attempts in a row or without a retry. Parents
	// that failed before they moved do not count. Default 10. With 100 there is no rollback by failures, and the
	// rollout does not go on while moved parents fail.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ErrorPercent *int32 `json:"errorPercent,omitempty"`

	// when is a CEL expression over parent and children, the list of its children. If it is true for a moved
	// parent, all parents return. An error of its evaluation stops the rollout at its step.
	// +optional
	When Expression `json:"when,omitempty"`
}

// Defaults of a rollout.
const (
	DefaultParentsPerSecond     = 10
	DefaultRollbackErrorPercent = 10
	DefaultRolloutPause         = time.Minute // of a step and of the shadow
)

// RolloutPhase is the phase of a rollout.
type RolloutPhase string

// The phases of a rollout.
const (
	// RolloutInShadow: the responses of both versions are compared, and no parent has moved.
	RolloutInShadow RolloutPhase = "Shadow"
	// RolloutStepping: parents move, or the step is observed.
	RolloutStepping RolloutPhase = "Stepping"
	// RolloutRolledBack: all parents are reconciled by the version before.
	RolloutRolledBack RolloutPhase = "RolledBack"
	// RolloutComplete: all parents are reconciled by the version in the spec.
	RolloutComplete RolloutPhase = "Complete"
)

// RolloutStatus is the observed state of a rollout.
type RolloutStatus struct {
	// phase is Shadow, Stepping, RolledBack or Complete.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// from is the ControllerRevision of the version that reconciles the parents that have not moved. It is
	// empty in the phase Complete.
	// +optional
	From string `json:"from,omitempty"`

	// namespace is that of the ControllerRevisions.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// to is the ControllerRevision of the version in the spec.
	// +optional
	To string `json:"to,omitempty"`

	// previous is the ControllerRevision of the version that was complete before the one that is complete now, or
	// was before this rollout.
	// +optional
	Previous string `json:"previous,omitempty"`

	// step is the number of the current step, from 1; 0 in other phases than Stepping.
	// +optional
	Step int32 `json:"step,omitempty"`

	// percent is the share of the parents at the end of the current step.
	// +optional
	Percent int32 `json:"percent,omitempty"`

	// position is the upper end of the hashes of the parents that have moved, of 2^32.
	// +optional
	Position int64 `json:"position,omitempty"`

	// moved is the number of parents that have moved.
	// +optional
	Moved int32 `json:"moved,omitempty"`
	// reconciled is the number of moved parents that the new version has reconciled, or fails to as the version
	// before.
	// +optional
	Reconciled int32 `json:"reconciled,omitempty"`
	// total is the number of parents that the rollout waits for: all but paused and deleted ones.
	// +optional
	Total int32 `json:"total,omitempty"`

	// shadow is what the comparison of the versions has shown. It stays until the next rollout.
	// +optional
	Shadow *RolloutShadowStatus `json:"shadow,omitempty"`

	// since is when the phase or step began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// pausedSince is when the new version had reconciled all parents of the step, or was compared for all: the
	// beginning of the pause.
	// +optional
	PausedSince *metav1.Time `json:"pausedSince,omitempty"`

	// blocked is why the rollout does not go on, such as an error of rollback.when.
	// +optional
	Blocked string `json:"blocked,omitempty"`

	// message says what the rollout waits for, or why it was rolled back.
	// +optional
	Message string `json:"message,omitempty"`

	// retryAt is the value of the annotation setpoint.dev/rollout-retry-at that was last carried out.
	// +optional
	RetryAt string `json:"retryAt,omitempty"`
}

// RolloutShadowStatus counts parents by how the response of the new version compares. After a restart of Setpoint
// or of the controller, all parents are compared again.
type RolloutShadowStatus struct {
	// compared is the number of parents for which both versions were called, or for which the new one fails.
	// +optional
	Compared int32 `json:"compared"`
	// different is the number of them with another response.
	// +optional
	Different int32 `json:"different"`
	// failed is the number of them for which the new version fails, and the one before does not.
	// +optional
	Failed int32 `json:"failed"`
	// retrying is the number of parents whose latest attempts the new version fails, and which are compared again
	// before they count as failed.
	// +optional
	Retrying int32 `json:"retrying,omitempty"`
	// failure is an error of the new version, about one of the failed parents; if there are none, about one of those
	// that are compared again.
	// +optional
	Failure string `json:"failure,omitempty"`
	// wouldDelete are the existing children that the new version would delete, by kind, such as "3 ConfigMaps".
	// +optional
	WouldDelete string `json:"wouldDelete,omitempty"`
	// examples are some of the differences, the most severe first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Examples []RolloutDifference `json:"examples,omitempty"`
}

// RolloutDifference is a difference between the responses of two versions for a parent. Values of Secrets are
// hidden.
type RolloutDifference struct {
	// object is the parent.
	Object string `json:"object"`
	// consequence is what the difference leads to: WouldDelete, WouldCreate, WouldUpdate, StatusOnly, Failed, or
	// NotComparable.
	Consequence string `json:"consequence"`
	// text names the child and the path, such as "update ConfigMap shop/a: data.size is absent, was \"3\"".
	Text string `json:"text"`
}
