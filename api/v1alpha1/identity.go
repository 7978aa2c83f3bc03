package v1alpha1

// Identity is the ServiceAccount as which a controller acts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccountNamespace) || has(self.serviceAccountName)",message="serviceAccountNamespace needs serviceAccountName"
type Identity struct {
	// serviceAccountName is the ServiceAccount as which Setpoint acts for this controller: it writes objects,
	// status and events and reads the Secrets of connections with the rights of this ServiceAccount, and hooks
	// get only what it may read. Without it, Setpoint acts with its own rights, or as its
	// --default-service-account.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// serviceAccountNamespace is its namespace. Without it, the ServiceAccount is that of this name in the
	// namespace of each parent or handled object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ServiceAccountNamespace string `json:"serviceAccountNamespace,omitempty"`
}
