package typegen

import (
	"github.com/setpoint-dev/setpoint/hook"
)

// Webhooks returns the requests and responses of webhooks of any controller: objects have any
// kind. The package in js/ has these types.
func Webhooks() (*Module, error) {
	b, err := newBuilder(Options{})
	if err != nil {
		return nil, err
	}
	bound := anyController(b)
	for _, name := range []string{
		"SyncRequest", "SyncResponse", "DecoratorSyncRequest", "DecoratorSyncResponse", "CustomizeRequest",
		"HandlerRequest", "HandlerResponse",
	} {
		b.instance(name, name, bound).setTime(false)
	}
	b.wireType("CustomizeResponse")
	bound["object"] = orNull(bound["object"])
	for _, name := range []string{"ReviewRequest", "ReviewResponse"} {
		b.instance(name, name, bound).setTime(false)
	}
	return b.module(), nil
}

// webhookReasons are the reasons of calls of webhooks; ReasonRelated is one of Go programs only.
var webhookReasons = []hook.Reason{ //nolint:gochecknoglobals // A constant list.
	hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete, hook.ReasonResume, hook.ReasonEvent, hook.ReasonDrift,
	hook.ReasonTimer, hook.ReasonMatch, hook.ReasonDaemon,
}

// anyController returns the types of x-type for a controller of any kinds.
func anyController(b *builder) map[string]*Type {
	anyObject, fields := b.wireType("KubernetesObject"), mapOf(&Type{})
	groups := mapOf(mapOf(anyObject))
	return map[string]*Type{
		"parent": anyObject, "children": groups, "related": groups, "desired": listOf(anyObject), "status": fields,
		"handler": {form: stringForm}, "reason": literals(webhookReasons...), "object": anyObject, "previousState": orNull(anyObject),
		"owned": groups, "patch": fields, "statusPatch": fields, "apply": union(anyObject, b.wireType("UnownedObject")),
		"operation": literals("CONNECT", "CREATE", "DELETE", "UPDATE"), "oldObject": orNull(anyObject),
		"reviewed": anyObject, "reviewPatch": fields,
	}
}
