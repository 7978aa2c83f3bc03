package typegen

import (
	"slices"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

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

// customize adds the request of a customize hook. All have the same response.
func (b *builder) customize(base string, hook *v1alpha1.Hook, bound map[string]*Type) {
	if hook != nil {
		b.instance(base+"CustomizeRequest", "CustomizeRequest", bound).setTime(hook.Inline != nil)
		b.wireType("CustomizeResponse")
	}
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
