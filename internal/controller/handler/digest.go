package handler

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// annotationPrefix is that of Setpoint's own annotations, kopfAnnotationPrefix that of Kopf's
// records, and lastAppliedAnnotation is kubectl's. Handlers never watch them: two controllers
// that did would trigger each other forever.
const (
	annotationPrefix      = "setpoint.dev/"
	kopfAnnotationPrefix  = "kopf.zalando.org/"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// digestBytes is the length of a truncated hash.
const digestBytes = 9

// decodeObject decodes a JSON object; integers stay integers. Other values become an empty
// object, so that lookups find nothing.
func decodeObject(data []byte) map[string]any {
	fields, err := object.Decode(data)
	if err != nil || fields == nil {
		return map[string]any{}
	}
	return fields
}

// watchedFields returns the part of an object that a handler watches.
func (h *Handler) watchedFields(o *object.Object) map[string]any {
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
	whole := decodeObject(o.JSON())
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
	delete(status, HandledStatusField)
	if isObject && len(status) == 0 {
		delete(whole, "status")
	}
}

// differs reports whether more of an object differs than the records of handlers, which Setpoint
// writes after each call.
func differs(old, now *object.Object) bool {
	return old.Digest() != now.Digest() && !reflect.DeepEqual(withoutRecords(old), withoutRecords(now))
}

func withoutRecords(o *object.Object) map[string]any {
	whole := decodeObject(o.JSON())
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		delete(metadata, "resourceVersion")
	}
	removeBookkeeping(whole)
	return whole
}

// digest returns a short hash of a tree. It is the same in every process, because members are
// written in order.
func digest(of any) string {
	sum := sha256.Sum256(toJSON(of))
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// watchedDigests returns a digest of the watched fields for each handler. Handlers that watch
// the whole object share one.
func (p *Program) watchedDigests(o *object.Object) []string {
	digests, whole := make([]string, len(p.Handlers)), ""
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if len(h.Fields) > 0 {
			digests[i] = digest(h.watchedFields(o))
			continue
		}
		if whole == "" {
			whole = digest(watchableFields(o, h.IgnoredAnnotations...))
		}
		digests[i] = whole
	}
	return digests
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

// watchedDigestsOf returns the watched digests of the stored object or a former version of it.
func (r *run) watchedDigestsOf(o *object.Object) []string {
	if d := &r.digests; d.object != o {
		if d.object == nil || !r.program.differsOnlyInStatus(d.object, o) {
			d.watched = r.program.watchedDigests(o)
		}
		d.object = o
	}
	return r.digests.watched
}

// differsOnlyInStatus reports whether no watched field can have changed: the API server counts
// generations and the generation is the same. A dry run may change an object without a new
// generation.
func (p *Program) differsOnlyInStatus(former, o *object.Object) bool {
	counts := p.Resource.Custom && p.Resource.Status && o.Generation() > 0 && former.Version() < o.Version()
	return counts && former.UID() == o.UID() && former.IntentDigest() == o.IntentDigest() &&
		!slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.watchesStatus() })
}
