package compile

import (
	"cmp"
	"encoding/json"
	"slices"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Footprint is what a controller may leave on the objects it manages.
type Footprint struct {
	Finalizer string
	// Finalizes means that it adds the finalizer: it has a finalize hook, or a handler for which
	// deletion waits.
	Finalizes bool
	// Parents are the resources of the parents.
	Parents []ResourceName
	// Namespaces are those of the parents; none mean all. Limits are those of each of the Parents.
	Namespaces []string
	Limits     [][]string
	// Identity is as which ServiceAccount it writes; see Environment.AccountOf.
	Identity api.Identity
}

// FinalizerRemovals returns the resources, noted or of parents, whose objects have to lose the
// finalizer.
func (f Footprint) FinalizerRemovals(noted []string, leaving bool) []ResourceName {
	all := lists.Map(noted, ParseResourceName)
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

// Footprint reads the footprint of an object whose spec may be invalid.
func (k Kind) Footprint(o *object.Object) Footprint {
	type resource struct {
		APIVersion, Resource string
		Namespaces           []string
	}
	var declared struct {
		Spec struct {
			api.Identity
			ParentResource, Resource resource
			Resources                []resource
			Hooks                    struct {
				Finalize struct{ Webhook, Inline, Exec *struct{} }
			}
			Handlers []struct {
				Reasons  []string
				Optional bool
				Daemon   *struct{}
			}
			Finalizer string
		}
	}
	_ = json.Unmarshal(o.JSON(), &declared) // A malformed spec was never applied.
	spec := declared.Spec
	f := Footprint{Identity: spec.Identity, Finalizer: cmp.Or(spec.Finalizer, k.finalizer(o.Name()))}
	finalize := spec.Hooks.Finalize
	f.Finalizes = finalize.Webhook != nil || finalize.Inline != nil || finalize.Exec != nil
	for _, h := range spec.Handlers {
		f.Finalizes = f.Finalizes || h.Daemon != nil || !h.Optional && slices.Contains(h.Reasons, string(hook.ReasonDelete))
	}
	for _, r := range append(spec.Resources, spec.ParentResource, spec.Resource) {
		if r.Resource != "" {
			f.Parents = append(f.Parents, ResourceName{r.APIVersion, r.Resource})
			f.Namespaces = append(f.Namespaces, r.Namespaces...)
			f.Limits = append(f.Limits, r.Namespaces)
		}
	}
	return f
}
