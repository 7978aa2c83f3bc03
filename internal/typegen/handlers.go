package typegen

import (
	"slices"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// handlers is the spec of a HandlerController.
type handlers struct{ declared }

func (h *handlers) resources() []Resource { return append(h.parents(), h.Owns...) }

// addTypes adds a request for each handler. They share the response.
func (h *handlers) addTypes(b *builder, base string) {
	object, owned := b.anyOf(h.parents()), b.groups(base+"Owned", h.Owns, true)
	for i := range h.Handlers {
		handler := &h.Handlers[i]
		previous := object
		if handler.PreviousState.SurvivesRestart() {
			previous = mapOf(&Type{}) // It has the watched fields only.
		}
		request := b.instance(base+camel(handler.Name)+"Request", "HandlerRequest", map[string]*Type{
			"handler": literal(handler.Name), "reason": literals(reasonsOf(handler)...),
			"object": object, "previousState": orNull(previous), "owned": owned,
		})
		request.setTime(handler.Inline != nil)
	}
	b.instance(base+"Response", "HandlerResponse", h.response(b))
}

// reasonsOf returns the reasons of calls of a handler.
func reasonsOf(h *v1alpha1.Handler) []v1alpha1.HandlerReason {
	reasons := slices.Clone(h.Reasons)
	if h.Every.Duration.Duration > 0 || h.Schedule != "" {
		reasons = append(reasons, v1alpha1.HandlerReason(hook.ReasonTimer))
	}
	if h.Daemon != nil {
		reasons = append(reasons, v1alpha1.HandlerReason(hook.ReasonDaemon))
	}
	if h.Conditional {
		reasons = append(reasons, v1alpha1.HandlerReason(hook.ReasonMatch))
	}
	return reasons
}

// response returns the types of what handlers write. Objects of the kinds in owns are typed, and
// any object may be applied with {object, unowned}.
func (h *handlers) response(b *builder) map[string]*Type {
	kinds := lists.Map(h.parents(), b.kindOf)
	patches := lists.Map(kinds, b.patchOfKind)
	status := lists.Map(kinds, func(k *typedKind) *Type { return b.patchOf(k.status()) })
	apply := lists.Map(h.Owns, b.typeOfKind)
	if len(h.Permissions) > 0 || len(apply) == 0 {
		apply = append(apply, b.wireType("KubernetesObject"))
	}
	apply = append(apply, b.wireType("UnownedObject"))
	return map[string]*Type{"patch": union(patches...), "statusPatch": union(status...), "apply": union(apply...)}
}

// admission is the spec of an AdmissionController.
type admission struct{ declared }

func resourceOf(r v1alpha1.AdmissionRule) Resource { return Resource{r.APIVersion, r.Resource} }

func (a *admission) resources() []Resource {
	return lists.FlatMap(a.Webhooks, func(w v1alpha1.AdmissionWebhook) []Resource { return lists.Map(w.Rules, resourceOf) })
}

func (a *admission) addTypes(b *builder, base string) {
	for i := range a.Webhooks {
		webhook := &a.Webhooks[i]
		name := base + camel(webhook.Name)
		object, patch := b.reviewTypes(webhook)
		operations := operationsOf(webhook)
		is := func(all ...v1alpha1.AdmissionOperation) bool {
			return slices.ContainsFunc(all, func(o v1alpha1.AdmissionOperation) bool { return slices.Contains(operations, o) })
		}
		request := b.instance(name+"Request", "ReviewRequest", map[string]*Type{
			"handler": literal(webhook.Name), "operation": literals(operations...),
			"object":    nullable(object, is("CREATE", "UPDATE", "CONNECT"), is("DELETE")),
			"oldObject": nullable(object, is("UPDATE", "DELETE"), is("CREATE", "CONNECT")),
		})
		request.setTime(webhook.Inline != nil)
		response := b.instance(name+"Response", "ReviewResponse", map[string]*Type{"reviewed": object, "reviewPatch": patch})
		response.fields = slices.DeleteFunc(response.fields, func(f field) bool {
			return webhook.Type == v1alpha1.AdmissionValidate && slices.Contains([]string{"object", "patch", "jsonPatch"}, f.name)
		})
	}
}

func nullable(t *Type, sometimes, null bool) *Type {
	switch {
	case !sometimes:
		return &Type{form: nullForm}
	case null:
		return orNull(t)
	}
	return t
}

func operationsOf(w *v1alpha1.AdmissionWebhook) []v1alpha1.AdmissionOperation {
	all := lists.FlatMap(w.Rules, func(r v1alpha1.AdmissionRule) []v1alpha1.AdmissionOperation { return r.Operations })
	slices.Sort(all)
	return slices.Compact(all)
}

// reviewTypes returns the types of reviewed objects and of their merge patches. Subresources such
// as scale have objects of other kinds; that of status is the object itself.
func (b *builder) reviewTypes(w *v1alpha1.AdmissionWebhook) (object, patch *Type) {
	var objects, patches []*Type
	for i := range w.Rules {
		rule := &w.Rules[i]
		kind := b.beforeStored(b.kindOf(resourceOf(*rule)))
		objects, patches = append(objects, kind), append(patches, b.patchOf(kind))
		other := func(name string) bool { return name != "" && name != "status" }
		if slices.ContainsFunc(rule.Subresources, other) {
			objects, patches = append(objects, b.wireType("KubernetesObject")), append(patches, mapOf(&Type{}))
		}
	}
	return union(objects...), union(patches...)
}
