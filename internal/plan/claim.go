package plan

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Claim is who belongs to a parent: the children it has, and the writes that
// take in orphans and let go of those that match its selector no more.
type Claim struct {
	Children []*object.Object
	Changes  []Action
}

// Claim sorts the objects of one kind that the parent owns, and the matching
// ones that nobody owns. A parent that is going away takes in nobody.
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
		released, err := withoutOwner(o, f.Parent.UID())
		if err != nil {
			return c, err
		}
		c.Changes = append(c.Changes, Action{Verb: Release, Resource: resource, Ref: o.Ref(), Before: o, After: released,
			Reason: "labels match the parent's selector no more"})
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

// The annotations by which decorators know their attachments. A parent may have
// a composite controller and several decorators.
const (
	DecoratorMark               = "setpoint.dev/decorator-controller"
	MetacontrollerDecoratorMark = "metacontroller.k8s.io/decorator-controller"
)

// Marks are all of them.
func Marks() []string { return []string{DecoratorMark, MetacontrollerDecoratorMark} }

func (f *Planner) isDecorator() bool { return f.Mark != Mark{} }

// manages says whether an object that the parent owns is this controller's
// business, not that of another one of the same parent.
func (f *Planner) manages(o *object.Object) bool {
	if f.isDecorator() {
		return f.Mark.On(o)
	}
	return !isRevision(o) && !slices.ContainsFunc(Marks(), func(key string) bool { return Annotation(o, key) != "" })
}

// On says whether an object carries the mark.
func (m Mark) On(o *object.Object) bool { return Annotation(o, m.Key) == m.Value }

// Annotation is the value of an annotation; "" if there is none.
func Annotation(o *object.Object, key string) string {
	if !bytes.Contains(o.JSON(), []byte(key)) {
		// Most objects do not have it, and looking for its place takes longer.
		return ""
	}
	var value string
	if field := o.Field("metadata", "annotations", key); field == nil || json.Unmarshal(field, &value) != nil {
		return ""
	}
	return value
}

// ownerReference in the API's form, as far as it is written here.
type ownerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
}

// ownerReferenceTo is the reference to a controlling owner.
func ownerReferenceTo(parent *object.Object) ownerReference {
	return ownerReference{
		APIVersion: parent.APIVersion(), Kind: parent.Kind(), Name: parent.Name(), UID: parent.UID(),
		Controller: true, BlockOwnerDeletion: true,
	}
}

// addOwner adds the parent as the controlling owner to the fields of a new object.
func addOwner(fields map[string]any, parent *object.Object) {
	metadata := fields["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	metadata["ownerReferences"] = append(owners, ownerReferenceTo(parent))
}

// withOwner adds the parent as the controlling owner.
func withOwner(o, parent *object.Object) (*object.Object, error) {
	owners, err := ownerReferences(o)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(ownerReferenceTo(parent))
	if err != nil {
		return nil, err
	}
	return setOwners(o, append(exceptOwner(owners, parent.UID()), own))
}

// withoutOwner removes the owner of a UID.
func withoutOwner(o *object.Object, uid string) (*object.Object, error) {
	owners, err := ownerReferences(o)
	if err != nil {
		return nil, err
	}
	return setOwners(o, exceptOwner(owners, uid))
}

func ownerReferences(o *object.Object) ([]json.RawMessage, error) {
	field := o.Field("metadata", "ownerReferences")
	if field == nil {
		return nil, nil
	}
	var owners []json.RawMessage
	err := json.Unmarshal(field, &owners)
	return owners, err
}

func setOwners(o *object.Object, owners []json.RawMessage) (*object.Object, error) {
	if len(owners) == 0 {
		return o.With(nil, "metadata", "ownerReferences")
	}
	text, err := json.Marshal(owners)
	if err != nil {
		return nil, err
	}
	return o.With(text, "metadata", "ownerReferences")
}

func exceptOwner(owners []json.RawMessage, uid string) []json.RawMessage {
	var kept []json.RawMessage
	for _, owner := range owners {
		var id struct{ UID string }
		if json.Unmarshal(owner, &id) == nil && id.UID == uid {
			continue
		}
		kept = append(kept, owner)
	}
	return kept
}
