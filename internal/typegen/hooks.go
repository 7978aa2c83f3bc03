package typegen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

// readControllers reads controllers, sorted by their names.
func readControllers(all []*object.Object) ([]controller, error) {
	var read []controller
	for _, o := range all {
		c := controller{kind: o.Kind(), name: o.Name(), group: object.GroupOf(o.APIVersion())}
		if err := c.read(o); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.Kind(), o.Name(), err)
		}
		read = append(read, c)
	}
	slices.SortFunc(read, func(a, b controller) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group))
	})
	return read, nil
}

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

// read reads the spec. Responses to a controller of metacontroller.k8s.io have fewer fields.
func (c *controller) read(o *object.Object) error {
	var d declared
	if err := json.Unmarshal(o.JSON(), &struct{ Spec *declared }{&d}); err != nil {
		return err
	}
	ours := c.group == v1alpha1.GroupVersion.Group
	switch c.kind {
	case v1alpha1.CompositeControllerKind:
		c.hooks = &synced{declared: d, children: d.ChildResources, field: "Children", ours: ours}
	case v1alpha1.DecoratorControllerKind:
		c.hooks = &synced{declared: d, children: d.Attachments, field: "Attachments", wire: "Decorator", ours: ours}
	case v1alpha1.HandlerControllerKind:
		c.hooks = &handlers{d}
	case v1alpha1.AdmissionControllerKind:
		c.hooks = &admission{d}
	default:
		return errors.New("is no controller")
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

// synced are the hooks of a CompositeController or a DecoratorController.
type synced struct {
	declared

	children []Resource
	// field is the name of the children, wire the prefix of the types in wire.yaml.
	field, wire string
	ours        bool
}

func (s *synced) resources() []Resource { return slices.Concat(s.children, s.parents()) }

func (s *synced) addTypes(b *builder, base string) {
	bound := b.desiredState(base, s.parents(), s.field, s.children)
	b.instance(base+"SyncRequest", s.wire+"SyncRequest", bound).setTime(areInline(s.Hooks.Sync, s.Hooks.Finalize)...)
	adaptResponse(b.instance(base+"SyncResponse", s.wire+"SyncResponse", bound), s.ours, len(s.children))
	b.customize(base, s.Hooks.Customize, bound)
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
	status := lists.Map(parents, func(r Resource) *Type { return b.statusOf(b.kindOf(r)) })
	related := mapOf(mapOf(b.wireType("KubernetesObject")))
	if len(b.related) > 0 {
		related = b.groups(base+"Related", b.related, false)
	}
	return map[string]*Type{
		"parent": b.anyOf(parents), "children": b.groups(base+childField, children, true),
		"desired": listOf(b.anyOf(children)), "status": union(status...), "related": related,
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
