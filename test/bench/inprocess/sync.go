package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// composer says what there should be, as the hook does in another process.
func (w *worker) composer(o *options) *setpoint.App {
	app := setpoint.New("bench")
	things := setpoint.Compose[thing.Thing](app, setpoint.Kind(apiVersion, thing.Kind))
	things.Owns(&corev1.ConfigMap{})
	things.Sync(w.sync)
	if o.resync > 0 {
		things.Resync(o.resync)
	}
	if o.related {
		things.Customize(w.relate)
	}
	return app
}

// sync counts as ready the children that are there with the parent's value.
func (w *worker) sync(_ context.Context, f *setpoint.ComposeContext[thing.Thing]) error {
	at, parent := time.Now(), f.Parent
	w.recorder.Entered(parent.Name, parent.Spec.Value, at)
	w.showRelated(f, at)
	for j := range parent.Spec.Children {
		f.Apply(child(parent, j))
	}
	parent.Status = thing.Status{Value: parent.Spec.Value, ObservedGeneration: parent.Generation}
	var observed []corev1.ConfigMap
	f.Children(&observed)
	for i := range observed {
		if observed[i].Data[thing.ValueKey] == parent.Spec.Value {
			parent.Status.Ready++
		}
	}
	return nil
}

// showRelated records what the parent reads.
func (w *worker) showRelated(f *setpoint.ComposeContext[thing.Thing], at time.Time) {
	if f.Parent.Spec.Shared == "" {
		return
	}
	var shared []corev1.ConfigMap
	f.Related(&shared)
	for i := range shared {
		w.recorder.Shown(f.Parent.Name, shared[i].Data[thing.ValueKey], at)
	}
}

// relate wants to be shown the ConfigMap that the parent names.
func (w *worker) relate(_ context.Context, parent *thing.Thing) ([]setpoint.RelatedRule, error) {
	w.recorder.Customized()
	if parent.Spec.Shared == "" {
		return nil, nil
	}
	return []setpoint.RelatedRule{{Object: &corev1.ConfigMap{}, Namespace: parent.Namespace, Names: []string{parent.Spec.Shared}}}, nil
}
