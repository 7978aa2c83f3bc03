// Package handle calls handlers when something happens to objects, and writes what
// they answer: when this changes, do that.
//
// Here live finding out which handlers an object is due for, the record of what
// each has dealt with, the clocks of timers, daemons, retries, and the writing of
// answers. What must not: how a handler is reached, what a controller's spec looks
// like, and the way from a parent to its children, which is the room engine's.
//
// The host makes a Controller of every Program; compile and the SDK make those.
package handle

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Program is one controller made of handlers, ready to run.
type Program struct {
	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as its handlers see it; nil for a Go program.
	Object json.RawMessage
	// Resource is the kind of object it handles.
	Resource object.Resource
	// Labels and Fields are selectors that the API server applies; "" selects all.
	Labels, Fields string
	// Matches says which of the selected objects are handled; nil for all.
	Matches func(*object.Object) bool
	// Handlers are told in this order.
	Handlers []Handler
	// Namespaces are those whose objects are handled; all if there is none.
	Namespaces []string
	// Owns are the kinds of the objects it applies and wants to hear of. Those that
	// the handled object controls may also be deleted.
	Owns []object.Resource
	// Writes say what else may be applied and deleted. An answer that goes beyond
	// both is refused whole, as terminal.
	Writes []WritePermission
	// Reads are the kinds of the objects that handlers may list, in Namespaces alone
	// if there are any.
	Reads []object.Resource
	// HandledAnnotation is the annotation that keeps what the handlers have dealt with.
	// HandledStatusKey, if not empty, is the name under which the status does, where the
	// schema of the kind has HandledStatusField: then both are written in one request.
	HandledAnnotation, HandledStatusKey string
	// Finalizer is the name under which an object is kept until its Delete
	// handlers and daemons are done; only used where there are any.
	Finalizer string
	// Conditions says that the status of the objects has a place for conditions by
	// the schema. Where that is not known, it has one when there are some.
	Conditions bool
	// Manager is the field manager of what it writes.
	Manager string
	// Namespace is where revisions are kept of objects that lie in none.
	Namespace string
	// Workers is how many objects are worked on at once; 32 if zero.
	Workers int
}

// WritePermission is what answers may do to objects of one kind.
type WritePermission struct {
	Resource object.Resource
	// Apply, Delete and Evict say what; pods alone are evicted.
	Apply, Delete, Evict bool
	// Namespace is where; everywhere if empty.
	Namespace string
	// Labels is a selector of those that may be written, as they are to be when
	// they are applied, as they are when they are deleted; "" selects all. What an
	// answer deletes by a selector of its own has to match both.
	Labels string
}

// Handler is one handler and when it is told.
type Handler struct {
	// Name is unique in its program and stays the same from release to release:
	// the record knows handlers by their names.
	Name string
	// On are the reasons it is told for; hook.ReasonTimer is meant by Every and Schedule, and
	// a Daemon has no reason.
	On []hook.Reason
	// Fields are those it watches, such as {"spec", "currency"}. None means all of
	// the object but its status and what others keep in its metadata: labels and
	// annotations count, managed fields and versions do not.
	Fields [][]string
	// KeepPreviousState keeps what the handler last dealt with in a ControllerRevision of the
	// object: it knows of an update, also after a restart, what it watches of the object
	// before. See Keepable.
	KeepPreviousState bool
	// When says whether the handler cares; nil always does. The old object is nil
	// where there is none, or none that is known.
	When func(old, now *object.Object) bool
	// Every tells the handler at this interval; Schedule by a calendar. At most
	// one of them.
	Every    time.Duration
	Schedule Schedule
	// Idle holds a timer back until no watched field has changed for so long.
	Idle time.Duration
	// Debounce holds an update back until no watched field has changed for so long.
	Debounce time.Duration
	// Jitter spreads a timer by up to this much.
	Jitter time.Duration
	// Daemon, if set, runs as long as the object is there and matches; it is told
	// to end by its context. See Daemon.
	Daemon Daemon
	// StopTimeout is how long a deleted object waits for a daemon whose context has
	// ended; DefaultStopTimeout if zero.
	StopTimeout time.Duration
	// Timeout bounds one call: its context ends then. 0 for none.
	Timeout time.Duration
	// Retries is how often a failed call is made again; no limit if zero, none if
	// negative. Within is for how long.
	Retries      int
	RetryTimeout time.Duration
	// Backoff grows from the first to the second of these, doubling, with jitter;
	// 1s and 5m if zero.
	Backoff, MaxBackoff time.Duration
	// Optional lets an object go although this Delete handler gave up.
	Optional bool
	// Do is who is told; nil for a daemon.
	Do hook.Handler
}

// Schedule is a calendar, such as a cron expression.
type Schedule interface {
	// Next is the first moment after t.
	Next(t time.Time) time.Time
}

// Daemon works for one object until its context ends. The notice is of the object as it
// was at the start; live is the object from then on, and writes, any number of times. A
// daemon that returns nil has done its work and is not started again; one that fails is,
// after a backoff.
type Daemon func(ctx context.Context, n *hook.HandlerRequest, existing *Live) error

// Tools are what a controller works with.
type Tools struct {
	Store    *cache.Cache
	Writer   *apply.Writer
	Observer Observer
	// Unrecorded says that nobody keeps accounts of runs: the Observer is told what
	// they were about, how long they took and how they ended, and no more.
	Unrecorded bool
	Log        *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Observer receives what a controller does.
type Observer interface {
	controller.Observer
	// Handled receives each call of a handler; err is nil if it succeeded.
	Handled(program, handler string, reason hook.Reason, took time.Duration, err error)
}
