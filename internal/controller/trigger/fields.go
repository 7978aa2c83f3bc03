package trigger

import (
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ParseField parses the path of a field that a handler can watch.
func ParseField(text string) ([]string, error) {
	path, err := object.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if isSystemField(path) {
		return nil, fmt.Errorf("%q never changes or changes with every write; use fields of spec or status, labels or annotations", text)
	}
	return path, nil
}

// isSystemField reports whether the API server maintains a field.
func isSystemField(path []string) bool {
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations" && path[1] != "ownerReferences"
	}
	return false
}

// annotationPrefix is that of Setpoint's own annotations, kopfAnnotationPrefix that of Kopf's
// records, and lastAppliedAnnotation is kubectl's. Handlers never watch them: two controllers
// that did would trigger each other forever.
const (
	annotationPrefix      = "setpoint.dev/"
	kopfAnnotationPrefix  = "kopf.zalando.org/"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// WatchedFields returns the part of an object that a handler watches.
func (h *Handler) WatchedFields(o *object.Object) map[string]any {
	if len(h.Fields) == 0 {
		return watchableFields(o, h.IgnoredAnnotations...)
	}
	part := map[string]any{}
	for _, path := range h.Fields {
		if text := o.Field(path...); text != nil {
			var value any
			// The object was parsed before, so its parts are valid.
			_ = utiljson.Unmarshal(text, &value)
			object.SetField(part, value, path...)
		}
	}
	removeBookkeeping(part, h.IgnoredAnnotations...)
	return part
}

// Watches reports whether the handler watches a field or a part of it.
func (h *Handler) Watches(path []string) bool {
	if len(h.Fields) > 0 {
		return slices.ContainsFunc(h.Fields, func(watched []string) bool {
			return len(watched) <= len(path) && slices.Equal(watched, path[:len(watched)])
		})
	}
	switch path[0] {
	case "apiVersion", "kind", "status":
		return false
	case "metadata":
		return len(path) > 1 && (path[1] == "labels" || path[1] == "annotations")
	}
	return true
}

// watchableFields returns an object without its status and the metadata of other controllers, such as
// annotations with the ignored prefixes.
func watchableFields(o *object.Object, ignored ...string) map[string]any {
	whole := object.DecodeOrEmpty(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(whole, name)
	}
	metadata, _ := whole["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return name != "labels" && name != "annotations" })
	removeBookkeeping(whole, ignored...)
	return whole
}

// removeBookkeeping removes unwatched annotations and records in the status, and the objects
// that are empty then.
func removeBookkeeping(whole map[string]any, ignored ...string) {
	metadata, _ := whole["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool {
		return key == lastAppliedAnnotation || strings.HasPrefix(key, annotationPrefix) ||
			strings.HasPrefix(key, kopfAnnotationPrefix) ||
			slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	for _, name := range []string{"labels", "annotations"} {
		if members, isObject := metadata[name].(map[string]any); isObject && len(members) == 0 {
			delete(metadata, name)
		}
	}
	if metadata != nil && len(metadata) == 0 {
		delete(whole, "metadata")
	}
	status, isObject := whole["status"].(map[string]any)
	delete(status, lasthandled.StatusField)
	if isObject && len(status) == 0 {
		delete(whole, "status")
	}
}

// Differs reports whether more of an object differs than the records of handlers, which Setpoint
// writes after each call.
func Differs(old, now *object.Object) bool {
	return old.Digest() != now.Digest() && !reflect.DeepEqual(withoutRecords(old), withoutRecords(now))
}

func withoutRecords(o *object.Object) map[string]any {
	whole := object.DecodeOrEmpty(o.JSON())
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		delete(metadata, "resourceVersion")
	}
	removeBookkeeping(whole)
	return whole
}

// Changes returns how the fields that a handler watches differ, sorted by path.
func (h *Handler) Changes(old, now *object.Object) []hook.FieldChange {
	if old == nil || now == nil || old == now {
		return nil
	}
	before, after := h.WatchedFields(old), h.WatchedFields(now)
	// Metadata always exist. They only look deleted when nothing watched remains in them.
	for _, side := range []map[string]any{before, after} {
		if side["metadata"] == nil {
			side["metadata"] = map[string]any{}
		}
	}
	return changes(before, after)
}

// Compare returns how two JSON objects differ, sorted by path.
func Compare(old, now json.RawMessage) []hook.FieldChange {
	return changes(object.DecodeOrEmpty(old), object.DecodeOrEmpty(now))
}

func changes(old, now map[string]any) []hook.FieldChange {
	return lists.Map(object.Changes(old, now), func(change object.FieldChange) hook.FieldChange { return hook.FieldChange(change) })
}

// removeOwnCondition removes the condition that Setpoint itself sets.
func removeOwnCondition(whole map[string]any) {
	status, _ := whole["status"].(map[string]any)
	conditions, isList := status["conditions"].([]any)
	if !isList {
		return
	}
	status["conditions"] = slices.DeleteFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == ConditionHandled
	})
}

// countedDigest returns a digest of the fields that the generation of a custom resource counts.
func countedDigest(o *object.Object) string {
	whole := object.DecodeOrEmpty(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(whole, name)
	}
	return lasthandled.Digest(whole)
}

// digestCache has the digests of the objects that a run has seen. A version of an object never
// changes, so its digests stay valid.
type digestCache struct {
	object  *object.Object
	watched []string
	// state is the digest of the whole object stateOf.
	stateOf *object.Object
	state   string
	parts   map[*object.Object]string
}

// Owned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (d *digestCache) Owned(owned []*object.Object) string {
	parts := make([]string, 0, len(owned))
	for _, o := range owned {
		part, known := d.parts[o]
		if !known {
			part = ownedObjectDigest(o)
			if d.parts == nil {
				d.parts = map[*object.Object]string{}
			}
			d.parts[o] = part
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return lasthandled.Digest(parts)
}

// deploymentRevision is an annotation that Kubernetes sets on each rollout of a Deployment.
const deploymentRevision = "deployment.kubernetes.io/revision"

// ownedObjectDigest returns the digest of one owned object.
func ownedObjectDigest(o *object.Object) string {
	whole := watchableFields(o)
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, deploymentRevision)
	}
	removeBookkeeping(whole)
	return o.Ref().String() + " " + lasthandled.Digest(whole)
}
