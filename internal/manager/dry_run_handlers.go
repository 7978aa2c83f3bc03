package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// noopHandlerObserver ignores everything.
type noopHandlerObserver struct{}

func (noopHandlerObserver) Ran(record.Run)                                            {}
func (noopHandlerObserver) Deleted(record.Run)                                        {}
func (noopHandlerObserver) Handled(string, string, hook.Reason, time.Duration, error) {}
func (noopHandlerObserver) Event(*object.Object, hook.Event)                          {}

// addHandlers starts the dry runs of handler programs for the objects of one namespace, or
// of all if it is empty.
func (r *DryRun) addHandlers(namespace string) error {
	tools := handle.Tools{Store: r.manager.store, Writer: r.writer, Observer: noopHandlerObserver{}, Log: r.manager.log}
	for _, program := range r.Handlers {
		if namespace != "" && program.Resource.Namespaced {
			if limits := program.Namespaces; len(limits) > 0 && !slices.Contains(limits, namespace) {
				return fmt.Errorf("the controller does not handle objects in namespace %s, only in %s; select one with -n", namespace, strings.Join(limits, ", "))
			}
			program.Namespaces = []string{namespace}
		}
		r.reactions = append(r.reactions, handle.New(program, tools))
	}
	return nil
}

// IsHandler reports whether program i is one of handlers.
func (r *DryRun) IsHandler(i int) bool { return i >= len(r.controllers) }

// RunHandlers returns the handlers of program i that an object would trigger, and calls
// them if the request says so. If it has no object, the stored one is used.
func (r *DryRun) RunHandlers(ctx context.Context, i int, s handle.DryRunRequest) (handle.DryRunResult, error) {
	preview, err := r.reactions[i-len(r.controllers)].DryRun(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, r.manager.watchErr())
	}
	return preview, err
}

// Evict asks the API server, as a dry run, whether a pod may be evicted now.
func (r *DryRun) Evict(ctx context.Context, resource object.Resource, pod *object.Object) error {
	return r.writer.Evict(ctx, resource, pod)
}
