// Package configrestart restarts pods when the data of a ConfigMap changes: the
// annotation of the ConfigMap selects the pods, and their controllers create new ones.
//
// It decides which pods to delete and reports it. The SDK observes changes, debounces
// them, records them across restarts, and writes; the package uses public API only.
// Programs add it to their App, like examples/config-restart.
//
// # Restarts of the program
//
// The ConfigMap's record has a digest of the data, so that a change while the program was
// not running is handled at the start. Once pods are being deleted, it also has the time
// of the change: pods created later have the new data, and stay. The next pod follows
// from the observed pods. The program forgets how many pods were ready before the last
// deletion: after a restart it waits only until the new pods are ready. A pod created
// between a change and the start of the program is restarted once in vain.
package configrestart

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
)

// The annotations of a ConfigMap.
const (
	// Selector is a label selector, such as "app=frontend". Matching pods in the
	// ConfigMap's namespace are restarted when its data changes.
	Selector = "magalix.com/podDeleteMatch"
	// AllAtOnce is "true" to delete all pods at once regardless of PodDisruptionBudgets,
	// and "false" or absent to evict them one by one.
	AllAtOnce = "config-restart.setpoint.dev/all-at-once"
)

// Options configure the controller.
type Options struct {
	// Debounce is how long the data must not change before pods are deleted, 2s by
	// default.
	Debounce time.Duration
	// ReplacementTimeout is how long the controller waits for a replacement to be created
	// before it deletes the next pod, because a user may have scaled down; 1m by default.
	// It waits without limit for a replacement that is not ready.
	ReplacementTimeout time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Add adds the controller to an app.
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
	maps.Handle("check", check, annotated, annotationFields).OnCreate().OnUpdate()
	maps.Handle("restart", r.restart, annotated, setpoint.Field("data", "binaryData"),
		setpoint.Debounce(cmp.Or(o.Debounce, 2*time.Second)), setpoint.Timeout(30*time.Second)).OnUpdate()
}
