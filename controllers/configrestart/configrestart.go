// Package configrestart has pods come back with their new configuration: when the
// data of a ConfigMap changes whose annotation selects pods, those that were there
// before leave, and whoever controls them starts others.
//
// Here lives what is decided about pods and what is told of it. What must not: how
// a change is noticed, remembered across restarts, held back until it settles and
// written, which is the SDK's; it is used through the door that everybody has.
// Programs add it to their App, as examples/config-restart does.
//
// # What survives a restart of the program
//
// That a change was not dealt with: the ConfigMap's record has a digest of the data,
// so that a change made while nobody looked is noticed at the start. And, once pods
// begin to leave, since when the data is as it is: pods that were created later have
// it, and stay. Who is next is seen by looking at the pods. What is forgotten is how
// many were ready before the last one left: right after a restart, no more is asked
// of those that came since than to be ready. A pod that came between a change nobody
// saw and the start of the program is restarted once in vain.
package configrestart

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
)

// The annotations of a ConfigMap.
const (
	// Selector is a label selector, such as "app=frontend": the pods in the
	// ConfigMap's namespace that match it are restarted when its data changes.
	Selector = "magalix.com/podDeleteMatch"
	// AllAtOnce is "true" where pods are to be deleted all at once, whatever a
	// PodDisruptionBudget says, and "false" or absent where they are to be evicted one
	// by one.
	AllAtOnce = "config-restart.setpoint.dev/all-at-once"
)

// Options say how patient the controller is.
type Options struct {
	// Debounce is how long the data has to stay the same before pods leave: 2s if zero.
	Debounce time.Duration
	// ReplacementTimeout is how long a replacement may take to show up, before the next pod
	// leaves without it: somebody may have scaled down. 1m if zero. A replacement that
	// is there and not ready is waited for without end.
	ReplacementTimeout time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Add adds the controller to an app. The namespaces are those of the app's run.
func Add(app *setpoint.App, o Options) {
	r := &restarter{replacementTimeout: cmp.Or(o.ReplacementTimeout, time.Minute), now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	annotated := setpoint.Annotations(Selector)
	annotationFields := setpoint.Field(`metadata.annotations["`+Selector+`"]`, `metadata.annotations["`+AllAtOnce+`"]`)

	maps := setpoint.For[corev1.ConfigMap](app)
	maps.Reads(&corev1.Pod{})
	maps.Deletes(&corev1.Pod{})
	maps.Evicts()
	maps.OnCreate("check", check, annotated, annotationFields)
	maps.OnUpdate("check", check)
	maps.OnUpdate("restart", r.restart, annotated, setpoint.Field("data", "binaryData"),
		setpoint.Debounce(cmp.Or(o.Debounce, 2*time.Second)), setpoint.Timeout(30*time.Second))
}
