package typegen

import (
	"slices"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// declared are the fields of all specs that types depend on. Those of metacontroller.k8s.io have the same names.
type declared struct {
	ParentResource, Resource                     Resource
	Resources, ChildResources, Attachments, Owns []Resource
	Hooks                                        struct{ Sync, Finalize, Customize *v1alpha1.Hook }
	Handlers                                     []v1alpha1.Handler
	Permissions                                  []struct{}
	Webhooks                                     []v1alpha1.AdmissionWebhook
}

// parents are the kinds whose objects the controller handles.
func (d *declared) parents() []Resource {
	all := slices.Concat(d.Resources, []Resource{d.ParentResource, d.Resource})
	return slices.DeleteFunc(all, func(r Resource) bool { return r == Resource{} })
}

func (b *builder) kindOf(r Resource) *typedKind { return b.kinds[b.resources[r]] }

func (b *builder) typeOfKind(r Resource) *Type { return reference(b.kindOf(r).object) }

// anyOf returns the type of objects of several kinds.
func (b *builder) anyOf(all []Resource) *Type { return union(lists.Map(all, b.typeOfKind)...) }

// groups returns the type of objects by kind and name.
func (b *builder) groups(name string, all []Resource, required bool) *Type {
	o := b.declare(name)
	o.doc = "Objects by their kind, and by namespace/name, or the name of a cluster-scoped one. In v1, the name alone if the parent is " +
		"namespaced too."
	keys := lists.Map(all, func(r Resource) string { return b.resources[r] })
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		o.fields = append(o.fields, field{name: key, typ: mapOf(reference(b.kinds[key].object)), required: required})
	}
	return reference(o)
}

// setTime says whether a request to some hooks has a time: those to inline hooks do, those to others do not.
func (o *Object) setTime(inline ...bool) {
	for i := range o.fields {
		if o.fields[i].name == "time" {
			o.fields[i].required = !slices.Contains(inline, false)
		}
	}
	o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return f.name == "time" && !slices.Contains(inline, true) })
}

// instance adds a type of wire.yaml with the types of a controller.
func (b *builder) instance(name, of string, bound map[string]*Type) *Object {
	o := b.declare(name)
	b.fill(o, b.wire[of], position{definitions: b.wire, bound: bound})
	return o
}
