package setpoint

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
)

// Unstructured is an object of any kind, for kinds that have no Go type.
type Unstructured = unstructured.Unstructured

// Reason says why a handler is called.
type Reason = hook.Reason

// The reasons. OnCreate and its like say more about each.
const (
	ReasonCreate = hook.ReasonCreate
	ReasonUpdate = hook.ReasonUpdate
	ReasonDelete = hook.ReasonDelete
	ReasonResume = hook.ReasonResume
	ReasonEvent  = hook.ReasonEvent
	ReasonDrift  = hook.ReasonDrift
	ReasonTimer  = hook.ReasonTimer
)

// FieldChange is one field of an object that is not what it was, as JSON.
type FieldChange = hook.FieldChange

// Call tells a handler what happened to one object, and is told by it what to
// write. Nothing is written before the handler has returned nil, and nothing at
// all if one of the methods was given something that cannot be: then the call
// fails for good and says why.
//
// It is for one goroutine at a time, and not to be kept.
type Call[T any] struct {
	// Object is the object as it is, with what handlers that were called just before
	// have to say of it; in a daemon as it was when the daemon was started, and from
	// then on as the latest Write or Refresh left it. It is the handler's own: the changes that are
	// made to it, its labels, its annotations and its status are written. Nothing
	// else of its metadata can be changed. A list is written as a whole.
	Object *T
	// Old is the object as the handler last dealt with it, nil where that is not
	// known: on creation, and of what changed while the program did not run. With
	// KeepPreviousState it is known of that too, as far as the handler watches it.
	Old *T
	// Changes says how Object differs from Old.
	Changes []FieldChange
	// Reason says what happened.
	Reason Reason
	// Attempt counts how often this has failed already.
	Attempt int
	// Gone says that the object of an event does not exist any more.
	Gone bool
	// Since is since when what the handler watches is as it is now, as far as the
	// program has seen: no earlier than it was there to see it. Of an update that the
	// handler asked to be told of again, it is kept across restarts, in seconds.
	Since time.Time
	// Log has the names of the controller, the handler and the object.
	Log *slog.Logger

	objectContext

	handler  *handler[T]
	request  *hook.HandlerRequest
	before   []byte
	response hook.HandlerResponse
	// live is set for a daemon.
	live *handle.Live
}

func newCall[T any](h *handler[T], n *hook.HandlerRequest) (*Call[T], error) {
	c := &Call[T]{
		Changes: n.Changes, Reason: n.Reason, Attempt: n.Attempt, Gone: n.Deleted, Since: n.Since,
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

// ErrConflict ends a Call.Write that would overwrite what another client wrote since the
// daemon last saw the object: call Refresh and decide again, or return the error, and the
// daemon is started again with the object as it is.
var ErrConflict = handle.ErrConflict

// Write writes what a daemon has had to say so far, and goes on: Object is the object as
// it is stored then, with what other clients changed. Where a field that the daemon
// changed was changed by another client as well, it writes nothing and returns an
// ErrConflict. In any other handler it is an error: what those say is written when they
// return.
func (c *Call[T]) Write() error {
	if c.live == nil {
		return errors.New("setpoint: Call.Write is for daemons")
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

// Refresh has Object, and what it owns, be as they are now, in a daemon. Changes of Object
// that were not written are dropped; Object stays the same pointer.
func (c *Call[T]) Refresh() error {
	if c.live == nil {
		return errors.New("setpoint: Call.Refresh is for daemons: in other handlers the object is as it is")
	}
	n, err := c.live.Get()
	if err != nil {
		return err
	}
	return c.reload(n)
}

// Changed receives when another client, or another handler, has changed the object since
// a daemon last saw it, by Write or Refresh. It may receive where nothing differs that
// the daemon looks at. It is nil, and so never receives, in any other handler.
func (c *Call[T]) Changed() <-chan struct{} {
	if c.live == nil {
		return nil
	}
	return c.live.Changed()
}

// reload makes a newer notice the one that the call is about.
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

// buildResponse is what the handler wants written.
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
	response.Events, response.Conditions, response.Message, response.RetryAfter = c.report.events, c.report.conditions, c.report.message, c.report.requeueAfter
	return &response, nil
}
