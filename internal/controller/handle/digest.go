package handle

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ours is how annotations begin in which controllers of Setpoint keep accounts,
// and lastAppliedAnnotation the one in which kubectl does. Nobody watches them: two
// controllers that did would never leave each other alone.
const (
	annotationPrefix      = "setpoint.dev/"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// digestBytes is how many bytes of a hash tell one state from another.
const digestBytes = 9

// decodeObject decodes a JSON object; integers stay integers. What is no object is an
// empty one: what is asked for is looked up in it.
func decodeObject(data []byte) map[string]any {
	var t map[string]any
	if utiljson.Unmarshal(data, &t) != nil || t == nil {
		return map[string]any{}
	}
	return t
}

// watchedFields is the part of an object that a handler watches.
func (h *Handler) watchedFields(o *object.Object) map[string]any {
	if len(h.Fields) == 0 {
		return watchableFields(o)
	}
	part := map[string]any{}
	for _, path := range h.Fields {
		if text := o.Field(path...); text != nil {
			var value any
			// The object has been parsed: its parts are legal.
			_ = utiljson.Unmarshal(text, &value)
			setPath(part, value, path)
		}
	}
	removeBookkeeping(part)
	return part
}

// Watches says whether a field is one that the handler watches, or a part of it.
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

// setPath sets a value in a tree. Something on the way that is no object gives way.
func setPath(into map[string]any, value any, path []string) {
	for _, name := range path[:len(path)-1] {
		below, isObject := into[name].(map[string]any)
		if !isObject {
			below = map[string]any{}
			into[name] = below
		}
		into = below
	}
	into[path[len(path)-1]] = value
}

// watchableFields is all of an object but its status and what others keep in its
// metadata.
func watchableFields(o *object.Object) map[string]any {
	whole := decodeObject(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(whole, name)
	}
	metadata, _ := whole["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return name != "labels" && name != "annotations" })
	removeBookkeeping(whole)
	return whole
}

// removeBookkeeping removes the annotations that nobody watches, records in the status,
// and what is empty then.
func removeBookkeeping(whole map[string]any) {
	metadata, _ := whole["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool {
		return key == lastAppliedAnnotation || strings.HasPrefix(key, annotationPrefix)
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

// digest is a short hash of a tree, the same in every process: the members of
// objects are written in order.
func digest(of any) string {
	sum := sha256.Sum256(toJSON(of))
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// watchedDigests are the digests of what each handler watches of an object. Handlers
// that watch all of it share the work.
func (p *Program) watchedDigests(o *object.Object) []string {
	digests, whole := make([]string, len(p.Handlers)), ""
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if len(h.Fields) > 0 {
			digests[i] = digest(h.watchedFields(o))
			continue
		}
		if whole == "" {
			whole = digest(watchableFields(o))
		}
		digests[i] = whole
	}
	return digests
}

// deploymentRevision is written into a Deployment by Kubernetes each time it rolls out.
const deploymentRevision = "deployment.kubernetes.io/revision"

// digestCache are digests of objects that a run has looked at. What it wrote itself
// it sees again: an object never changes, another version of it is another one.
type digestCache struct {
	object  *object.Object
	watched []string
	parts   map[*object.Object]string
}

// watchedDigestsOf are the digests of what each handler watches of the object, which is
// the stored one or a former version of it.
func (r *run) watchedDigestsOf(o *object.Object) []string {
	if d := &r.digests; d.object != o {
		if d.object == nil || !r.program.differsOnlyInStatus(d.object, o) {
			d.watched = r.program.watchedDigests(o)
		}
		d.object = o
	}
	return r.digests.watched
}

// differsOnlyInStatus says that nothing of an object can have changed that a handler
// watches: the server stored it later and counts generations, and nobody watches the
// status. In a preview an object may be another one without that.
func (p *Program) differsOnlyInStatus(former, o *object.Object) bool {
	counts := p.Resource.Custom && p.Resource.Status && o.Generation() > 0 && former.Version() < o.Version()
	return counts && former.UID() == o.UID() && former.IntentDigest() == o.IntentDigest() &&
		!slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.watchesStatus() })
}

// owned is a digest of what somebody could have changed of owned objects. It does
// not depend on their order.
func (d *digestCache) owned(owned []*object.Object) string {
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
	return digest(parts)
}

// ownedObjectDigest is what one owned object is to the digest of all.
func ownedObjectDigest(o *object.Object) string {
	whole := watchableFields(o)
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, deploymentRevision)
	}
	removeBookkeeping(whole)
	return o.Ref().String() + " " + digest(whole)
}
