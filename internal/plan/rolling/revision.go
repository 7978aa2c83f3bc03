package rolling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// FieldPaths are the fields whose change makes a new revision, such as {"spec", "template"}; the whole spec if empty.
	FieldPaths [][]string
	// Namespace is where the revisions of cluster-scoped parents are stored.
	Namespace string
}

// Revision is one state of the fields of a parent that are rolled out.
type Revision struct {
	// Name is the name of its ControllerRevision. It is a hash of the fields: a reverted parent has it again.
	Name string
	// Number grows with each change of the revision.
	Number int64
	// Claims are the children that still follow a previous revision. The latest has none: all others follow it.
	Claims Claims
	// Children are the desired ones of a previous revision; nil if they are unknown: then existing ones stay as they are.
	Children []plan.Child
	// Stored is the ControllerRevision; nil if it has to be created.
	Stored *object.Object
	// patch has the fields of a revision that has to be created.
	patch json.RawMessage
}

// unknown names the state of a parent before its first revision was stored, or after revisions were lost. Its children
// wait like others. No hook can be called for it, so they stay as they are until then.
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

// maxClaims is the maximum size of the claims in bytes. The annotations of an object may have 256 KiB in total.
const maxClaims = 240 << 10

// Claims are the children that still follow a previous revision.
type Claims map[plan.Key]bool

// Has reports whether a child still follows the revision.
func (c Claims) Has(child *object.Object) bool { return c[plan.KeyOf(child)] }

// claimsList is the stored form of claims: names by namespace by kind, such as
// {"Pod":{"shop":["web-1","web-2"]}}. There may be thousands of children.
type claimsList map[string]map[string][]string

func (c Claims) encode() (string, error) {
	list := claimsList{}
	for _, child := range c.sorted() {
		kind := schema.GroupKind(child.Kind).String()
		if list[kind] == nil {
			list[kind] = map[string][]string{}
		}
		list[kind][child.Namespace] = append(list[kind][child.Namespace], child.Name)
	}
	text, err := json.Marshal(list)
	if err == nil && len(text) > maxClaims {
		err = fmt.Errorf("the names of the %d children to update take %d bytes, more than the %d that fit into an annotation; "+
			"use fewer children per parent, or the update method InPlace or Recreate", len(c), len(text), maxClaims)
	}
	return string(text), err
}

// sorted makes the stored form canonical, in which JSON orders kinds and namespaces.
func (c Claims) sorted() []plan.Key {
	return slices.SortedFunc(maps.Keys(c), func(a, b plan.Key) int { return cmp.Compare(a.Name, b.Name) })
}

// readClaims reads claims. It drops kinds that are no longer rolled out.
func readClaims(text string, rules plan.Rules) (Claims, error) {
	claims := Claims{}
	if text == "" {
		return claims, nil
	}
	var list claimsList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	for kind, namespaces := range list {
		of := object.GroupKind(schema.ParseGroupKind(kind))
		if rule, _ := rules.For(of); !rule.Method.Rolling() {
			continue
		}
		for namespace, names := range namespaces {
			for _, name := range names {
				claims[plan.Key{Kind: of, Namespace: namespace, Name: name}] = true
			}
		}
	}
	return claims, nil
}
