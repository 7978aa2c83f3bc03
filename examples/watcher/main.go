// Command watcher adds containers to pods before they are stored, each with a ConfigMap,
// as defined by objects of kind Watcher.
//
// The flags are those of every App: see --help.
package main

import (
	"context"
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/examples/watcher/v1alpha1"
)

//go:embed watch.my.domain_watchers.yaml
var crd []byte

func main() { newApp().Main() }

func newApp() *setpoint.App {
	app := setpoint.New("watcher")
	app.InstallCRDs(crd)

	watchers := setpoint.For[v1alpha1.Watcher](app)
	watchers.Owns(&corev1.ConfigMap{})
	watchers.Handle("configure", configure, setpoint.Field("spec.configData", "spec.configBinaryData", "spec.podSelector")).
		OnCreate().OnUpdate().OnDrift()

	i := injector{setpoint.NewIndex(watchers, func(w *v1alpha1.Watcher) []string { return []string{w.Namespace} })}
	pods := setpoint.For[corev1.Pod](app)
	// Mirror pods of static pods must not change.
	notMirrored := setpoint.Match("not-mirrored", "!("+annotated+"'kubernetes.io/config.mirror' in object.metadata.annotations)")
	pods.Mutate("inject", i.inject, setpoint.Reinvoke(), notMirrored)
	pods.Validate("complete", i.complete, setpoint.On(setpoint.OperationCreate), notMirrored, setpoint.Match("required",
		annotated+"'"+requiredAnnotation+"' in object.metadata.annotations && object.metadata.annotations['"+requiredAnnotation+
			"'] == 'true'"))
	pods.Validate("complete-here", i.complete, setpoint.On(setpoint.OperationCreate), notMirrored,
		setpoint.NamespaceLabels(requiredAnnotation+"=true"))
	return app
}

// annotated begins CEL expressions on annotations.
const annotated = "has(object.metadata.annotations) && "

// configure writes the ConfigMap of a Watcher.
func configure(_ context.Context, c *setpoint.Call[v1alpha1.Watcher]) error {
	w := c.Object
	if _, err := metav1.LabelSelectorAsSelector(w.Spec.PodSelector); err != nil {
		return setpoint.Permanent(fmt.Errorf("spec.podSelector: %w", err))
	}
	wanted := &corev1.ConfigMap{Data: w.Spec.ConfigData, BinaryData: w.Spec.ConfigBinaryData}
	wanted.Name = configMapOf(w)
	var stored []corev1.ConfigMap
	c.Owned(&stored)
	for _, one := range stored {
		if c.Reason == setpoint.ReasonDrift && needsRecreate(&one, wanted) {
			c.Delete(&one) // Apply creates it again.
		}
	}
	c.Apply(wanted)
	w.Status.ConfigMapName = wanted.Name
	c.Condition(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Configured", Message: "the ConfigMap has the data"})
	return nil
}

func configMapOf(w *v1alpha1.Watcher) string { return w.Name + "-config" }

// needsRecreate reports changes of a ConfigMap that apply does not revert: added keys, or
// immutability.
func needsRecreate(stored, wanted *corev1.ConfigMap) bool {
	return stored.Immutable != nil ||
		!sets.KeySet(wanted.Data).IsSuperset(sets.KeySet(stored.Data)) ||
		!sets.KeySet(wanted.BinaryData).IsSuperset(sets.KeySet(stored.BinaryData))
}
