package v1alpha1

// DeletionGuard holds deletions that have no other cause than a response of the hook, when they are too many
// at once: more than maxDeletions, and more than maxPercent of all children of the controller that are
// desired now or were created within ten minutes. Deletions after a change of the spec of a parent, or after
// its deletion, do not count, and neither do recreated children. A user confirms held deletions with
// `setpoint allow-deletions` or the annotation setpoint.dev/allow-deletions. Setpoint makes all other writes.
type DeletionGuard struct {
	// mode is Enabled or Disabled. Default Enabled.
	// +optional
	// +kubebuilder:default=Enabled
	Mode DeletionGuardMode `json:"mode,omitempty"`

	// maxDeletions is how many deletions are never held. Default 5. With maxDeletions 0 and maxPercent 0,
	// every deletion is held.
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

// DeletionGuardMode enables or disables the deletion guard.
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
	// count is the number of held deletions.
	// +required
	Count int32 `json:"count"`

	// parents is the number of parents of these children.
	// +required
	Parents int32 `json:"parents"`

	// value confirms them, as the value of the annotation setpoint.dev/allow-deletions on the controller.
	// +required
	Value string `json:"value"`
}
