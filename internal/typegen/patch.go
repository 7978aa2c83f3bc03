package typegen

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// patchOf returns the type of JSON merge patches: no field is required, and null removes one.
func (b *builder) patchOf(t *Type) *Type {
	switch t.form {
	case objectForm:
		return reference(b.patchOfObject(t.object))
	case mapForm:
		return mapOf(orNull(b.patchOf(t.of[0])))
	case unionForm:
		all := lists.Map(t.of, b.patchOf)
		return union(all...)
	}
	return t
}

func (b *builder) patchOfObject(o *Object) *Object {
	if known := b.patches[o]; known != nil {
		return known
	}
	patch := b.declare(o.name + "Patch")
	b.patches[o] = patch // A type may contain itself.
	patch.doc = "A JSON merge patch of " + o.name + ": null removes a field."
	patch.open = o.open
	for _, f := range o.fields {
		patch.fields = append(patch.fields, field{name: f.name, doc: f.doc, typ: orNull(b.patchOf(f.typ))})
	}
	return patch
}

// patchOfKind returns the type of merge patches of a whole object. A handler changes labels and
// annotations, and has the status apart.
func (b *builder) patchOfKind(k *typedKind) *Type {
	if patch := b.patches[k.object]; patch != nil {
		return reference(patch)
	}
	own := *k.object
	own.fields = slices.DeleteFunc(slices.Clone(own.fields), func(f field) bool {
		return slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, f.name)
	})
	patch := b.patchOfObject(&own)
	patch.fields = slices.Insert(patch.fields, 0, field{name: "metadata", typ: b.wireType("MetadataPatch")})
	b.patches[k.object] = patch
	return reference(patch)
}
