package handler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The labels of a revision: the object and the record that names the revision.
const (
	objectLabel     = "setpoint.dev/object-uid"
	annotationLabel = "setpoint.dev/record"
)

// maxRevisionBytes limits the size of a stored state. A request to etcd is limited to 1.5 MiB.
const maxRevisionBytes = 1_400_000

// hashLength is the number of hash digits in a revision's name.
const hashLength = 32

// ValidateKeepPreviousState returns an error if the fields of a kind must not be stored in
// ControllerRevisions.
func ValidateKeepPreviousState(kind object.GroupKind) error {
	if kind == (object.GroupKind{Kind: "Secret"}) {
		return errors.New("a ControllerRevision of a Secret would expose its data; its previous state is kept in memory only")
	}
	return nil
}

// KeepsPreviousState reports whether a handler needs the previous state after a restart.
func (p *Program) KeepsPreviousState() bool {
	return slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.KeepPreviousState })
}

// revisionNamespace returns the namespace of an object's revisions.
func (p *Program) revisionNamespace(of *object.Object) string {
	if p.Resource.Namespaced {
		return of.Namespace()
	}
	return p.Namespace
}

// annotationName returns the annotation of the record as a label value.
func (p *Program) annotationName() string {
	return p.HandledAnnotation[strings.IndexByte(p.HandledAnnotation, '/')+1:]
}

// revisionName returns a name such as "rates.example.org-5f2b…". The hash includes the object,
// the record and the digest in the entry, so that a wrong revision is never used.
func (p *Program) revisionName(uid, seen string) string {
	h := sha256.New()
	for _, part := range []string{uid, p.HandledAnnotation, seen} {
		// The length keeps ("ab", "c") and ("a", "bc") apart.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	kind := p.Resource.Plural
	if p.Resource.Group != "" {
		kind += "." + p.Resource.Group
	}
	kind = kind[:min(len(kind), validation.DNS1123SubdomainMaxLength-hashLength-1)]
	return strings.TrimRight(kind, ".-") + "-" + hex.EncodeToString(h.Sum(nil))[:hashLength]
}

// revisionOf returns the ControllerRevision with the watched part of an object. The object
// owns it, so that both are deleted together, but does not control it: it is not an owned
// object of a handler.
func (p *Program) revisionOf(o *object.Object, seen string, part map[string]any, number int64) (*object.Object, error) {
	return object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(),
		"kind":       plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name":      p.revisionName(o.UID(), seen),
			"namespace": p.revisionNamespace(o),
			"labels":    map[string]any{objectLabel: o.UID(), annotationLabel: p.annotationName()},
			"ownerReferences": []any{map[string]any{
				"apiVersion": o.APIVersion(), "kind": o.Kind(), "name": o.Name(), "uid": o.UID(),
			}},
		},
		"data":     map[string]any{"object": part},
		"revision": number,
	})
}

// revisionState returns the state in a revision, if it is what an entry has seen.
func revisionState(revision *object.Object, seen string) (map[string]any, bool) {
	part := decodeObject(revision.Field("data", "object"))
	return part, digest(part) == seen
}

// revisionNumber returns a revision's number; zero if it has none.
func revisionNumber(revision *object.Object) int64 {
	var number int64
	_ = json.Unmarshal(revision.Field("revision"), &number)
	return number
}

// previousObject returns an object with the watched fields of an earlier state.
func previousObject(o *object.Object, part map[string]any) (*object.Object, error) {
	metadata := map[string]any{"name": o.Name(), "uid": o.UID()}
	if o.Namespace() != "" {
		metadata["namespace"] = o.Namespace()
	}
	return object.Encode(object.CombinePatches(part, map[string]any{"apiVersion": o.APIVersion(), "kind": o.Kind(), "metadata": metadata}))
}
