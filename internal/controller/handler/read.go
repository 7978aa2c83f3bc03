package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// reader lists objects for handlers, limited to what the program declares.
type reader struct {
	controller *Controller
	// namespace is that of the handled object.
	namespace string
	// values are those of the Secrets that the caller knows, and that were read.
	values *redact.Values
}

// List calls the API server: rare reads are not worth a watch.
func (r reader) List(ctx context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	group := hook.Group{APIVersion: apiVersion, Kind: kind}
	p := &r.controller.program
	if limits := p.Namespaces; p.Resource.Namespaced && len(limits) > 0 && !slices.Contains(limits, namespace) {
		return group, &hook.TerminalError{Err: fmt.Errorf("may not list %s in the namespace %q: the controller is limited to %v",
			kind, namespace, limits)}
	}
	for _, resource := range p.Reads {
		if !matchesKind(resource, apiVersion, kind) {
			continue
		}
		if resource.Unserved {
			return group, nil
		}
		found, err := r.controller.writerFor(r.namespace).List(ctx, resource, namespace, selector)
		if err != nil {
			return group, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, o := range found {
			group.Objects = append(group.Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
		}
		r.values.See(false, func(visit func(json.RawMessage)) {
			for _, o := range found {
				visit(o.JSON())
			}
		})
		r.values.Found() // It reads them: a daemon lists as long as it runs.
		return group, nil
	}
	return group, undeclared("list", false, apiVersion, kind)
}
