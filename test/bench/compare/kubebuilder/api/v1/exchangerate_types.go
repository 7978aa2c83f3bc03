package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExchangeRateSpec is the desired state.
type ExchangeRateSpec struct {
	// The currency, by its code.
	// +kubebuilder:validation:Enum=CAD;CHF;GBP;JPY;PLN;USD
	Currency string `json:"currency"`
}

// ExchangeRateStatus is the last good rate, and the currency it is of.
type ExchangeRateStatus struct {
	// The last good rate, as it stands in the ConfigMap.
	Rate string `json:"rate,omitempty"`
	// The currency that the last good rate is of.
	Currency string `json:"currency,omitempty"`
	// Handled says whether the rate service was last asked with success.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExchangeRate keeps what a euro is worth in another currency in a ConfigMap of its
// name.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=er
// +kubebuilder:printcolumn:name=Currency,type=string,JSONPath=`.spec.currency`
// +kubebuilder:printcolumn:name=Rate,type=string,JSONPath=`.status.rate`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ExchangeRate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExchangeRateSpec   `json:"spec"`
	Status ExchangeRateStatus `json:"status,omitempty"`
}

// ExchangeRateList is a list of them.
// +kubebuilder:object:root=true
type ExchangeRateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExchangeRate `json:"items"`
}
