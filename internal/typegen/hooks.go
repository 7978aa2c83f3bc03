package typegen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hooks are the hooks of a controller and the kinds that they receive and return.
type hooks interface {
	resources() []Resource
	addTypes(b *builder, base string)
}

// controller is a controller with its hooks.
type controller struct {
	hooks

	kind, name, group string
}

// ourGroup has more fields in responses than metacontroller.k8s.io.
var ourGroup = v1alpha1.GroupVersion.Group

// readControllers reads controllers, sorted by their names.
func readControllers(all []*object.Object) ([]controller, error) {
	var read []controller
	for _, o := range all {
		c := controller{kind: o.Kind(), name: o.Name(), group: object.GroupOf(o.APIVersion())}
		spec := specOf(&c)
		if spec == nil {
			return nil, fmt.Errorf("%s/%s is no controller", o.Kind(), o.Name())
		}
		if err := json.Unmarshal(o.JSON(), &struct{ Spec any }{spec}); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.Kind(), o.Name(), err)
		}
		c.hooks = spec
		read = append(read, c)
	}
	slices.SortFunc(read, func(a, b controller) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group))
	})
	return read, nil
}

// specOf returns the spec to read. That of metacontroller.k8s.io has the same fields.
func specOf(c *controller) hooks {
	switch c.kind {
	case v1alpha1.CompositeControllerKind:
		return &composite{ours: c.group == ourGroup}
	case v1alpha1.DecoratorControllerKind:
		return &decorator{ours: c.group == ourGroup}
	case v1alpha1.HandlerControllerKind:
		return &handlers{}
	case v1alpha1.AdmissionControllerKind:
		return &admission{}
	}
	return nil
}

// addTo adds the requests and responses of the controller.
func (c *controller) addTo(b *builder) {
	base := camel(c.name)
	if b.bases[base] {
		base += strings.TrimSuffix(c.kind, "Controller")
	}
	b.bases[base] = true
	c.addTypes(b, base)
}

// composite is the spec of a CompositeController.
type composite struct {
	v1alpha1.CompositeControllerSpec

	ours bool
}

func resourceOf(r v1alpha1.ResourceRule) Resource { return Resource{r.APIVersion, r.Resource} }

// resourcesOf returns the resources of rules in a list.
func resourcesOf[T any](list []T, rule func(*T) v1alpha1.ResourceRule) (all []Resource) {
	for i := range list {
		all = append(all, resourceOf(rule(&list[i])))
	}
	return all
}

func (c *composite) children() []Resource {
	return resourcesOf(c.ChildResources, func(r *v1alpha1.ChildResource) v1alpha1.ResourceRule { return r.ResourceRule })
}

func (c *composite) resources() []Resource {
	return append(c.children(), resourceOf(c.ParentResource.ResourceRule))
}

func (c *composite) addTypes(b *builder, base string) {
	parent := []Resource{resourceOf(c.ParentResource.ResourceRule)}
	bound := b.desiredState(base, parent, "Children", c.children())
	b.instance(base+"SyncRequest", "SyncRequest", bound).setTime(areInline(&c.Hooks.Sync, c.Hooks.Finalize)...)
	adaptResponse(b.instance(base+"SyncResponse", "SyncResponse", bound), c.ours, len(c.ChildResources))
	b.customize(base, c.Hooks.Customize, bound)
}

// decorator is the spec of a DecoratorController.
type decorator struct {
	v1alpha1.DecoratorControllerSpec

	ours bool
}

func (d *decorator) parents() []Resource {
	return resourcesOf(d.Resources, func(r *v1alpha1.DecoratedResource) v1alpha1.ResourceRule { return r.ResourceRule })
}

func (d *decorator) attachments() []Resource {
	return resourcesOf(d.Attachments, func(r *v1alpha1.Attachment) v1alpha1.ResourceRule { return r.ResourceRule })
}

func (d *decorator) resources() []Resource { return append(d.parents(), d.attachments()...) }

func (d *decorator) addTypes(b *builder, base string) {
	bound := b.desiredState(base, d.parents(), "Attachments", d.attachments())
	b.instance(base+"SyncRequest", "DecoratorSyncRequest", bound).setTime(areInline(&d.Hooks.Sync, d.Hooks.Finalize)...)
	adaptResponse(b.instance(base+"SyncResponse", "DecoratorSyncResponse", bound), d.ours, len(d.Attachments))
	b.customize(base, d.Hooks.Customize, bound)
}

// adaptResponse adapts a response to a controller: without children it need not have them, and
// metacontroller.k8s.io has fewer fields.
func adaptResponse(response *Object, ours bool, children int) {
	response.fields = slices.DeleteFunc(response.fields, func(f field) bool {
		return !ours && slices.Contains([]string{"conditions", "events", "message"}, f.name)
	})
	for i := range response.fields {
		response.fields[i].required = response.fields[i].required && children > 0
	}
}

// desiredState returns the types of a controller with parents and children.
func (b *builder) desiredState(base string, parents []Resource, childField string, children []Resource) map[string]*Type {
	var desired, status []*Type
	for _, r := range children {
		desired = append(desired, reference(b.kindOf(r).object))
	}
	for _, r := range parents {
		status = append(status, b.statusOf(b.kindOf(r)))
	}
	related := mapOf(mapOf(b.wireType("KubernetesObject")))
	if len(b.related) > 0 {
		related = b.groups(base+"Related", b.related, false)
	}
	return map[string]*Type{
		"parent": b.anyOf(parents), "children": b.groups(base+childField, children, true),
		"desired": listOf(union(desired...)), "status": union(status...), "related": related,
	}
}

// statusOf returns the type of the status in a response: a custom resource gets a new one, that
// of a built-in kind is patched.
func (b *builder) statusOf(k *typedKind) *Type {
	if k.Custom {
		return k.status()
	}
	return b.patchOf(k.status())
}

func (b *builder) kindOf(r Resource) *typedKind { return b.kinds[b.resources[r]] }

// anyOf returns the type of objects of several kinds.
func (b *builder) anyOf(all []Resource) *Type {
	kinds := lists.Map(all, func(r Resource) *Type { return reference(b.kindOf(r).object) })
	return union(kinds...)
}

// groups returns the type of objects by kind and name.
func (b *builder) groups(name string, all []Resource, required bool) *Type {
	o := b.declare(name)
	o.doc = "Objects by their kind, and by namespace/name, or the name of a cluster-scoped one. In v1, the name alone if the parent is " +
		"namespaced too."
	byKey := map[string]*Object{}
	for _, r := range all {
		byKey[b.resources[r]] = b.kindOf(r).object
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		o.fields = append(o.fields, field{name: key, typ: mapOf(reference(byKey[key])), required: required})
	}
	return reference(o)
}

// areInline says which hooks are inline; nil ones are left out.
func areInline(hooks ...*v1alpha1.Hook) (inline []bool) {
	for _, h := range hooks {
		if h != nil {
			inline = append(inline, h.Inline != nil)
		}
	}
	return inline
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

// customize adds the request of a customize hook. All have the same response.
func (b *builder) customize(base string, hook *v1alpha1.Hook, bound map[string]*Type) {
	if hook != nil {
		b.instance(base+"CustomizeRequest", "CustomizeRequest", bound).setTime(hook.Inline != nil)
		b.wireType("CustomizeResponse")
	}
}

// instance adds a type of wire.yaml with the types of a controller.
func (b *builder) instance(name, of string, bound map[string]*Type) *Object {
	o := b.declare(name)
	b.fill(o, b.wire[of], position{definitions: b.wire, bound: bound})
	return o
}
