package object

import "slices"

// BesideOwner removes the objects outside of the namespace of their owner, if it has one. It changes the
// slice.
func BesideOwner(owned []*Object, owner *Object) []*Object {
	if owner.Namespace() == "" {
		return owned
	}
	return slices.DeleteFunc(owned, func(o *Object) bool { return o.Namespace() != owner.Namespace() })
}
