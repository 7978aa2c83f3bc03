package setpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
)

// Unstructured is an object of any kind, for kinds that have no Go type.
type Unstructured = unstructured.Unstructured

// Reason says why a handler is called.
type Reason = hook.Reason

// The reasons. OnCreate and its like say more about each.
const (
	Create = hook.ReasonCreate
	Update = hook.ReasonUpdate
	Delete = hook.ReasonDelete
	Resume = hook.ReasonResume
	Event  = hook.ReasonEvent
	Drift  = hook.ReasonDrift
	Timer  = hook.ReasonTimer
)

// Change is one field of an object that is not what it was, as JSON.
type Change = hook.FieldChange

// Call tells a handler what happened to one object, and is told by it what to
// write. Nothing is written before the handler has returned nil, and nothing at
// all if one of the methods was given something that cannot be: then the call
// fails for good and says why.
//
// It is for one goroutine at a time, and not to be kept.
type Call[T any] struct {
	// Object is the object as it is. It is the handler's own: the changes that are
	// made to it, its labels, its annotations and its status are written. Nothing
	// else of its metadata can be changed. A list is written as a whole.
	Object *T
	// Old is the object as the handler last dealt with it, nil where that is not
	// known: on creation, and of what changed while the program did not run.
	Old *T
	// Changes says how Object differs from Old.
	Changes []Change
	// Reason says what happened.
	Reason Reason
	// Attempt counts how often this has failed already.
	Attempt int
	// Gone says that the object of an event does not exist any more.
	Gone bool
	// Log has the names of the controller, the handler and the object.
	Log *slog.Logger

	of       *handler[T]
	notice   *hook.Notice
	handled  handled
	before   []byte
	out      hook.Answer
	names    map[string]int
	problems []error
	// write is set for a daemon.
	write func(*hook.Answer) error
}

// handled is what is looked at of the object, whatever T knows of it.
type handled struct {
	UID    string
	Labels map[string]string
}

func newCall[T any](h *handler[T], n *hook.Notice) (*Call[T], error) {
	c := &Call[T]{
		Changes: n.Changes, Reason: n.Reason, Attempt: n.Attempt, Gone: n.Gone,
		of: h, notice: n, names: map[string]int{},
	}
	var err error
	if c.Object, err = decode[T](n.Object); err != nil {
		return nil, err
	}
	if c.handled, err = readHandled(n.Object); err != nil {
		return nil, err
	}
	if n.Old != nil {
		if c.Old, err = decode[T](n.Old); err != nil {
			return nil, err
		}
	}
	if c.before, err = json.Marshal(c.Object); err != nil {
		return nil, permanently("write the object as JSON: %w", err)
	}
	c.Log = h.of.c.app.logger().With("controller", h.of.c.name(), "handler", h.name, "object", c.ref())
	return c, nil
}

func readHandled(data json.RawMessage) (handled, error) {
	var o struct{ Metadata handled }
	if err := json.Unmarshal(data, &o); err != nil {
		return handled{}, permanently("read the object's metadata: %w", err)
	}
	return o.Metadata, nil
}

// ref names the object in logs.
func (c *Call[T]) ref() string {
	if c.notice.Namespace == "" {
		return c.notice.Name
	}
	return c.notice.Namespace + "/" + c.notice.Name
}

// Event tells something at the object, as a Kubernetes Event. The reason is one
// word in CamelCase; the format and what goes in it make a sentence.
func (c *Call[T]) Event(reason, format string, args ...any) { c.tell("Normal", reason, format, args) }

// Warn is Event for something that is not well.
func (c *Call[T]) Warn(reason, format string, args ...any) { c.tell("Warning", reason, format, args) }

func (c *Call[T]) tell(kind, reason, format string, args []any) {
	c.out.Events = append(c.out.Events, hook.Event{Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// Condition sets a condition of the object's status, by its type. Type, Status,
// Reason and Message count; when it last changed and for which generation it
// holds is kept by the loop.
func (c *Call[T]) Condition(condition metav1.Condition) {
	c.out.Conditions = append(c.out.Conditions, hook.Condition{
		Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
	})
}

// Message says in a sentence how the object is doing.
func (c *Call[T]) Message(format string, args ...any) { c.out.Message = fmt.Sprintf(format, args...) }

// Requeue has the handler told the same once more after that time, although all
// that it did is written: it is not done.
func (c *Call[T]) Requeue(after time.Duration) {
	if after <= 0 {
		c.fail("Requeue(%s): must be more than nothing", after)
	}
	c.out.RetryAfter = after
}

// Write writes what a daemon has had to say so far, and goes on. In any other
// handler it is an error: what those say is written when they return.
func (c *Call[T]) Write() error {
	if c.write == nil {
		return errors.New("setpoint: Call.Write is for daemons")
	}
	answer, err := c.answer()
	if err != nil {
		return err
	}
	if err := c.write(answer); err != nil {
		return err
	}
	c.out = hook.Answer{}
	c.before, err = json.Marshal(c.Object)
	return err
}

// answer is what the handler wants written.
func (c *Call[T]) answer() (*hook.Answer, error) {
	after, err := json.Marshal(c.Object)
	if err != nil {
		c.fail("write the object as JSON: %w", err)
	} else if !c.Gone {
		if c.out.Patch, c.out.Status, err = patches(c.before, after); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	if len(c.problems) > 0 {
		return nil, Permanent(errors.Join(c.problems...))
	}
	answer := c.out
	return &answer, nil
}

// fail notes what cannot be. The call fails with it in the end.
func (c *Call[T]) fail(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}
