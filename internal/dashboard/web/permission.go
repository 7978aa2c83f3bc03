package web

import (
	"cmp"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CanRead reports whether the user may get objects of a kind. The plural of the kind may be
// empty. Users who may in all namespaces need one access review for a list, not one per namespace.
func (req *Request) CanRead(kind object.Kind, namespace string) bool {
	return req.Can("get", kind, "", "") || namespace != "" && req.Can("get", kind, namespace, "")
}

// CanSee reports whether the user may see a controller.
func (req *Request) CanSee(c *inspect.Controller) bool { return inspect.CanView(c, req.Can) }

// MissingPermission returns a message if the user may not do something.
func (req *Request) MissingPermission(verb string, ref object.Ref) string {
	if req.Can(verb, ref.Kind, ref.Namespace, ref.Name) {
		return ""
	}
	return Forbidden(verb, ref.Kind, ref.Namespace)
}

// Missing says that the user does not have a permission: for all objects of a kind in a namespace,
// or in all if that is "".
func Missing(verb string, kind object.Kind, namespace string) string {
	p := userclient.Permission{Verb: verb, Resource: cmp.Or(kind.Plural, strings.ToLower(kind.Kind)), Group: kind.Group}
	if kind.Namespaced {
		p.Namespace = namespace
	}
	return p.Missing() + "."
}

// Forbidden is missing as a sentence of its own.
func Forbidden(verb string, kind object.Kind, namespace string) string {
	return "Forbidden: " + Missing(verb, kind, namespace)
}
