package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// unheard is told of all that handlers do and passes on nothing.
type unheard struct{}

func (unheard) Ran(trace.Run)                                             {}
func (unheard) Deleted(trace.Run)                                         {}
func (unheard) Handled(string, string, hook.Reason, time.Duration, error) {}
func (unheard) Tell(*object.Object, hook.Event)                           {}

// rehearseHandlers opens the rehearsals of the programs of handlers, for the objects
// of one namespace; of all if it is empty.
func (r *Rehearsal) rehearseHandlers(namespace string) error {
	tools := react.Tools{Store: r.host.store, Writer: r.writer, Observer: unheard{}, Log: r.host.log}
	for _, program := range r.Reactions {
		if namespace != "" && program.Resource.Namespaced {
			if limits := program.Namespaces; len(limits) > 0 && !slices.Contains(limits, namespace) {
				return fmt.Errorf("the controller does not handle objects in the namespace %s, but in %s; say which with -n", namespace, strings.Join(limits, ", "))
			}
			program.Namespaces = []string{namespace}
		}
		r.reactions = append(r.reactions, react.New(program, tools))
	}
	return nil
}

// Handles says that the objects of the i-th kind have handlers, rather than a hook
// that says what should be.
func (r *Rehearsal) Handles(i int) bool { return i >= len(r.controllers) }

// PreviewHandlers finds out which handlers would be told of an object of the i-th
// kind, and asks them if they are to be. One that is given need not be stored; without
// one, that of the key is looked up.
func (r *Rehearsal) PreviewHandlers(ctx context.Context, i int, s react.Subject) (react.Preview, error) {
	preview, err := r.reactions[i-len(r.controllers)].Preview(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, r.host.watchTrouble())
	}
	return preview, err
}

// TryEviction has the API server say whether a pod may be evicted now.
func (r *Rehearsal) TryEviction(ctx context.Context, resource object.Resource, pod *object.Object) error {
	return r.writer.Evict(ctx, resource, pod)
}
