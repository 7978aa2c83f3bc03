package configrestart

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint"
)

// restartSettings are the annotations of a ConfigMap.
type restartSettings struct {
	selector  string
	allAtOnce bool
}

// parseAnnotations refuses ambiguous annotations.
func parseAnnotations(annotations map[string]string) (restartSettings, error) {
	w := restartSettings{selector: annotations[Selector]}
	selector, err := labels.Parse(w.selector)
	if err == nil && selector.Empty() {
		err = errors.New("it is empty and would select every pod")
	}
	if err != nil {
		return w, fmt.Errorf("the annotation %s must be a label selector, such as app=frontend: %w", Selector, err)
	}
	switch text := annotations[AllAtOnce]; text {
	case "true":
		w.allAtOnce = true
	case "", "false":
	default:
		return w, fmt.Errorf(`the annotation %s must be "true" or "false", not %q`, AllAtOnce, text)
	}
	return w, nil
}

// reasonInvalid: an annotation of a ConfigMap does not say which pods configrestart restarts, or how; the message says
// why. What to do: correct the annotation.
const reasonInvalid = "InvalidAnnotation"

// check reports invalid annotations before the data changes.
func check(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
	if _, err := parseAnnotations(c.Object.Annotations); err != nil {
		c.Log.Warn("invalid annotation", "error", err)
		c.Warn(reasonInvalid, "no pod is restarted: %s", err)
	}
	return nil
}
