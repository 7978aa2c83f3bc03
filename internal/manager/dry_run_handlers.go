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

// noopHandlerObserver is told of all that handlers do and passes on nothing.
type noopHandlerObserver struct{}

func (noopHandlerObserver) Ran(record.Run)                                            {}
func (noopHandlerObserver) Deleted(record.Run)                                        {}
func (noopHandlerObserver) Handled(string, string, hook.Reason, time.Duration, error) {}
func (noopHandlerObserver) Event(*object.Object, hook.Event)                          {}

// addHandlers opens the rehearsals of the programs of handlers, for the objects
// of one namespace; of all if it is empty.
func (r *DryRun) addHandlers(namespace string) error {
	tools := handle.Tools{Store: r.manager.store, Writer: r.writer, Observer: noopHandlerObserver{}, Log: r.manager.log}
	for _, program := range r.Handlers {
		if namespace != "" && program.Resource.Namespaced {
			if limits := program.Namespaces; len(limits) > 0 && !slices.Contains(limits, namespace) {
				return fmt.Errorf("the controller does not handle objects in the namespace %s, but in %s; say which with -n", namespace, strings.Join(limits, ", "))
			}
			program.Namespaces = []string{namespace}
		}
		r.reactions = append(r.reactions, handle.New(program, tools))
	}
	return nil
}

// IsHandler says that the objects of the i-th kind have handlers, rather than a hook
// that says what should be.
func (r *DryRun) IsHandler(i int) bool { return i >= len(r.controllers) }

// RunHandlers finds out which handlers would be told of an object of the i-th
// kind, and asks them if they are to be. One that is given need not be stored; without
// one, that of the key is looked up.
func (r *DryRun) RunHandlers(ctx context.Context, i int, s handle.DryRunRequest) (handle.DryRunResult, error) {
	preview, err := r.reactions[i-len(r.controllers)].DryRun(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, r.manager.watchErr())
	}
	return preview, err
}

// Evict has the API server say whether a pod may be evicted now.
func (r *DryRun) Evict(ctx context.Context, resource object.Resource, pod *object.Object) error {
	return r.writer.Evict(ctx, resource, pod)
}
