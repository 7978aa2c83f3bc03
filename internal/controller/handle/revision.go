package handle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The marks of a revision: whose state it keeps, and in which record it is named.
const (
	objectLabel     = "setpoint.dev/object-uid"
	annotationLabel = "setpoint.dev/record"
)

// maxRevisionBytes is how many bytes of an object are kept at most. A request to etcd has
// room for 1.5 MiB, envelope and all.
const maxRevisionBytes = 1_400_000

// hashLength is how many digits of a hash a revision's name ends in.
const hashLength = 32

// ValidateKeepPreviousState says whether what handlers watch of a kind may be kept in
// ControllerRevisions: the error says why not.
func ValidateKeepPreviousState(kind object.GroupKind) error {
	if kind == (object.GroupKind{Kind: "Secret"}) {
		return errors.New("a ControllerRevision of a Secret would expose its data; its previous state is kept in memory only")
	}
	return nil
}

// KeepsPreviousState says whether a handler wants to know after a restart what it has dealt with.
func (p *Program) KeepsPreviousState() bool {
	for i := range p.Handlers {
		if p.Handlers[i].KeepPreviousState {
			return true
		}
	}
	return false
}

// revisionNamespace is the namespace in which the revisions of an object lie.
func (p *Program) revisionNamespace(of *object.Object) string {
	if p.Resource.Namespaced {
		return of.Namespace()
	}
	return p.Namespace
}

// annotationName is the record's, as the value of a label.
func (p *Program) annotationName() string {
	return p.HandledAnnotation[strings.IndexByte(p.HandledAnnotation, '/')+1:]
}

// revisionName is such as "rates.example.org-5f2b…". The hash says it all: whose
// state, in which record, and the digest by which the record knows it. What an entry
// does not name is never taken for what it has seen.
func (p *Program) revisionName(uid, seen string) string {
	h := sha256.New()
	for _, part := range []string{uid, p.HandledAnnotation, seen} {
		// A length before each keeps one from running over into the next.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	kind := p.Resource.Plural
	if p.Resource.Group != "" {
		kind += "." + p.Resource.Group
	}
	kind = kind[:min(len(kind), validation.DNS1123SubdomainMaxLength-hashLength-1)]
	return strings.TrimRight(kind, ".-") + "-" + hex.EncodeToString(h.Sum(nil))[:hashLength]
}

// revisionOf is the ControllerRevision that keeps a part of an object. It belongs to
// the object and goes with it. It is not controlled by it: it is none of the objects
// that handlers own.
func (p *Program) revisionOf(o *object.Object, seen string, part map[string]any, number int64) (*object.Object, error) {
	return newObject(map[string]any{
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

// revisionState is what a revision keeps, if that is what an entry has seen.
func revisionState(revision *object.Object, seen string) (map[string]any, bool) {
	part := decodeObject(revision.Field("data", "object"))
	return part, digest(part) == seen
}

// revisionNumber is a revision's number; zero if it has none.
func revisionNumber(revision *object.Object) int64 {
	var number int64
	_ = json.Unmarshal(revision.Field("revision"), &number)
	return number
}

// previousObject is an object as it was, as far as it was watched.
func previousObject(o *object.Object, part map[string]any) (*object.Object, error) {
	metadata := map[string]any{"name": o.Name(), "uid": o.UID()}
	if o.Namespace() != "" {
		metadata["namespace"] = o.Namespace()
	}
	return newObject(combinePatches(part, map[string]any{"apiVersion": o.APIVersion(), "kind": o.Kind(), "metadata": metadata}))
}
