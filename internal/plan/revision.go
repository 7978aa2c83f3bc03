package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ControllerRevisions is the kind in which revisions are kept. It is there on
// every cluster, belongs to a namespace, and its data cannot be changed.
var ControllerRevisions = object.Resource{
	Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true,
}

// The marks of a revision.
const (
	// ParentUIDLabel is on every revision. A watch that asks for it brings
	// nobody else's.
	ParentUIDLabel = "setpoint.dev/parent-uid"
	// The kind of the parent is for users who list revisions.
	parentGroupLabel    = "setpoint.dev/parent-group"
	parentResourceLabel = "setpoint.dev/parent-resource"
	// controllerAnnotation tells apart the revisions of two controllers that
	// care for one parent.
	controllerAnnotation = "setpoint.dev/controller"
	// claimsAnnotation is which children still follow a former revision.
	claimsAnnotation = "setpoint.dev/children"
)

// Revisions says what the revisions of a controller's parents are, and how they
// are kept.
type Revisions struct {
	// Controller is the name of the controller.
	Controller string
	// Parents is their kind.
	Parents object.Resource
	// FieldPaths are the fields whose change makes a new revision; the whole
	// spec if there is none.
	FieldPaths [][]string
	// Namespace is where the revisions of cluster-scoped parents are kept.
	Namespace string
}

// Revision is one setting of the fields of a parent that are rolled out.
type Revision struct {
	// Name is that of its ControllerRevision. It is made of the fields, so that
	// a parent which is set back is at its former revision again.
	Name string
	// Number is the higher the later the parent came to be at it.
	Number int64
	// Claims are the children that still follow a former revision. The latest
	// has none: all that no former one claims follow it.
	Claims Claims
	// Stored is the ControllerRevision; nil where it is yet to be created.
	Stored *object.Object
	// patch are the fields, for one that is yet to be created.
	patch json.RawMessage
}

// unknown stands for all that a parent was at before any revision of it was
// kept: its rule was no rolling one, it had another controller, or what was kept
// is lost. Its children wait for their turn like others; nobody can be asked what
// it wants of them, so that they stay as they are until then.
const unknown = "unknown"

// Known says whether it is known what the parent was at that revision.
func (r Revision) Known() bool {
	return r.Stored != nil && r.Stored.Field("data", "parentPatch") != nil
}

// isRevision says that an object is a revision kept by Setpoint. It belongs to a
// parent, and is no child of it even where the controller has children of the kind.
func isRevision(o *object.Object) bool {
	return o.GroupKind() == ControllerRevisions.GroupKind() && o.Labels().Has(ParentUIDLabel)
}

func (k Revisions) paths() [][]string {
	if len(k.FieldPaths) == 0 {
		return [][]string{{"spec"}}
	}
	return k.FieldPaths
}

// current is the revision that a parent is at.
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
		setMember(fields, value, path)
	}
	patch, err := json.Marshal(fields)
	return Revision{Name: k.name(parent, patch), patch: patch}, err
}

// setMember sets a member of a tree, and makes the objects on the way.
func setMember(fields map[string]any, value any, path []string) {
	for _, name := range path[:len(path)-1] {
		inner, isObject := fields[name].(map[string]any)
		if !isObject {
			inner = map[string]any{}
			fields[name] = inner
		}
		fields = inner
	}
	fields[path[len(path)-1]] = value
}

// hashLength is how many digits of a hash a name ends in.
const hashLength = 32

// name is such as "shops.example.org-5f2b…". The hash says it all; what comes
// before it is for people, and gives way where a name may not be as long.
func (k Revisions) name(parent *object.Object, patch []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(parent.UID()), []byte(k.Controller), patch} {
		// A length before each keeps one from running over into the next.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	kind := k.Parents.Plural + "." + groupName(k.Parents.Group)
	kind = kind[:min(len(kind), validation.DNS1123SubdomainMaxLength-hashLength-1)]
	return strings.TrimRight(kind, ".-") + "-" + hex.EncodeToString(h.Sum(nil))[:hashLength]
}

func groupName(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

// parentAt is the parent as it was at a former revision: all is as it is now, but
// for the fields that are rolled out.
func (k Revisions) parentAt(now *object.Object, at Revision) (*object.Object, error) {
	var edits []object.Edit
	for _, path := range k.paths() {
		value := at.Stored.Field(append([]string{"data", "parentPatch"}, path...)...)
		edits = append(edits, object.Edit{Value: value, Path: path})
	}
	then, err := now.Edited(edits...)
	if err != nil {
		return nil, fmt.Errorf("show %s as at revision %s: %w", now.Ref(), at.Name, err)
	}
	return then, nil
}

// create is the revision's new ControllerRevision.
func (k Revisions) create(parent *object.Object, r Revision) (*object.Object, error) {
	namespace := parent.Namespace()
	if namespace == "" {
		namespace = k.Namespace
	}
	data := map[string]any{}
	if r.patch != nil {
		data["parentPatch"] = r.patch
	}
	return objectOf(map[string]any{
		"apiVersion": ControllerRevisions.APIVersion(),
		"kind":       ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name":            r.Name,
			"namespace":       namespace,
			"labels":          k.labels(parent),
			"annotations":     map[string]any{controllerAnnotation: k.Controller},
			"ownerReferences": []any{ownerReferenceTo(parent)},
		},
		"data":     data,
		"revision": r.Number,
	})
}

// labels leave out what is no label's value, such as a long group.
func (k Revisions) labels(parent *object.Object) map[string]any {
	all := map[string]any{ParentUIDLabel: parent.UID()}
	for label, value := range map[string]string{
		parentGroupLabel: groupName(k.Parents.Group), parentResourceLabel: k.Parents.Plural,
	} {
		if len(validation.IsValidLabelValue(value)) == 0 {
			all[label] = value
		}
	}
	return all
}
