package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The annotations that mark attachments. A parent may have a composite controller and several decorators.
const (
	DecoratorMark               = "setpoint.dev/decorator-controller"
	MetacontrollerDecoratorMark = "metacontroller.k8s.io/decorator-controller"
)

// Mark is the key and value of an annotation on attachments.
type Mark struct{ Key, Value string }

// On reports whether an object has the mark.
func (m Mark) On(o *object.Object) bool { return Annotation(o, m.Key) == m.Value }

// Annotation returns the value of an annotation; "" if there is none.
func Annotation(o *object.Object, key string) string {
	if !bytes.Contains(o.JSON(), []byte(key)) {
		// Most objects do not have it, and this check is faster than parsing.
		return ""
	}
	var value string
	if field := o.Field("metadata", "annotations", key); field == nil || json.Unmarshal(field, &value) != nil {
		return ""
	}
	return value
}

// ReconcileRequest is a value of the annotation setpoint.dev/reconcile-at as the commands and
// pages write it: "TIME by USER". Users may write any other value.
type ReconcileRequest struct {
	At time.Time
	// By is the name of the user, as the client wrote it. Only the audit log of the API server has a verified one.
	By string
}

// byUser separates the time and the user.
const byUser = " by "

// maxUser bounds the characters of a user, which the queue and the history keep.
const maxUser = 128

// String returns the value of the annotation.
func (r ReconcileRequest) String() string {
	text := r.At.UTC().Format(time.RFC3339Nano)
	if r.By != "" {
		text += byUser + r.By
	}
	return text
}

// ReconcileRequestOn returns the request in the annotation of an object, as far as it has the form that String writes.
func ReconcileRequestOn(o *object.Object) ReconcileRequest {
	at, by, _ := strings.Cut(Annotation(o, v1alpha1.AnnotationReconcileAt), byUser)
	var r ReconcileRequest
	r.At, _ = time.Parse(time.RFC3339Nano, at) // Zero after an error.
	if runes := []rune(by); len(runes) > maxUser {
		by = string(runes[:maxUser]) + "…"
	}
	r.By = by
	return r
}

// ReconcileRequested reports whether a change of an object requests a reconcile.
func ReconcileRequested(before, now *object.Object) bool {
	at := Annotation(now, v1alpha1.AnnotationReconcileAt)
	return at != "" && at != Annotation(before, v1alpha1.AnnotationReconcileAt)
}
