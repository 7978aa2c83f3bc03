package setpoint

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller/handler"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/sdk"
	"github.com/setpoint-dev/setpoint/internal/sdk/mergepatch"
)

// Unstructured is an object of any kind, for kinds without a Go type.
type Unstructured = unstructured.Unstructured

// Call is one call of a handler. Its methods request writes, which Setpoint makes after
// the handler returns nil. If a method gets an invalid argument, the call fails
// permanently and Setpoint writes nothing.
//
// A Call must not be used concurrently, nor after the handler returns.
type Call[T any] struct {
	// Object is the object, including the changes of handlers called before in the same
	// reconcile. In a daemon, Write and Refresh update it. The handler may change its
	// spec, status, labels and annotations, and Setpoint writes the changes; other
	// metadata cannot be changed. A changed list is written as a whole.
	Object *T
	// Old is the object as the handler last handled it. It is nil on creation, and for
	// changes made while the program was not running, unless KeepPreviousState is set:
	// then it has the watched fields.
	Old *T
	// Changes are the differences between Old and Object.
	Changes []FieldChange
	// Reason is why the handler is called.
	Reason Reason
	// Attempt is the number of failed attempts before this one, and FirstAttempt the time of the
	// first of them.
	Attempt      int
	FirstAttempt time.Time
	// EventType is what happened for OnEvent, such as hook.EventAdded. Gone reports that the object
	// no longer exists.
	EventType hook.EventType
	Gone      bool
	// Since is when the watched fields last changed, as far as the program has observed.
	// For an update that the handler requeued, it survives a restart, with a precision of
	// seconds.
	Since time.Time
	// Log adds the names of the controller, the handler and the object.
	Log *slog.Logger

	objectContext

	request *hook.HandlerRequest
	before  []byte
	// step is set by a completed step.
	step *stepProgress
	// live is set for daemons.
	live trigger.Live
}

func newCall[T any](of *sdk.Controller, handler string, n *hook.HandlerRequest) (*Call[T], error) {
	c := &Call[T]{
		Object:  new(T),
		Changes: n.Changes, Reason: n.Reason, Attempt: n.Attempt, FirstAttempt: n.FirstAttempt, EventType: n.Event, Gone: n.Deleted,
		Since:         n.Since,
		objectContext: objectContext{sdk.NewInvocation(of, handler)},
	}
	if err := c.load(n); err != nil {
		return nil, err
	}
	if n.PreviousState != nil {
		var err error
		if c.Old, err = sdk.Decode[T](n.PreviousState); err != nil {
			return nil, err
		}
	}
	c.Log = c.call.ObjectLogger().With("handler", handler)
	return c, nil
}

// load takes over the object of a request.
func (c *Call[T]) load(n *hook.HandlerRequest) error {
	now, err := sdk.Decode[T](n.Object)
	if err != nil {
		return err
	}
	before, err := json.Marshal(now)
	if err != nil {
		return sdk.Permanentf("write the object as JSON: %w", err)
	}
	if err := c.call.ReadMetadata(now, n.Object); err != nil {
		return err
	}
	*c.Object, c.before, c.request = *now, before, n
	return nil
}

func (c *Call[T]) buildResponse() (*hook.HandlerResponse, error) {
	out := &c.call.Output
	response := &hook.HandlerResponse{
		Apply: out.Apply, Delete: out.Delete, Events: out.Events, Conditions: out.Conditions, Message: out.Message,
		RetryAfter: out.RequeueAfter,
	}
	after, err := json.Marshal(c.Object)
	if err != nil {
		c.call.Fail("write the object as JSON: %w", err)
	} else if !c.Gone {
		response.Patch, response.Status, err = mergepatch.Between(c.before, after)
		c.call.AddProblem(err)
	}
	if err := c.call.Problems(); err != nil {
		return nil, err
	}
	return response, nil
}

// ApplyOption configures Call.Apply.
type ApplyOption interface{ applyTo(*sdk.ApplyOptions) }

