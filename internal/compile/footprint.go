package compile

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Footprint is what a controller may leave on objects that are not its own.
type Footprint struct {
	// Finalizer is what its parents may carry.
	Finalizer string
	// Finalizes says that there is a finalize hook, or a handler that their deletion
	// waits for, so that they are to.
	Finalizes bool
	// Parents are the resources of the parents.
	Parents []ResourceName
}

// ResourceName is a resource as a user names it.
type ResourceName struct{ APIVersion, Plural string }

// String is "apps/v1/statefulsets".
func (n ResourceName) String() string { return n.APIVersion + "/" + n.Plural }

// ParseResourceName reads what String writes.
func ParseResourceName(text string) ResourceName {
	i := strings.LastIndexByte(text, '/')
	return ResourceName{APIVersion: text[:max(i, 0)], Plural: text[i+1:]}
}

// Group is the API group; empty for the core group.
func (n ResourceName) Group() string { return object.GroupOf(n.APIVersion) }

// InList says whether a list has the resource, in whatever version.
func (n ResourceName) InList(list []ResourceName) bool {
	return slices.ContainsFunc(list, func(other ResourceName) bool { return n.Plural == other.Plural && n.Group() == other.Group() })
}

// FinalizerRemovals are the resources whose objects are to carry the finalizer no more,
// of those that are noted to carry it and of the parents.
func (f Footprint) FinalizerRemovals(noted []string, leaving bool) []ResourceName {
	var all []ResourceName
	for _, text := range noted {
		all = append(all, ParseResourceName(text))
	}
	for _, parent := range f.Parents {
		if !parent.InList(all) {
			all = append(all, parent)
		}
	}
	if leaving || !f.Finalizes {
		return all
	}
	return slices.DeleteFunc(all, func(n ResourceName) bool { return n.InList(f.Parents) })
}

// Footprint reads it from an object whose spec need not be valid.
func (k Kind) Footprint(o *object.Object) Footprint {
	type resource struct{ APIVersion, Resource string }
	var declared struct {
		Spec struct {
			ParentResource, Resource resource
			Resources                []resource
			Hooks                    struct {
				Finalize struct{ Webhook json.RawMessage }
			}
			Handlers []struct {
				Reasons  []string
				Optional bool
			}
		}
	}
	_ = json.Unmarshal(o.JSON(), &declared) // What cannot be read was never acted upon.
	spec := declared.Spec
	f := Footprint{Finalizer: k.finalizer(o.Name()), Finalizes: len(spec.Hooks.Finalize.Webhook) > 0 && string(spec.Hooks.Finalize.Webhook) != "null"}
	for _, h := range spec.Handlers {
		f.Finalizes = f.Finalizes || !h.Optional && slices.Contains(h.Reasons, string(hook.ReasonDelete))
	}
	for _, r := range append(spec.Resources, spec.ParentResource, spec.Resource) {
		if r.Resource != "" {
			f.Parents = append(f.Parents, ResourceName{r.APIVersion, r.Resource})
		}
	}
	return f
}
