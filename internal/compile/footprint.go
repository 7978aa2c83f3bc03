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
	Parents []Named
}

// Named is a resource as a user names it.
type Named struct{ APIVersion, Plural string }

// String is "apps/v1/statefulsets".
func (n Named) String() string { return n.APIVersion + "/" + n.Plural }

// ParseNamed reads what String writes.
func ParseNamed(text string) Named {
	i := strings.LastIndexByte(text, '/')
	return Named{APIVersion: text[:max(i, 0)], Plural: text[i+1:]}
}

// Group is the API group; empty for the core group.
func (n Named) Group() string { return object.GroupOf(n.APIVersion) }

// In says whether a list has the resource, in whatever version.
func (n Named) In(list []Named) bool {
	return slices.ContainsFunc(list, func(other Named) bool { return n.Plural == other.Plural && n.Group() == other.Group() })
}

// Finalized are the resources whose objects are to carry the finalizer no more,
// of those that are noted to carry it and of the parents.
func (f Footprint) Finalized(noted []string, leaving bool) []Named {
	var all []Named
	for _, text := range noted {
		all = append(all, ParseNamed(text))
	}
	for _, parent := range f.Parents {
		if !parent.In(all) {
			all = append(all, parent)
		}
	}
	if leaving || !f.Finalizes {
		return all
	}
	return slices.DeleteFunc(all, func(n Named) bool { return n.In(f.Parents) })
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
			f.Parents = append(f.Parents, Named{r.APIVersion, r.Resource})
		}
	}
	return f
}
