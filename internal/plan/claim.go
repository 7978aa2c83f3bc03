package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Claim is the result of claiming: the children of a parent, and the writes that adopt orphans and
// release children that no longer match the selector.
type Claim struct {
	Children []*object.Object
	Changes  []Action
}

// Claim claims objects of one kind: those that the parent owns, and matching orphans. A parent that
// is being deleted adopts nothing.
func (f *Planner) Claim(resource object.Resource, owned, orphans []*object.Object) (Claim, error) {
	c := Claim{Children: make([]*object.Object, 0, len(owned))}
	for _, o := range owned {
		if !f.manages(o) {
			continue
		}
		if f.isDecorator() || f.Selector.Matches(o.Labels()) || o.Deleting() || f.Parent.Deleting() {
			c.Children = append(c.Children, o)
			continue
		}
		released, err := replaceOwner(o, f.Parent.UID())
		if err != nil {
			return c, err
		}
		c.Changes = append(c.Changes, Action{Verb: Release, Resource: resource, Ref: o.Ref(), Before: o, After: released,
			Reason: "labels no longer match the parent's selector"})
	}
	if f.Parent.Deleting() || f.isDecorator() {
		return c, nil
	}
	for _, o := range orphans {
		if o.Deleting() {
			continue
		}
		adopted, err := withOwner(o, f.Parent)
		if err != nil {
			return c, err
		}
		c.Changes = append(c.Changes, Action{Verb: Adopt, Resource: resource, Ref: o.Ref(), Before: o, After: adopted,
			Reason: "labels match the parent's selector"})
	}
	return c, nil
}

// The annotations that mark attachments. A parent may have a composite controller and several
// decorators.
const (
	DecoratorMark               = "setpoint.dev/decorator-controller"
	MetacontrollerDecoratorMark = "metacontroller.k8s.io/decorator-controller"
)

// Marks returns the keys of all marks.
func Marks() []string { return []string{DecoratorMark, MetacontrollerDecoratorMark} }

func (f *Planner) isDecorator() bool { return f.Mark != Mark{} }

// manages reports whether an owned object belongs to this controller, not to another controller of
// the same parent.
func (f *Planner) manages(o *object.Object) bool {
	if f.isDecorator() {
		return f.Mark.On(o)
	}
	// A revision that Setpoint stores is no child, even if the controller has children of the kind.
	isRevision := o.GroupKind() == ControllerRevisions.GroupKind() && o.Labels().Has(ParentUIDLabel)
	return !isRevision && !slices.ContainsFunc(Marks(), func(key string) bool { return Annotation(o, key) != "" })
}

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

// OwnerReferenceTo returns a reference to the controlling owner.
func OwnerReferenceTo(parent *object.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: parent.APIVersion(), Kind: parent.Kind(), Name: parent.Name(), UID: types.UID(parent.UID()),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// addOwner adds the parent as the controlling owner of a new object.
func addOwner(fields map[string]any, parent *object.Object) {
	metadata := fields["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	metadata["ownerReferences"] = append(owners, OwnerReferenceTo(parent))
}

// withOwner returns an object with the parent as its controlling owner.
func withOwner(o, parent *object.Object) (*object.Object, error) {
	own, err := json.Marshal(OwnerReferenceTo(parent))
	if err != nil {
		return nil, err
	}
	return replaceOwner(o, parent.UID(), own)
}

// replaceOwner returns an object with other owner references in the place of those to one UID.
func replaceOwner(o *object.Object, uid string, by ...json.RawMessage) (*object.Object, error) {
	var owners []json.RawMessage
	if field := o.Field("metadata", "ownerReferences"); field != nil {
		if err := json.Unmarshal(field, &owners); err != nil {
			return nil, err
		}
	}
	owners = append(slices.DeleteFunc(owners, func(owner json.RawMessage) bool {
		var id struct{ UID string }
		return json.Unmarshal(owner, &id) == nil && id.UID == uid
	}), by...)
	if len(owners) == 0 {
		return o.With(nil, "metadata", "ownerReferences")
	}
	return o.WithValue(owners, "metadata", "ownerReferences")
}

// ControllerRevisions is the kind that stores revisions. Every cluster has it, it is namespaced,
// and its data is immutable.
var ControllerRevisions = object.Resource{
	Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true,
}

// revisionHash is how many hex digits of a hash the name of a revision has.
const revisionHash = 32

// RevisionName returns a name such as "shops.example.org-5f2b…", with a hash of parts. The prefix is for users, and cut
// to the maximum length of a name.
func RevisionName(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		// The length keeps ("ab", "c") and ("a", "bc") apart.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	prefix = prefix[:min(len(prefix), validation.DNS1123SubdomainMaxLength-revisionHash-1)]
	return strings.TrimRight(prefix, ".-") + "-" + hex.EncodeToString(h.Sum(nil))[:revisionHash]
}

// ParentUIDLabel is on every revision. Watches select it.
const ParentUIDLabel = "setpoint.dev/parent-uid"
