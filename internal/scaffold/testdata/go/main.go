// Command guitar-shop is the operator of shops.
//
// +groupName=example.com
// +versionName=v1
package main

import (
	"context"
	_ "embed"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
)

//go:generate go tool controller-gen crd paths=. output:crd:dir=.

// Shop has children.
//
// +kubebuilder:resource:path=shops
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
type Shop struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// spec is what the author of the object wants.
	// +required
	Spec ShopSpec `json:"spec"`
	// status is what the operator reports.
	// +optional
	Status ShopStatus `json:"status,omitzero"`
}

// ShopSpec is the spec of a Shop.
type ShopSpec struct {
	// message is what the children say.
	// +kubebuilder:validation:MinLength=1
	Message string `json:"message"`
}

// ShopStatus is the status of a Shop.
type ShopStatus struct {
	// ready says whether all children are there.
	// +optional
	Ready bool `json:"ready"`

	// observedGeneration is the generation that the status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are set by Setpoint, such as Synced.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

//go:embed example.com_shops.yaml
var crd []byte

func main() { newApp().Main() }

func newApp() *setpoint.App {
	app := setpoint.New("guitar-shop")
	app.InstallCRDs(crd)
	parents := setpoint.Compose[Shop](app)
	parents.Owns(&corev1.ConfigMap{})
	parents.Owns(&appsv1.Deployment{})
	parents.Owns(&corev1.PersistentVolumeClaim{})
	parents.Owns(&corev1.ServiceAccount{})
	parents.Owns(&corev1.Service{})
	parents.Sync(sync)
	return app
}

// sync returns the children and the status that a Shop should have. Setpoint calls it when the Shop or a
// child changes, and creates, updates or deletes what differs.
func sync(_ context.Context, c *setpoint.ComposeContext[Shop]) error {
	name, text := c.Parent.Name, c.Parent.Spec.Message
	meta := metav1.ObjectMeta{Name: name}
	labels := map[string]string{"app": name}
	c.Apply(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"message": text}})
	c.Apply(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "web", Image: "nginx:1.29", Env: []corev1.EnvVar{{Name: "MESSAGE", Value: text}}},
			}},
		},
	}})
	c.Apply(&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	c.Apply(&corev1.ServiceAccount{ObjectMeta: meta})
	c.Apply(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Port: 80}},
	}})
	c.Parent.Status.Ready = setpoint.Child[corev1.ConfigMap](c, name) != nil &&
		setpoint.Child[appsv1.Deployment](c, name) != nil &&
		setpoint.Child[corev1.PersistentVolumeClaim](c, name) != nil &&
		setpoint.Child[corev1.ServiceAccount](c, name) != nil &&
		setpoint.Child[corev1.Service](c, name) != nil
	return nil
}
