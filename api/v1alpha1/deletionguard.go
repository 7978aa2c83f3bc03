package v1alpha1

// DeletionGuard holds deletions that nothing but a response of the hook explains, when they are too many at
// once: more than maxDeletions, and more than maxPercent of all children of the controller, wanted now or
// made within ten minutes. What follows a change of the spec of a parent, or its deletion, does not count,
// nor does a child that is deleted to be created anew. A person lets held deletions go on, with
// `setpoint allow-deletions` or the annotation setpoint.dev/allow-deletions; all other writes go on.
type DeletionGuard struct {
	// mode is Enabled or Disabled. Default Enabled.
	// +optional
	// +kubebuilder:default=Enabled
	Mode DeletionGuardMode `json:"mode,omitempty"`

	// maxDeletions is how many deletions are never held. Default 5. With 0, and maxPercent 0, each one is.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	MaxDeletions *int32 `json:"maxDeletions,omitempty"`

	// maxPercent is the share of all children of the controller up to which deletions are not held.
	// Default 25.
	// +optional
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxPercent *int32 `json:"maxPercent,omitempty"`
}

// DeletionGuardMode says whether deletions may be held.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type DeletionGuardMode string

// The modes of a deletion guard.
const (
	DeletionGuardEnabled  DeletionGuardMode = "Enabled"
	DeletionGuardDisabled DeletionGuardMode = "Disabled"

	// DefaultMaxDeletions and DefaultMaxPercent are meant by absent fields.
	DefaultMaxDeletions = 5
	DefaultMaxPercent   = 25
)

// HeldDeletions are deletions that the deletion guard holds.
type HeldDeletions struct {
	// count is how many.
	// +required
	Count int32 `json:"count"`

	// parents is of how many parents the children are.
	// +required
	Parents int32 `json:"parents"`

	// value confirms them, as the value of the annotation setpoint.dev/allow-deletions on the controller.
	// +required
	Value string `json:"value"`
}