type applyOption func(*sdk.ApplyOptions)

func (o applyOption) applyTo(a *sdk.ApplyOptions) { o(a) }

// Unowned applies an object without an owner reference: it is not deleted with the
// handled object, and Setpoint does not watch it.
func Unowned() ApplyOption { return applyOption(func(a *sdk.ApplyOptions) { a.Unowned = true }) }

// CopyLabels adds the labels of the handled object that the object does not have.
func CopyLabels() ApplyOption { return applyOption(func(a *sdk.ApplyOptions) { a.CopyLabels = true }) }

// Apply creates or updates an object by server-side apply. Fields of an earlier Apply
// that this one omits are removed. The handled object owns it, unless Unowned is set.
//
// The kind must be declared by Owns or Applies. The default namespace and name are those
// of the handled object. With generateName the object gets a generated name that is
// stable across calls.
func (c *Call[T]) Apply(o any, options ...ApplyOption) {
	var opts sdk.ApplyOptions
	for _, option := range options {
		option.applyTo(&opts)
	}
	c.call.ApplyObject(o, opts)
}

// Delete deletes an object by its kind and name, in its namespace or that of the handled
// object. A missing object is not an error. The kind must be declared by Owns, for
// objects that the handled object owns, or by Deletes.
func (c *Call[T]) Delete(o any) { c.call.DeleteObject("Delete", o, hook.Deletion{}) }

// DeleteAll deletes all objects of a kind that match a label selector, in the namespace
// of obj or that of the handled object. An empty selector is an error.
func (c *Call[T]) DeleteAll(obj any, selector string) {
	c.call.DeleteSelected("DeleteAll", obj, hook.Deletion{Selector: selector})
}

// Evict evicts a pod. If a PodDisruptionBudget prevents it, Setpoint retries. Evicts must
// declare it, whether or not the object owns the pod.
func (c *Call[T]) Evict(pod *corev1.Pod) {
	c.call.DeleteObject("Evict", pod, hook.Deletion{Evict: true})
}

// EvictAll evicts the pods that match a label selector in the namespace of the handled
// object.
func (c *Call[T]) EvictAll(selector string) {
	c.call.DeleteSelected("EvictAll", &corev1.Pod{}, hook.Deletion{Selector: selector, Evict: true})
}

// Owned reads the objects that the handled object owns, of a kind in Owns. Into points to
// a slice of the kind's type, such as *[]corev1.ConfigMap, which Owned empties first;
// *[]Unstructured takes all kinds.
func (c *Call[T]) Owned(into any) { c.call.ReadGroups("Owned", c.request.Owned, into) }

// List reads the objects of a kind in Reads that match a label selector, such as
// "app=web,tier!=cache"; "" matches all. It reads in the namespace of the handled object,
// or in all namespaces for a cluster-scoped one. Into points to a slice of the kind's
// type, such as *[]corev1.Pod, which List empties first. List reads from the API server
// without a cache: do not call it often.
func (c *Call[T]) List(ctx context.Context, into any, selector string) error {
	return c.call.List(ctx, c.request, into, selector)
}

// Memory returns a value that handlers of a kind keep in memory for the object of a call,
// one M for each object. It is new at first, and dropped when the object is deleted or
// the program stops. Setpoint calls handlers of one object one after the other, but
// concurrently with daemons: an M that both use needs a lock.
func Memory[M, T any](c *Call[T]) *M {
	fresh := func() any { return new(M) }
	return c.call.Memory(reflect.TypeFor[M](), fresh).(*M) //nolint:forcetypeassert // By its type.
}

// ErrConflict means that Call.Write would overwrite a change of another client that the
// daemon has not observed. Call Refresh and decide again, or return the error: Setpoint
// then restarts the daemon with the current object.
var ErrConflict = handler.ErrDaemonConflict

