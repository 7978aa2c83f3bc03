package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// GoController is a controller that a Go program declares.
type GoController struct {
	// Name identifies it in logs, metrics and health. It is unique, and its programs have
	// the same name.
	Name string
	// Compile returns its programs. It is called again when a CRD of its kinds changes, and
	// retried after an error, at once when a kind it resolved becomes served. Some results
	// are never run. The controller waits on compile.ErrNotServed; a *compile.Refusal
	// needs a user to act.
	Compile func(ctx context.Context, env compile.Environment) (*compile.Compiled, error)
	// Changed receives when Compile may return something else without a change of those CRDs;
	// may be nil.
	Changed <-chan struct{}
}

// CheckGoControllers refuses controllers of a program without a name of their own.
func CheckGoControllers(all []GoController) error {
	names := map[string]bool{}
	for _, own := range all {
		if own.Name == "" || own.Compile == nil {
			return errors.New("a controller of the program has no name or no Compile function")
		}
		if names[own.Name] {
			return fmt.Errorf("two controllers of the program have the name %q", own.Name)
		}
		names[own.Name] = true
	}
	return nil
}

func goControllerKey(name string) queue.Key { return queue.Key{Name: name} }

// goControllerRank ranks controllers in the order of the program.
func goControllerRank(i int) string { return fmt.Sprintf("%06d", i) }

// goControllerIndex returns the index in Options.GoControllers; negative for a controller
// object.
func (cs *Set) goControllerIndex(key queue.Key) int {
	return slices.IndexFunc(cs.GoControllers, func(own GoController) bool { return goControllerKey(own.Name) == key })
}

// runGoControllers runs the controllers of a Go program until the context ends.
func (cs *Set) runGoControllers(ctx context.Context) error {
	for _, name := range cs.CRDs.Names() {
		cs.compilation.crdWatches.watch(name)
	}
	defer cs.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { cs.processQueue(ctx); return nil })
	group.Go(func() error { cs.logGoControllers(ctx); return nil })
	group.Go(func() error { cs.watchPermissions(ctx); return nil })
	for _, own := range cs.GoControllers {
		group.Go(func() error { cs.compileAgain(ctx, own); return nil })
	}
	return group.Wait()
}

// reconcileGoController compiles a controller of the program and starts or replaces it.
func (cs *Set) reconcileGoController(ctx context.Context, key queue.Key, i int) queue.Outcome {
	compiled, err := cs.compilation.compileGoController(ctx, key, i)
	if ctx.Err() != nil {
		return queue.NoRequeue()
	}
	return cs.settle(ctx, key, controllerState{rank: goControllerRank(i), refusal: err}, compiled)
}

// logGoControllers logs the conditions of a Go program's controllers when they change, since
// they have no status.
func (cs *Set) logGoControllers(ctx context.Context) {
	logged := map[queue.Key]conditionState{}
	wait.UntilWithContext(ctx, func(context.Context) {
		for key, s := range cs.registry.states() {
			health, _ := s.health()
			now := s.overallCondition(health)
			before := logged[key]
			logged[key] = now
			// Messages of running controllers may change with every object.
			if now.ok != before.ok || now.reason != before.reason || s.running == nil && now.message != before.message {
				cs.logCondition(key, now)
			}
		}
	}, reportEvery)
}

func (cs *Set) logCondition(key queue.Key, now conditionState) {
	switch {
	case now.ok:
		cs.Log.Info("controller ready", "controller", key.String())
	case now.reason == setpoint.ReasonStarting:
		cs.Log.Info("controller starting", "controller", key.String(), "message", now.message)
	default:
		cs.Log.Warn("controller not ready", "controller", key.String(), "reason", now.reason, "message", now.message)
	}
}
