package setpoint

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
)

// Unstructured is an object of any kind, for kinds without a Go type.
type Unstructured = unstructured.Unstructured

// Reason is why a handler is called.
type Reason = hook.Reason

// The reasons of handlers. See OnCreate and the other registrations.
const (
	ReasonCreate  = hook.ReasonCreate
	ReasonUpdate  = hook.ReasonUpdate
	ReasonDelete  = hook.ReasonDelete
	ReasonResume  = hook.ReasonResume
	ReasonEvent   = hook.ReasonEvent
	ReasonDrift   = hook.ReasonDrift
	ReasonRelated = hook.ReasonRelated
	ReasonTimer   = hook.ReasonTimer
)

// FieldChange is a changed field of an object, with JSON values.
type FieldChange = hook.FieldChange

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

	handler  *handler[T]
	request  *hook.HandlerRequest
	before   []byte
	response hook.HandlerResponse
	// step is set by a completed step.
	step *stepProgress
	// live is set for daemons.
	live *loop.Live
}

func newCall[T any](h *handler[T], n *hook.HandlerRequest) (*Call[T], error) {
	c := &Call[T]{
		Changes: n.Changes, Reason: n.Reason, Attempt: n.Attempt, FirstAttempt: n.FirstAttempt, EventType: n.Event, Gone: n.Deleted,
		Since:   n.Since,
		handler: h, request: n,
	}
	var err error
	if c.Object, err = decode[T](n.Object); err != nil {
		return nil, err
	}
	if c.objectContext, err = newObjectContext(&h.handlers.c, h.name, c.Object, n.Object); err != nil {
		return nil, err
	}
	if n.PreviousState != nil {
		if c.Old, err = decode[T](n.PreviousState); err != nil {
			return nil, err
		}
	}
	if c.before, err = json.Marshal(c.Object); err != nil {
		return nil, permanentError("write the object as JSON: %w", err)
	}
	c.Log = c.logger().With("handler", h.name)
	return c, nil
}

// ErrConflict means that Call.Write would overwrite a change of another client that the
// daemon has not observed. Call Refresh and decide again, or return the error: Setpoint
// then restarts the daemon with the current object.
var ErrConflict = loop.ErrConflict

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
	n, err := c.live.Write(response)
	if err != nil {
		return err
	}
	c.response, c.report = hook.HandlerResponse{}, objectReport{}
	return c.reload(n)
}

// Refresh updates Object and the owned objects in a daemon. It drops changes of Object
// that are not written; Object stays the same pointer.
func (c *Call[T]) Refresh() error {
	if c.live == nil {
		return errors.New("setpoint: Call.Refresh requires a daemon")
	}
	n, err := c.live.Get()
	if err != nil {
		return err
	}
	return c.reload(n)
}

// Changed receives when another client or handler has changed the object since the last
// Write or Refresh of a daemon. It may also receive for changes of other fields. It is
// nil in other handlers, and never receives.
func (c *Call[T]) Changed() <-chan struct{} {
	if c.live == nil {
		return nil
	}
	return c.live.Changed()
}

// reload replaces the request of the call with a newer one.
func (c *Call[T]) reload(n *hook.HandlerRequest) error {
	now, err := decode[T](n.Object)
	if err != nil {
		return err
	}
	renewed, err := newObjectContext(&c.handler.handlers.c, c.handler.name, now, n.Object)
	if err != nil {
		return err
	}
	if c.before, err = json.Marshal(now); err != nil {
		return permanentError("write the object as JSON: %w", err)
	}
	*c.Object, c.metadata, c.request = *now, renewed.metadata, n
	return nil
}

func (c *Call[T]) buildResponse() (*hook.HandlerResponse, error) {
	after, err := json.Marshal(c.Object)
	if err != nil {
		c.fail("write the object as JSON: %w", err)
	} else if !c.Gone {
		if c.response.Patch, c.response.Status, err = mergePatches(c.before, after); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	response := c.response
	response.Events, response.Conditions, response.Message, response.RetryAfter = c.report.events, c.report.conditions, c.report.message,
		c.report.requeueAfter
	return &response, nil
}