// Write writes what a daemon has requested so far. Object is then the stored object, with
// the changes of other clients. If another client changed a field that the daemon
// changes, Write writes nothing and returns ErrConflict. In other handlers Write returns
// an error, because Setpoint writes when they return.
func (c *Call[T]) Write() error {
	if c.live == nil {
		return errors.New("setpoint: Call.Write requires a daemon")
	}
	response, err := c.buildResponse()
	if err != nil {
		return err
	}
	n, err := c.live.Respond(response)
	if err != nil {
		return err
	}
	c.call.Output = sdk.Output{}
	return c.load(n)
}

// Refresh updates Object and the owned objects in a daemon. It drops changes of Object
// that are not written; Object stays the same pointer.
func (c *Call[T]) Refresh() error {
	if c.live == nil {
		return errors.New("setpoint: Call.Refresh requires a daemon")
	}
	n, err := c.live.Current()
	if err != nil {
		return err
	}
	return c.load(n)
}

// Changed receives when another client or handler has changed the object since the last
// Write or Refresh of a daemon. It may also receive for changes of other fields. It is
// nil in other handlers, and never receives.
func (c *Call[T]) Changed() <-chan struct{} {
	if c.live == nil {
		return nil
	}
	return c.live.Updates()
}

// stepProgress is the progress of a handler with steps.
type stepProgress struct {
	// Steps are the names of the completed steps.
	Steps []string `json:"steps"`
}

// errStepCompleted ends a call after a step: Setpoint records it and calls the handler again.
var errStepCompleted = errors.New("setpoint: a step is complete; return the error of Call.Step from the handler")

// afterStep is the delay of the next call. Unlike hook.Immediately, it has no backoff.
const afterStep = time.Millisecond

// Step runs fn unless an earlier call of the handler has completed the step of this name for the
// same change. If the object is edited before all steps are complete, they go on with the newest
// object, and an update with the edit follows. Use it where work must not be repeated because later
// work fails:
//
//	if err := c.Step("create database", func() error { … }); err != nil {
//		return err
//	}
//	if err := c.Step("create user", func() error { … }); err != nil {
//		return err
//	}
//
// Step returns an error after each step that it runs, which the handler must return: Setpoint
// then writes what the handler requested, records the step on the object, and calls the handler
// again for the next one. If fn fails, Step returns its error, and the handler is retried from
// this step. A program that crashes within a step repeats it. Events and gone objects have no
// record: Step only runs fn then. Daemons have no steps.
func (c *Call[T]) Step(name string, fn func() error) error {
	if c.live != nil {
		return sdk.Permanentf("Step %q: a daemon has no steps", name)
	}
	if c.Reason == ReasonEvent || c.Gone {
		return fn()
	}
	var done stepProgress
	if c.request.Progress != nil {
		if err := json.Unmarshal(c.request.Progress, &done); err != nil {
			return sdk.Permanentf("Step %q: read the progress: %w", name, err)
		}
	}
	if slices.Contains(done.Steps, name) {
		return nil
	}
	if err := fn(); err != nil {
		return err
	}
	c.step = &stepProgress{Steps: append(done.Steps, name)}
	return errStepCompleted
}

// addStep adds the completed step to a response.
func (c *Call[T]) addStep(to *hook.HandlerResponse) error {
	progress, err := json.Marshal(c.step)
	if err != nil {
		return err
	}
	to.Progress, to.RetryAfter = progress, afterStep
	return nil
}

// RetryAfter wraps an error of a handler so that Setpoint retries after this time. It
// retries other errors, and this one if the time is not positive, after an exponential
// backoff.
func RetryAfter(after time.Duration, err error) error {
	return &hook.RetryAfterError{After: after, Err: orUnknownError(err)}
}

// Permanent wraps an error of a handler so that Setpoint does not retry until the object
// changes.
func Permanent(err error) error { return &hook.TerminalError{Err: orUnknownError(err)} }

func orUnknownError(err error) error {
	if err == nil {
		return errors.New("unknown error")
	}
	return err
}
