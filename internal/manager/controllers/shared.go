package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/revisions"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// shared is what the parts of a Set share.
type shared struct {
	*Dependencies
	declared *declared.Objects
	registry *registry
	// queue has the controllers to reconcile.
	queue *queue.Queue
}

// Dependencies are what the controllers of a process share.
type Dependencies struct {
	running.Dependencies

	// Process is the name of the program.
	Process string
	// Leader decides which replica runs controllers, and Owners which Setpoint.
	Leader *leader.Elector
	Owners *conflicts.Owners
	// Others are the controllers of the cluster in a dev run.
	Others          *conflicts.Others
	Metacontrollers *conflicts.Detector
	Finalizers      *finalizers.Cluster
	CRDs            *crds.Installer

	// Environment returns what controllers are compiled with. Inline compiles the code of inline hooks; nil if this
	// process does not run any.
	Environment func() compile.Environment
	Inline      func(ctx context.Context, script call.Script) (call.Program, error)
	// Selector is the label selector of controller objects. With GoControllers these are ignored.
	Selector      string
	GoControllers []GoController
	// Namespace is that of Setpoint itself.
	Namespace string
}

// revisions returns what stores the versions of the logic of controllers.
func (d *Dependencies) revisions() *revisions.Store {
	return &revisions.Store{Writer: d.Writer(), Namespace: d.Namespace}
}

// RecordEvent records an event on a controller object, if there is one.
func (a *shared) RecordEvent(key queue.Key, event hook.Event) {
	if declared := a.registry.get(key).object; declared != nil {
		a.Events.Event(declared, event)
	}
}

// recordLifecycle records the same events as Metacontroller on a controller that it serves too: users wait for these.
func (a *shared) recordLifecycle(s *controllerState, reasons ...string) {
	if s.object == nil || !a.declared.ForMetacontroller(s.key) {
		return
	}
	for _, reason := range reasons {
		a.Events.Event(s.object, hook.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: reason + " controller: " + s.key.Name})
	}
}

func (a *shared) recordStopped(s *controllerState) {
	if a.Leader.Leads() {
		a.recordLifecycle(s, metacontroller.EventStopping, metacontroller.EventStopped)
	}
}

// GoController is a controller that a Go program declares.
type GoController struct {
	// Name identifies it in logs, metrics and health. It is unique, and its programs have the same name.
	Name string
	// Compile returns its programs. It is called again when a CRD of its kinds changes, and retried after an error, at
	// once when a kind it resolved becomes served. Some results are never run. The controller waits on
	// compile.ErrNotServed; a *compile.Refusal needs a user to act.
	Compile func(ctx context.Context, env compile.Environment) (*compile.Compiled, error)
	// Changed receives when Compile may return something else without a change of those CRDs; may be nil.
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

// minRetryDelay is the first delay before a controller is started again.
const minRetryDelay = 100 * time.Millisecond

// retryUntil calls a function again, more and more seldom, until it is done. It returns false if the context ends first.
func retryUntil(ctx context.Context, done func(context.Context) bool) bool {
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) { return done(ctx), nil }) == nil
}

// prepare makes a step without which a controller does not run, as retryUntil does, and logs each new error.
func prepare(ctx context.Context, log *slog.Logger, key queue.Key, step func(context.Context) error) bool {
	logged := ""
	return retryUntil(ctx, func(ctx context.Context) bool {
		err := step(ctx)
		if err != nil && !apierrors.IsConflict(err) && err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			log.Warn("controller does not start yet; retrying", "controller", key.String(), "error", logged)
		}
		return err == nil
	})
}
