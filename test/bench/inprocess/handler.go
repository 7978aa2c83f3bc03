package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// worker does the reference work for handlers and Sync.
type worker struct{ recorder *probe.Recorder }

const apiVersion = thing.Group + "/" + thing.Version

// handlers do the work on events. A resync is a timer: Setpoint does not call handlers
// again for events that they have handled.
func (w *worker) handlers(o *options) *setpoint.App {
	app := setpoint.New("bench")
	app.InstallCRDs(thing.CRD)
	things := setpoint.For[thing.Thing](app, setpoint.Kind(apiVersion, thing.Kind))
	things.Owns(&corev1.ConfigMap{})
	publish := things.Handle("publish", w.publish, setpoint.Field("spec")).OnCreate().OnUpdate().OnDrift()
	if o.resync > 0 {
		publish.Every(o.resync)
	}
	return app
}

func (w *worker) publish(_ context.Context, c *setpoint.Call[thing.Thing]) error {
	parent := c.Object
	w.recorder.Entered(parent.Name, parent.Spec.Value, time.Now())
	for j := range parent.Spec.Children {
		c.Apply(child(parent, j))
	}
	parent.Status = thing.Status{
		Ready:              parent.Spec.Children,
		Value:              parent.Spec.Value,
		ObservedGeneration: parent.Generation,
	}
	return nil
}

// child is a parent's j-th child, as it is to be.
func child(parent *thing.Thing, j int) *corev1.ConfigMap {
	name := thing.ChildName(parent.Name, j)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       parent.Spec.Data(name),
	}
}
