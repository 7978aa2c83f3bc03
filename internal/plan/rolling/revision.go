package rolling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The labels and annotations of a revision.
const (
	// These two labels name the kind of the parent, for users who list revisions.
	parentGroupLabel    = "setpoint.dev/parent-group"
	parentResourceLabel = "setpoint.dev/parent-resource"
	// controllerAnnotation names the controller: a parent may have several.
	controllerAnnotation = "setpoint.dev/controller"
	// claimsAnnotation lists the children that still follow a previous revision.
	claimsAnnotation = "setpoint.dev/children"
)

// Revisions configures the revisions of a controller's parents.
type Revisions struct {
	// Controller is the name of the controller.
	Controller string
	// Parents is the kind of the parents.
	Parents object.Resource
	// FieldPaths are the fields whose change makes a new revision; the whole spec if empty.
	FieldPaths [][]string
	// Namespace is where the revisions of cluster-scoped parents are stored.
	Namespace string
}

// Revision is one state of the fields of a parent that are rolled out.
type Revision struct {
	// Name is the name of its ControllerRevision. It is a hash of the fields, so a parent that is
	// reverted has its previous revision again.
	Name string
	// Number grows with each change of the revision.
	Number int64
	// Claims are the children that still follow a previous revision. The latest has none: it has all
	// children that no previous revision claims.
	Claims Claims
	// Stored is the ControllerRevision; nil if it has to be created.
	Stored *object.Object
	// patch has the fields of a revision that has to be created.
	patch json.RawMessage
}

// unknown names the state of a parent before its first revision was stored, or after revisions were
// lost. Its children wait like others. No hook can be called for it, so they stay as they are until
// then.
const unknown = "unknown"

// Known reports whether the fields of the parent at that revision are known.
func (r Revision) Known() bool {
	return r.Stored != nil && r.Stored.Field("data", "parentPatch") != nil
}

func (k Revisions) paths() [][]string {
	if len(k.FieldPaths) == 0 {
		return [][]string{{"spec"}}
	}
	return k.FieldPaths
}

func (k Revisions) current(parent *object.Object) (Revision, error) {
	fields := map[string]any{}
	for _, path := range k.paths() {
		text := parent.Field(path...)
		if text == nil {
			continue
		}
		var value any
		if err := utiljson.Unmarshal(text, &value); err != nil {
			return Revision{}, fmt.Errorf("read %s of %s: %w", strings.Join(path, "."), parent.Ref(), err)
		}
		object.SetField(fields, value, path...)
	}
	patch, err := json.Marshal(fields)
	return Revision{Name: k.name(parent, string(patch)), patch: patch}, err
}

// name returns the name of the revision of a parent with a patch.
func (k Revisions) name(parent *object.Object, patch string) string {
	return plan.RevisionName(k.Parents.Plural+"."+cmp.Or(k.Parents.Group, "core"), parent.UID(), k.Controller, patch)
}

func (k Revisions) create(parent *object.Object, r Revision) (*object.Object, error) {
	data := map[string]any{}
	if r.patch != nil {
		data["parentPatch"] = r.patch
	}
	return object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(),
		"kind":       plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name":            r.Name,
			"namespace":       cmp.Or(parent.Namespace(), k.Namespace),
			"labels":          k.labels(parent),
			"annotations":     map[string]any{controllerAnnotation: k.Controller},
			"ownerReferences": []any{plan.OwnerReferenceTo(parent)},
		},
		"data":     data,
		"revision": r.Number,
	})
}

// labels leaves out invalid label values, such as a long group.
func (k Revisions) labels(parent *object.Object) map[string]any {
	all := map[string]any{plan.ParentUIDLabel: parent.UID()}
	for label, value := range map[string]string{
		parentGroupLabel: cmp.Or(k.Parents.Group, "core"), parentResourceLabel: k.Parents.Plural,
	} {
		if len(validation.IsValidLabelValue(value)) == 0 {
			all[label] = value
		}
	}
	return all
}
