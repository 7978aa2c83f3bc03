// Package v1alpha1 is the API of Watchers.
//
// It has the types of the kind, from which its CRD is generated, and no behaviour. The
// operator imports it, and so does Go code that creates Watchers.
//
// +groupName=watch.my.domain
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:generate go tool -modfile=../../../tools/go.mod controller-gen crd paths=. output:crd:dir=..

// Watcher is a container that is added to pods, with a configuration of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wa
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.container.image`
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.status.configMapName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 246",message="its ConfigMap has a name that is longer by -config, which may have 253 characters"
type Watcher struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is added to which pods.
	// +required
	Spec WatcherSpec `json:"spec"`

	// status says where its configuration is.
	// +optional
	Status WatcherStatus `json:"status,omitzero"`
}

// WatcherSpec says what is added to which pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.container.image) && size(self.container.image) > 0",message="container.image is required",fieldPath=".container"
// +kubebuilder:validation:XValidation:rule="self.container.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="container.name must be made of small letters, digits and dashes, 63 at most",fieldPath=".container"
// +kubebuilder:validation:XValidation:rule="!has(self.container.restartPolicy)",message="container.restartPolicy is said by mode",fieldPath=".container"
type WatcherSpec struct {
	// container is added to the pods. The Watcher's ConfigMap is added to what it
	// takes its environment from. A volume that it mounts is the Watcher's or one
	// of the pod.
	// +required
	Container corev1.Container `json:"container"`

	// mode says which kind of container it is. A Job waits for the end of a
	// Container, and not for that of a Sidecar.
	// +optional
	// +kubebuilder:default=Container
	Mode Mode `json:"mode,omitempty"`

	// volume is added to the pods.
	// +optional
	Volume *corev1.Volume `json:"volume,omitempty"`

	// configData is the data of the Watcher's ConfigMap.
	// +optional
	ConfigData map[string]string `json:"configData,omitempty"`

	// configBinaryData is the binary data of the Watcher's ConfigMap.
	// +optional
	ConfigBinaryData map[string][]byte `json:"configBinaryData,omitempty"`

	// imagePullSecrets names a Secret that is added to those by which the pods'
	// images are pulled.
	// +optional
	ImagePullSecrets *corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// podSelector adds the container to all new pods of the namespace that match,
	// also if they do not ask for it. Without it, it is added to those that do.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// Mode says which kind of container is added.
//
// +kubebuilder:validation:Enum=Container;Sidecar
type Mode string

// The modes.
const (
	// ModeContainer is one more of the pod's containers.
	ModeContainer Mode = "Container"
	// ModeSidecar is an init container that runs as long as the pod does: it is
	// started before the others and ends after them.
	ModeSidecar Mode = "Sidecar"
)

// WatcherStatus says where a Watcher's configuration is.
type WatcherStatus struct {
	// configMapName is the ConfigMap with the configuration, in the Watcher's
	// namespace.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`

	// conditions say how it is doing. Ready: its ConfigMap is there and has the
	// data.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
