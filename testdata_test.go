package setpoint_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rateCRD defines the kind of the tests.
const rateCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: exchangerates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: ExchangeRate, plural: exchangerates}
  versions:
  - {name: v1beta1, served: true, storage: false}
  - {name: v1, served: true, storage: true}
`

// ExchangeRate is a kind as a user writes its type.
type ExchangeRate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   RateSpec   `json:"spec"`
	Status RateStatus `json:"status,omitzero"`
}

type RateSpec struct {
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`
	Source   Source `json:"source,omitzero"`
}

type Source struct {
	Host string `json:"host,omitempty"`
	Port int64  `json:"port,omitempty"`
}

type RateStatus struct {
	Rate   string   `json:"rate,omitempty"`
	Places []string `json:"places,omitempty"`
}
